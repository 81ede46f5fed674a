"""How long to retry requests to GitHub, and how fast to write.

Follows GitHub's best practices for the REST API: honour `retry-after`, back off with jitter, pace writes. GitHub counts the
writes of an installation, whichever worker sends them: at most 80 a minute and 500 an hour, with a second between two.
https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits
https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api#pause-between-mutative-requests
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Protocol, TypeVar

from app.github.errors import GitHubError, Invalid, RateLimited, Unavailable, Unreachable

T = TypeVar("T")
_LONGEST_BLOCK = 3600.0  # seconds; the longest window of GitHub's limits


@dataclass(frozen=True, slots=True)
class Rate:
    """`burst` writes at once, then one per `interval` seconds: in t seconds, at most burst + t / interval."""

    burst: int
    interval: float


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds of all waits, in seconds."""

    tries: int = 4
    first_delay: float = 0.5
    longest_delay: float = 8.0
    longest_rate_limit: float = 60.0  # a longer one is raised, so that the job can be postponed
    timeout: float = 30.0  # of one request and its answer
    connect: float = 5.0  # to the host of a download
    download: float = 300.0  # of one archive or log
    burst: int = 1  # writes of one installation, or of the App itself, without a wait
    write_interval: float = 1.0  # between later writes; GitHub asks for at least one second between any two
    hourly: Rate = Rate(250, 14.4)  # 500 in the first hour, 250 in each later one

    @property
    def write_rates(self) -> tuple[Rate, Rate]:
        return Rate(self.burst, self.write_interval), self.hourly

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
        if isinstance(failure, Unavailable) and not isinstance(failure, Unreachable) and repeatable:
            return self.backoff(tried)
        return None


class SharedBudget(Protocol):
    """The writes that all workers together may send; by installation."""

    async def reserve(self, installation_id: int, rates: Sequence[Rate], longest: float) -> float | None:
        """As `WritePacer.reserve`; None while the budget cannot be reached."""

    async def block(self, installation_id: int, rate: Rate, seconds: float) -> None:
        """As `WritePacer.block`; nothing happens while the budget cannot be reached."""


class WritePacer:
    """Paces the writes of one installation: by the budget that all workers share, or while that is away, by its own.

    Each rate is a generic cell rate algorithm (as in ATM networks): all it keeps is when its whole burst is free again.
    """

    def __init__(self, rates: Sequence[Rate], installation_id: int = 0, shared: SharedBudget | None = None) -> None:
        self._rates, self._installation_id, self._shared = rates, installation_id, shared
        self._free_at = [0.0] * len(rates)  # by a monotonic clock

    def reserve(self, now: float, longest: float = inf) -> float:
        """The seconds to wait at `now` before a write. Its place is taken, unless they are more than `longest`."""
        free_at = [max(now, at) + rate.interval for at, rate in zip(self._free_at, self._rates, strict=True)]
        seconds = max(0.0, *(at - rate.burst * rate.interval - now for at, rate in zip(free_at, self._rates, strict=True)))
        if seconds <= longest:
            self._free_at = free_at
        return seconds

    async def wait(self, longest: float) -> None:
        """Wait for a place among the writes. Raises `RateLimited` instead of waiting for more than `longest` seconds."""
        seconds = await self._shared.reserve(self._installation_id, self._rates, longest) if self._shared else None
        if seconds is None:
            seconds = self.reserve(monotonic(), longest)
        if seconds > longest:
            raise RateLimited("Selfheal's own limit of writes to GitHub was reached", seconds)
        await asyncio.sleep(seconds)

    async def block(self, seconds: float) -> None:
        """After GitHub has asked for a wait: nobody writes for so long, and then without a burst."""
        rate, seconds = self._rates[0], min(seconds, _LONGEST_BLOCK)
        if self._shared:
            await self._shared.block(self._installation_id, rate, seconds)
        self._free_at[0] = max(self._free_at[0], monotonic() + seconds + rate.burst * rate.interval)


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
