"""Who runs beside us, as the kernel tells it: nobody can say that of himself. Linux only.

Who is at the other end of a connection; and who comes from us, however it tried to leave.
"""

import os
import signal
import socket
import struct
import sys
import time

_CREDENTIALS = struct.Struct("3i")
_DEPTH = 200  # ancestors asked for
_ADOPTS = 36  # PR_SET_CHILD_SUBREAPER
_PATIENCE = 5.0  # seconds for all to end


def pid_of(connection):
    """The process that connected."""
    told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(told)[0]


def ancestors(pid):
    """The process itself and those that it comes from, as far as they live. One that left its parent comes from nobody here."""
    found = []
    while pid > 1 and len(found) < _DEPTH:
        found.append(pid)
        try:
            with open("/proc/%d/stat" % pid, "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return found


def may_speak(pid, command, speakers):
    """Whether `pid` was started by the process `command` and by nobody who speaks already: what tests start has no say."""
    line = ancestors(pid)
    return command in line and not set(speakers).intersection(line)


def adopt(does):
    """Whether children of ours that leave their parents become ours; returns whether that could be had.

    A session of its own and an emptied environment hide a process from those who look for it, this does not.
    """
    if not sys.platform.startswith("linux"):
        return True  # nothing untrusted runs there
    try:
        import ctypes

        return ctypes.CDLL(None).prctl(_ADOPTS, int(does), 0, 0, 0) == 0
    except (ImportError, OSError, AttributeError):
        return False


def end_all(spared=()):
    """Kill everything that comes from us, while we adopt; returns whether nothing of it is left.

    `spared` are servers, with those that run the same program for them: what else a server was asked to start is not spared.
    """
    if not sys.platform.startswith("linux"):
        return True
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        found = _descendants(os.getpid(), set(spared))
        if found is None:
            return False
        if not found:
            return True
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        for pid in found:
            try:
                os.waitpid(pid, os.WNOHANG)
            except OSError:
                pass  # no child of ours yet
        time.sleep(0.001)
    return False


def _descendants(pid, spared):
    children = {}
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return None
    for name in names:
        try:
            with open("/proc/%s/stat" % name, "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
            parent = int(parent)
        except (OSError, ValueError):
            continue
        if state == b"Z" and parent != pid:
            continue  # it runs no more; who started it may want to know how it ended
        children.setdefault(parent, []).append(int(name))
    found, waiting = [], [(pid, None)]
    while waiting:
        parent, server = waiting.pop()
        for child in children.get(parent, ()):
            runs = _program(child)
            serves = runs if child in spared else server if runs == server else None
            if child not in spared and serves is None:
                found.append(child)
            waiting.append((child, serves))
    return found


def _program(pid):
    """Where its program lies, "" where nobody may know: it is another user's."""
    try:
        return os.readlink("/proc/%d/exe" % pid)
    except OSError:
        return ""
