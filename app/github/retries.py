"""How long we wait for GitHub, and how fast we write to it: pure rules, and one pacer.

After GitHub's best practices for the REST API: honour `retry-after`, back off with jitter, do not hurry writes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from app.github.errors import GitHubError, Invalid, RateLimited, Unavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds of all waiting, in seconds."""

    tries: int = 4
    first_delay: float = 0.5
    longest_delay: float = 8.0
    longest_rate_limit: float = 60.0  # a longer one is raised, so that the job can be put off
    timeout: float = 30.0  # of one request and its answer
    download: float = 300.0  # of one archive or log
    burst: int = 10  # writes of one installation that need not wait
    write_interval: float = 1.0  # between the writes after that

    def backoff(self, tried: int) -> float:
        """Full jitter after the first half: the n-th delay lies between half of and all of first * 2^(n-1)."""
        ceiling = min(self.longest_delay, self.first_delay * 2.0 ** max(0, tried - 1))
        return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - not for secrets

    def delay(self, failure: GitHubError, tried: int, repeatable: bool) -> float | None:
        """Seconds to wait before the same request may be sent again, or None when it must not.

        A rate limit refused the request before it did anything, so that even a write may be repeated after it; after
        anything else only a `repeatable` one may.
        """
        if tried >= self.tries:
            return None
        if isinstance(failure, RateLimited):
            return failure.retry_after + self.backoff(1) if failure.retry_after <= self.longest_rate_limit else None
        if isinstance(failure, Unavailable) and repeatable:
            return self.backoff(tried)
        return None


class Pace:
    """Lets the first `burst` writes through at once and then one an interval (a token bucket)."""

    def __init__(self, burst: int, interval: float) -> None:
        self._burst, self._interval = burst, interval
        self._level = float(burst)
        self._at = monotonic()

    def reserve(self, now: float) -> float:
        """Seconds that a write which is wanted at `now` (of a monotonic clock) has to wait; it counts as made."""
        refilled = (now - self._at) / self._interval if self._interval else float(self._burst)
        self._level = min(float(self._burst), self._level + refilled) - 1.0
        self._at = now
        return max(0.0, -self._level) * self._interval

    async def wait(self) -> None:
        if (seconds := self.reserve(monotonic())) > 0:
            await asyncio.sleep(seconds)


async def find_or_create(find: Callable[[], Awaitable[T | None]], create: Callable[[], Awaitable[T]], patience: Patience) -> T:
    """What `find` finds, else what `create` makes, so that an answer that was lost does not make two.

    `create` must not repeat itself. When it fails without our knowing whether it took effect (or GitHub says that the thing
    exists already, which `find` did not see yet), we wait and look again before another try. Raises what `create` raised last.
    """
    failure: GitHubError | None = None
    for tried in range(1, patience.tries + 1):
        if (found := await find()) is not None:
            return found
        if failure is not None and tried == patience.tries:
            break
        try:
            return await create()
        except (Unavailable, Invalid) as error:
            if isinstance(error, Invalid) and not error.says("already exists"):
                raise
            failure = error
        await asyncio.sleep(patience.backoff(tried))
    raise failure or Unavailable("no try was left")
