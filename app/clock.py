"""The current time, from one object that tests can move.

Times are timezone-aware and in UTC. Durations are measured with `time.monotonic`, or with `elapsed` if the time during which
the machine was suspended must count.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The current time, timezone-aware, in UTC."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed() -> float:
    """Seconds since a fixed moment; on Linux, unlike `time.monotonic`, this includes time while the machine was suspended."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
