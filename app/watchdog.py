"""Ends a process whose event loop hangs: it cannot end by itself, and Docker restarts what has ended, never what is unhealthy.

What the process was doing is taken over by others when its leases expire, as after any kill. Knows nothing of the work.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LOOKS = 24  # without an answer: looks, not seconds, so that a machine that slept is not taken for one that hangs
SECONDS = 5.0  # between two looks
EXIT_CODE = 70  # EX_SOFTWARE


@contextmanager
def ended_when_silent() -> Iterator[None]:
    """While the block runs, a thread asks the running loop for a sign of life; without any it tells where every thread hangs
    and ends the process at once."""
    over = threading.Event()
    watching = threading.Thread(target=_watch, args=(asyncio.get_running_loop(), over), name="watchdog", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()


def _watch(loop: asyncio.AbstractEventLoop, over: threading.Event) -> None:
    while not over.is_set():
        answered = threading.Event()
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # it is closed
            return
        for _ in range(LOOKS):
            if over.wait(SECONDS):
                return
            if answered.is_set():
                break
        else:
            # Not by the logger, and not by `sys.stderr`: what hangs may hold their locks.
            line = {"event": "the event loop hangs; this process ends", "level": "critical", "seconds": LOOKS * SECONDS}
            os.write(2, json.dumps(line).encode() + b"\n")
            faulthandler.dump_traceback(file=2)
            os._exit(EXIT_CODE)
