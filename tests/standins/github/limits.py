"""GitHub's secondary limits of what one installation writes, whichever of its tokens is used.

"In general, no more than 80 content-generating requests per minute and no more than 500 content-generating requests per hour
are allowed": https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits
"""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque

from tests.standins.github.routing import Answer, Call, Refusal

LIMITS = ((80, 60.0), (500, 3600.0))


class WriteLimits:
    """`allowed`: (requests, seconds); a test may set smaller ones."""

    def __init__(self) -> None:
        self.allowed: tuple[tuple[int, float], ...] = LIMITS
        self.refused: list[str] = []
        self._written: dict[int, deque[float]] = defaultdict(lambda: deque(maxlen=1000))

    def refusal(self, call: Call) -> Answer | None:
        installation = call.actor.installation
        if call.method == "GET" or installation is None:
            return None
        written, now = self._written[installation.id], time.monotonic()
        for most, seconds in self.allowed:
            if len(written) >= most and (since := now - written[-most]) < seconds:
                self.refused.append(f"{call.method} {call.path}")
                message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
                answer = Refusal(403, message).answer()
                answer.headers["retry-after"] = str(math.ceil(seconds - since))
                return answer
        written.append(now)
        return None
