"""What time it is: the one place that asks the system, so that tests can move time.

Times are always aware and in UTC. Waiting is not this room's business; durations are measured with `time.monotonic`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The time, aware, in UTC."""


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)
