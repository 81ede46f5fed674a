"""Limits the CPU and wall time of one call inside this process. Not on Windows.

A call that takes too long gets an exception. Code under test can swallow it, so the timer fires again; if control never returns
to Python, the kernel ends this process.
"""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn, TypeVar

    T = TypeVar("T")

AGAIN = 0.02  # CPU seconds after which a swallowed exception is raised again


class Expired(BaseException):
    """Raised in a call that took too long."""


class TimeLimit:
    """The timers of this process; one at a time, in its main thread."""

    def __init__(self) -> None:
        self.expired = False  # whether the last call ran out of time, even if it swallowed the exception
        signal.signal(signal.SIGPROF, self._fire)
        signal.signal(signal.SIGALRM, self._fire)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)

    def _fire(self, signum: int, frame: object) -> NoReturn:
        self.expired = True
        raise Expired

    def run(self, call: Callable[[], T], cpu: float, wall: float) -> T | None:
        """What `call()` returns, or None when it raised anything or ran out of time."""
        self.expired = False
        try:
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, 4 * cpu + 0.5)
                signal.setitimer(signal.ITIMER_REAL, wall, 0.1)
                signal.setitimer(signal.ITIMER_PROF, cpu, AGAIN)
                return call()
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except BaseException:
            return None
