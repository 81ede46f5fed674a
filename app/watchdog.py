"""Ends a process whose event loop hangs: it cannot end by itself, and Docker restarts what has ended, never what is unhealthy.

What the process was doing is taken over by others when its leases expire, as after any kill. Knows nothing of the work.

The watch is faulthandler's, a thread of C: a thread of Python would wait for the interpreter's lock, which what hangs may
hold. It ends the process with exit code 1, after it wrote to stderr where every thread hangs. No signal could do that: those
that need no handler do not end the first process of a container.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 120.0  # without a sign of life; a process that was stopped for so long (SIGSTOP, `docker pause`) ends when it goes on
SIGN_SECONDS = 5.0  # between two signs of life


@contextmanager
def ended_when_silent() -> Iterator[None]:
    """While the block runs, the running loop has to put off the end of the process every few seconds. One block at a time."""
    loop = asyncio.get_running_loop()
    stderr = _stderr_that_never_blocks()
    putting_off: asyncio.TimerHandle

    def put_off() -> None:
        nonlocal putting_off
        faulthandler.dump_traceback_later(SECONDS, exit=True, file=stderr)
        putting_off = loop.call_later(SIGN_SECONDS, put_off)

    put_off()
    try:
        yield
    finally:
        putting_off.cancel()
        faulthandler.cancel_dump_traceback_later()
        os.close(stderr)


def _stderr_that_never_blocks() -> int:
    """A file descriptor. A full pipe may be what the process hangs at, and must not hold up its end too.

    Opened anew, as the mode of descriptor 2 is everybody's who shares it. What cannot be opened anew (a socket, or no /proc)
    is not written to: then the process ends without a word.
    """
    with contextlib.suppress(OSError):
        return os.open("/proc/self/fd/2", os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    return os.open(os.devnull, os.O_WRONLY)
