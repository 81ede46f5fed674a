"""Controls the order of tests, the seed of `random` and the clock in this process. Runs before code of the repository.

The hash seed and the time zone are environment variables, set from outside.
"""

from __future__ import annotations

import random
import sys

from . import clock
from .ordering import ordered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    from ..wire.channel import Channel

    T = TypeVar("T")


class RunConditions:
    def __init__(self, channel: Channel) -> None:
        self.shuffle, self.seed, epoch = (channel.conditions[name] for name in ("shuffle", "seed", "clock"))
        if epoch is not None:
            problem = clock.install(epoch)
            if problem:
                channel.send("note", text=problem)
        self.seed_random()

    def seed_random(self) -> None:
        """Before each test, so that its random numbers do not depend on the tests before it."""
        if self.seed is None:
            return
        random.seed(self.seed)
        numpy = sys.modules.get("numpy.random")
        if numpy is not None and hasattr(numpy, "seed"):
            numpy.seed(self.seed % 2**32)

    def ordered(self, tests: Iterable[T], name: Callable[[T], str]) -> list[T]:
        """The tests in the order of `shuffle`; those of one name stay together."""
        if self.shuffle is None:
            return list(tests)
        by_name: dict[str, list[T]] = {}
        for test in tests:
            by_name.setdefault(name(test), []).append(test)
        return [test for each in ordered(by_name, self.shuffle) for test in by_name[each]]
