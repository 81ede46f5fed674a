"""Who is at the other end of a connection, as the kernel tells it: nobody can say that of himself. Linux only."""

import socket
import struct

_CREDENTIALS = struct.Struct("3i")
_DEPTH = 200  # ancestors asked for


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
