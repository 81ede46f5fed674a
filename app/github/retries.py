"""How long to retry requests to GitHub, and how fast to write.

Follows GitHub's best practices for the REST API: honour `retry-after`, back off with jitter, pace writes.
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
class RetryPolicy:
    """Bounds of all waits, in seconds."""

    tries: int = 4
    first_delay: float = 0.5
    longest_delay: float = 8.0
    longest_rate_limit: float = 60.0  # a longer one is raised, so that the job can be postponed
    timeout: float = 30.0  # of one request and its answer
    download: float = 300.0  # of one archive or log
    burst: int = 10  # writes of one installation without a wait
    write_interval: float = 1.0  # between later writes

    def backoff(self, tried: int) -> float:
        """Exponential backoff with jitter: the n-th delay is between half and all of first * 2^(n-1)."""
        ceiling = min(self.longest_delay, self.first_delay * 2.0 ** max(0, tried - 1))
        return ceiling * random.uniform(0.5, 1.0)  # noqa: S311 - not for secrets

    def delay(self, failure: GitHubError, tried: int, repeatable: bool) -> float | None:
        """Seconds until the request may be sent again, or None if it must not be.

        A rate limit rejects a request before it takes effect, so any request may be repeated after it. After other failures,
        only a `repeatable` request may be.
        """
        if tried >= self.tries:
            return None
        if isinstance(failure, RateLimited):
            return failure.retry_after + self.backoff(1) if failure.retry_after <= self.longest_rate_limit else None
        if isinstance(failure, Unavailable) and repeatable:
            return self.backoff(tried)
        return None


class WritePacer:
    """A token bucket: the first `burst` writes pass at once, then one per interval."""

    def __init__(self, burst: int, interval: float) -> None:
        self._burst, self._interval = burst, interval
        self._level = float(burst)
        self._at = monotonic()

    def reserve(self, now: float) -> float:
        """Take a token at `now` (by a monotonic clock); returns the seconds to wait before the write."""
        refilled = (now - self._at) / self._interval if self._interval else float(self._burst)
        self._level = min(float(self._burst), self._level + refilled) - 1.0
        self._at = now
        return max(0.0, -self._level) * self._interval

    async def wait(self) -> None:
        if (seconds := self.reserve(monotonic())) > 0:
            await asyncio.sleep(seconds)


async def find_or_create(
    find: Callable[[], Awaitable[T | None]], create: Callable[[], Awaitable[T]], retry_policy: RetryPolicy
) -> T:
    """The result of `find`, or of `create` if there is none; a lost response does not create a second object.

    `create` must not retry by itself. If it fails and may have taken effect (or GitHub says that the object exists already,
    which `find` did not see yet), wait and look again before the next try. Raises `create`'s last error.
    """
    failure: GitHubError | None = None
    for tried in range(1, retry_policy.tries + 1):
        if (found := await find()) is not None:
            return found
        if failure is not None and tried == retry_policy.tries:
            break
        try:
            return await create()
        except (Unavailable, Invalid) as error:
            if isinstance(error, Invalid) and not error.says("already exists"):
                raise
            failure = error
        await asyncio.sleep(retry_policy.backoff(tried))
    raise failure or Unavailable("no try was left")
