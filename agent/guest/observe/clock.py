"""Lets the tests of this process live at another time: their clock is shifted, and goes on as clocks do.

Done once, before any code of the repository is imported: `time.time` and its relatives, and the classes `datetime.datetime` and
`datetime.date` (with stand-ins that take real ones for their own, as freezegun does). What is not shifted: other processes that
tests start, code of C extensions that asks the system itself, the times of files, and `sleep` and monotonic clocks, which
measure and do not date. Code that was imported before (the test runner) keeps the real clock, so its durations stay right.
"""

import datetime
import importlib.util
import time

REAL_DATETIME, REAL_DATE = datetime.datetime, datetime.date


def install(epoch):
    """Let the clock stand at `epoch` (seconds since 1970) now. Returns why that cannot be, or ""."""
    if importlib.util.find_spec("time_machine") is not None:
        # It writes into the C structures of the real functions, and would crash on ours.
        return "the clock cannot be shifted where time-machine is installed, which shifts it too"
    offset = epoch - time.time()
    _shift_time(offset)
    _shift_datetime(offset)
    return ""


def _shift_time(offset):
    now, now_ns = time.time, time.time_ns
    nanoseconds = int(offset * 10**9)
    for name in ("localtime", "gmtime", "ctime"):
        setattr(time, name, _at(getattr(time, name), lambda: now() + offset))
    real_asctime, real_strftime = time.asctime, time.strftime
    localtime = time.localtime
    time.asctime = lambda moment=None: real_asctime(localtime() if moment is None else moment)
    time.strftime = lambda form, moment=None: real_strftime(form, localtime() if moment is None else moment)
    time.time = lambda: now() + offset
    time.time_ns = lambda: now_ns() + nanoseconds
    for name, shift in (("clock_gettime", offset), ("clock_gettime_ns", nanoseconds)):
        if hasattr(time, name):
            setattr(time, name, _real_time_only(getattr(time, name), shift))


def _at(real, now):
    return lambda seconds=None: real(now() if seconds is None else seconds)


def _real_time_only(real, shift):
    return lambda clock: real(clock) + (shift if clock == time.CLOCK_REALTIME else 0)


def _shift_datetime(offset):
    shift = datetime.timedelta(seconds=offset)

    class Kind(type):
        """Real ones count as instances of their stand-ins."""

        def __instancecheck__(cls, value):
            return isinstance(value, _REAL[cls]) if cls in _REAL else type.__instancecheck__(cls, value)

        def __subclasscheck__(cls, other):
            return issubclass(other, _REAL[cls]) if cls in _REAL else type.__subclasscheck__(cls, other)

    class date(REAL_DATE, metaclass=Kind):  # noqa: N801 - as it is called where it stands
        @classmethod
        def today(cls):
            moment = REAL_DATETIME.now() + shift
            return cls(moment.year, moment.month, moment.day)

        def __repr__(self):
            return _repr(self, REAL_DATE)

    class datetime_(REAL_DATETIME, metaclass=Kind):  # noqa: N801
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(time.time(), tz)

        @classmethod
        def today(cls):
            return cls.now()

        @classmethod
        def utcnow(cls):
            moment = REAL_DATETIME.fromtimestamp(time.time(), datetime.timezone.utc)
            return cls.combine(moment, moment.time())

        def date(self):
            return date(self.year, self.month, self.day)

        def __repr__(self):
            return _repr(self, REAL_DATETIME)

    _REAL = {date: REAL_DATE, datetime_: REAL_DATETIME}
    for cls, real in _REAL.items():
        # Named as the real one, so that what is pickled is found again.
        cls.__name__ = cls.__qualname__ = real.__name__
        cls.__module__ = real.__module__
        for bound in ("min", "max"):
            value = getattr(real, bound)
            parts = value.timetuple()[:3] if real is REAL_DATE else (*value.timetuple()[:6], value.microsecond)
            setattr(cls, bound, cls(*parts))
        setattr(datetime, real.__name__, cls)


def _repr(value, real):
    """A heap type's own would lack its module."""
    text = real.__repr__(value)
    return text if text.startswith("datetime.") or type(value).__module__ != "datetime" else "datetime." + text
