"""Identifies other processes by what the kernel reports about them, which they cannot forge. Linux only.

Finds the process at the other end of a connection, and all our descendants, however they tried to detach.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

_CREDENTIALS = struct.Struct("3i")
_DEPTH = 200  # most ancestors that are followed
_SET_CHILD_SUBREAPER = 36
_PATIENCE = 5.0  # seconds for all of them to end


def prctl() -> Callable[..., int] | None:
    """The C library's `prctl`, or None if it cannot be called."""
    try:
        import ctypes

        found: Any = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None
    return found  # type: ignore[no-any-return]


def pid_of(connection: socket.socket) -> int:
    """The id of the process that connected."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[0])


def ancestors(pid: int) -> list[int]:
    """The process itself and its living ancestors. The chain ends at a process that detached from its parent."""
    found: list[int] = []
    while pid > 1 and len(found) < _DEPTH:
        found.append(pid)
        try:
            with open("/proc/%d/stat" % pid, "rb") as file:
                pid = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return found


def is_runner(pid: int, command: int, known: Iterable[int]) -> bool:
    """Whether `pid` descends from `command` but from no process in `known`: what tests start cannot report verdicts."""
    line = ancestors(pid)
    return command in line and not set(known).intersection(line)


def set_subreaper(enabled: bool) -> bool:
    """Make orphaned descendants our children, or stop that; returns whether that worked.

    A new session or an empty environment does not hide a process from this.
    """
    if not sys.platform.startswith("linux"):
        return True  # nothing untrusted runs on such a system
    call = prctl()
    return call is not None and call(_SET_CHILD_SUBREAPER, int(enabled), 0, 0, 0) == 0


def kill_descendants(spared: Collection[int] = ()) -> bool:
    """Kill all our descendants, while we are the subreaper; returns whether none is left.

    `spared` are servers; their children are spared too if they run the same program.
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
                pass  # not our child yet
        time.sleep(0.001)
    return False


def _descendants(pid: int, spared: Collection[int]) -> list[int] | None:
    children: dict[int, list[int]] = {}
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return None
    for name in names:
        try:
            with open("/proc/%s/stat" % name, "rb") as file:
                state, ppid = file.read().rpartition(b")")[2].split()[:2]
            parent = int(ppid)
        except (OSError, ValueError):
            continue
        if state == b"Z" and parent != pid:
            continue  # a zombie, for its own parent to reap
        children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    waiting: list[tuple[int, str | None]] = [(pid, None)]
    while waiting:
        parent, server = waiting.pop()
        for child in children.get(parent, ()):
            runs = _program(child)
            serves = runs if child in spared else server if runs == server else None
            if child not in spared and serves is None:
                found.append(child)
            waiting.append((child, serves))
    return found


def _program(pid: int) -> str:
    """The path of its program; "" if that is hidden, as for another user's process."""
    try:
        return os.readlink("/proc/%d/exe" % pid)
    except OSError:
        return ""
