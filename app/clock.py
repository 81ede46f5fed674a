"""What time it is: the one place that asks the system, so that tests can move time.

Times are always aware and in UTC. Waiting is not this room's business; durations are measured with `time.monotonic`,
and with `elapsed` where others go on while this machine is suspended.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The time, aware, in UTC."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed() -> float:
    """Seconds since some moment that never changes. On Linux also those while the machine was suspended, which
    `time.monotonic` leaves out.
    """
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
