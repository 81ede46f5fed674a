"""Ends a process whose event loop hangs. Docker restarts processes that end, not unhealthy ones.

Other workers take over its attempts when the leases expire, as after any kill.

The timer is faulthandler's, a C thread: a Python thread would wait for the interpreter's lock, which the hanging code may hold.
It writes every thread's stack to stderr and ends the process with exit code 1. A signal would not do: those without a handler
do not end the first process of a container.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 120.0  # without a heartbeat; a process stopped for longer (SIGSTOP, `docker pause`) ends when it continues
SIGN_SECONDS = 5.0  # between two heartbeats


@contextmanager
def exit_when_hung() -> Iterator[None]:
    """End the process if the running loop hangs during the block. One block at a time."""
    loop = asyncio.get_running_loop()
    stderr = _stderr_that_never_blocks()
    timer: asyncio.TimerHandle

    def restart_timer() -> None:
        nonlocal timer
        faulthandler.dump_traceback_later(SECONDS, exit=True, file=stderr)
        timer = loop.call_later(SIGN_SECONDS, restart_timer)

    restart_timer()
    try:
        yield
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()
        os.close(stderr)


def _stderr_that_never_blocks() -> int:
    """A non-blocking file descriptor of stderr: a full pipe, which the process may hang at, must not block its end too.

    Opened separately, because the mode of descriptor 2 is shared with other processes. If that fails (a socket, or no /proc),
    nothing is written.
    """
    with contextlib.suppress(OSError):
        return os.open("/proc/self/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    return os.open(os.devnull, os.O_WRONLY)
