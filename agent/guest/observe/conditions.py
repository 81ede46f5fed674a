"""Controls the order of tests, the seed of `random` and the clock in this process. Runs before the repository's code.

The hash seed and the time zone are environment variables, set from outside.

A seed determines the order of tests: it is the same for the same ids, whatever other tests run with them. Files are shuffled,
then the classes in them, then the tests in those, so that fixtures of a file or a class are set up once (as in
pytest-randomly). A negative seed reverses the order: of any two tests, each comes first under one of the two seeds. Code
outside the sandbox uses this too.

The clock of this process keeps running from where it is set. This covers `time.time` and similar functions, and the classes
`datetime.datetime` and `datetime.date` (replaced by stand-ins that accept real instances as their own, as in freezegun). Not
shifted: other processes that tests start, C extensions that ask the system, the times of files, `sleep` and monotonic clocks.
Code that was imported before (the test runner) keeps the real clock, so its durations stay right.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.util
import random
import sys
import time
from collections.abc import Callable, Iterable
from datetime import date as RealDate
from datetime import datetime as RealDatetime
from typing import Any, TypeVar

from ..wire.channel import Channel

T = TypeVar("T")


class RunConditions:
    def __init__(self, channel: Channel) -> None:
        self.shuffle, self.seed, epoch = (channel.conditions[name] for name in ("shuffle", "seed", "clock"))
        if epoch is not None:
            problem = set_clock(epoch)
            if problem:
                channel.send("note", text=problem)
        self.seed_random()

    def seed_random(self) -> None:
        """Called before each test, so that its random numbers do not depend on the tests before it."""
        if self.seed is None:
            return
        random.seed(self.seed)
        numpy = sys.modules.get("numpy.random")
        if numpy is not None and hasattr(numpy, "seed"):
            numpy.seed(self.seed % 2**32)

    def in_order(self, tests: Iterable[T], name: Callable[[T], str]) -> list[T]:
        """The tests in the order of `shuffle`; tests with the same name stay together."""
        if self.shuffle is None:
            return list(tests)
        by_name: dict[str, list[T]] = {}
        for test in tests:
            by_name.setdefault(name(test), []).append(test)
        return [test for each in ordered(by_name, self.shuffle) for test in by_name[each]]


def ordered(ids: Iterable[str], seed: int) -> list[str]:
    """`ids` in the order that `seed` defines."""

    def digest(part: str) -> str:
        return hashlib.sha256(("%d:%s" % (abs(seed), part)).encode("utf-8", "replace")).hexdigest()

    return sorted(ids, key=lambda name: [(digest(part), part) for part in _parts(name)], reverse=seed < 0)


def _parts(name: str) -> tuple[str, str, str]:
    """File, class and id of a test named "a.py::C::test", or "module.C.test" in unittest."""
    separator = "::" if "::" in name else "."
    pieces = name.partition("[")[0].split(separator)
    file = pieces[:1] if separator == "::" else pieces[:-2]
    return separator.join(file), separator.join(pieces[:-1]), name


def set_clock(epoch: float) -> str:
    """Set the clock to `epoch` (seconds since 1970). Returns why that is impossible, or ""."""
    # time-machine writes into the C structures of the real functions and would crash on ours; freezegun derives a class from
    # the real one, which our metaclass prevents. Tests that need a clock set it anyway where one of them is installed.
    for name in ("time_machine", "freezegun"):
        if importlib.util.find_spec(name) is not None:
            return f"the clock cannot be set because {name.replace('_', '-')} is installed, which sets it too"
    offset = epoch - time.time()
    _shift_time(offset)
    _shift_datetime(offset)
    return ""


def _shift_time(offset: float) -> None:
    now, now_ns = time.time, time.time_ns
    nanoseconds = int(offset * 10**9)
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _at(getattr(time, name), lambda: now() + offset))
    real_asctime, real_strftime = time.asctime, time.strftime
    localtime = time.localtime
    patched: Any = time
    patched.asctime = lambda moment=None: real_asctime(localtime() if moment is None else moment)
    patched.strftime = lambda form, moment=None: real_strftime(form, localtime() if moment is None else moment)
    patched.time = lambda: now() + offset
    patched.time_ns = lambda: now_ns() + nanoseconds
    for name, shift in (("clock_gettime", offset), ("clock_gettime_ns", nanoseconds)):
        if hasattr(time, name):
            setattr(time, name, _real_time_only(getattr(time, name), shift))


def _at(real: Callable[[float], Any], now: Callable[[], float]) -> Callable[[float | None], Any]:
    def at(seconds: float | None = None) -> Any:
        return real(now() if seconds is None else seconds)

    return at


def _real_time_only(real: Callable[[int], Any], shift: float) -> Callable[[int], Any]:
    return lambda clock: real(clock) + (shift if clock == time.CLOCK_REALTIME else 0)


def _shift_datetime(offset: float) -> None:
    shift = datetime.timedelta(seconds=offset)

    class Kind(type):
        """Instances of the real classes count as instances of their stand-ins."""

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, real_classes[cls]) if cls in real_classes else type.__instancecheck__(cls, value)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, real_classes[cls]) if cls in real_classes else type.__subclasscheck__(cls, other)

    class date(RealDate, metaclass=Kind):  # noqa: N801 - the name it replaces
        @classmethod
        def today(cls) -> Any:
            moment = RealDatetime.now() + shift  # noqa: DTZ005 - local time, as the original
            return cls(moment.year, moment.month, moment.day)

        def __repr__(self) -> str:
            return _repr(self, RealDate)

    class datetime_(RealDatetime, metaclass=Kind):  # noqa: N801
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return cls.fromtimestamp(time.time(), tz)

        @classmethod
        def today(cls) -> Any:
            return cls.now()

        @classmethod
        def utcnow(cls) -> Any:
            moment = RealDatetime.fromtimestamp(time.time(), datetime.timezone.utc)
            return cls.combine(moment, moment.time())

        def date(self) -> Any:
            return date(self.year, self.month, self.day)

        def __repr__(self) -> str:
            return _repr(self, RealDatetime)

    real_classes = {date: RealDate, datetime_: RealDatetime}
    for cls, real in real_classes.items():
        # Named like the real class, so that pickled instances can be loaded again.
        cls.__name__ = cls.__qualname__ = real.__name__
        cls.__module__ = real.__module__
        for bound in ("min", "max"):
            value = getattr(real, bound)
            parts = value.timetuple()[:3] if real is RealDate else (*value.timetuple()[:6], value.microsecond)
            setattr(cls, bound, cls(*parts))
        setattr(datetime, real.__name__, cls)


def _repr(value: Any, real: Any) -> str:
    """Adds the module's name, which the `repr` of a class made in Python lacks."""
    text: str = real.__repr__(value)
    return text if text.startswith("datetime.") or type(value).__module__ != "datetime" else "datetime." + text
