"""Makes calls near those of the tests: with values beside and beyond the tested ones, and with these inside of longer ones.

A change that knows the tests' own calls by heart has no effect there. The same calls give the same ones again.
"""

from __future__ import annotations

import collections
import copy
import datetime
import itertools
import numbers
import re
import string
import time
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .inputs import LONGEST, RecordedCall, as_text

CALLS, MOST = 60, 400  # recorded calls that others are made from, calls that are made
MAKING = 0.25  # seconds of CPU; large arguments take long to compare
EACH = {"beside": 24, "holds": 40, "beyond": MOST}  # of those, made in this way from one recorded call
BEYOND = 120  # numbers that follow the tested ones, on each side
PARTS, VALUES, DEEPEST = 6, 4, 3  # parts of a container that are varied, values for each, containers in containers
_KINDS = (string.digits, string.ascii_lowercase, string.ascii_uppercase)


def near_calls(calls: Sequence[RecordedCall]) -> list[tuple[RecordedCall, str, int]]:
    """Each with how it is made ("beside", "beyond" or "holds") and the index of the recorded call that it is made from."""
    known = {as_text([call.function, call.args, call.kwargs]) for call in calls}
    made: list[tuple[RecordedCall, str, int]] = []
    counts: dict[tuple[str, int], int] = collections.Counter()
    first, until = calls[:CALLS], time.thread_time() + MAKING
    for how, at, args in _in_turns([_beside(first), _holding(first), _beyond(first)]):
        origin = calls[at]
        name = as_text([origin.function, args, origin.kwargs]) if counts[how, at] < EACH[how] else ""
        if name and name not in known:
            known.add(name)
            counts[how, at] += 1
            made.append((RecordedCall(origin.function, args, origin.kwargs, origin.passing), how, at))
        if len(made) == MOST or time.thread_time() > until:
            break
    return made


def _in_turns(sources: Iterable[Iterator[Any]]) -> Iterator[Any]:
    """The first item of each, then the second of each, and so on. One that raises is over: values may have any `__add__`."""
    left = list(sources)
    while left:
        for source in list(left):
            try:
                yield next(source)
            except Exception:
                left.remove(source)


def _with(args: Any, place: int, value: Any) -> tuple[Any, ...]:
    return (*args[:place], value, *args[place + 1 :])


def _beside(calls: Sequence[RecordedCall]) -> Iterator[Any]:
    return _in_turns(_changed(at, call.args, place) for at, call in enumerate(calls) for place in range(len(call.args)))


def _changed(at: int, args: tuple[Any, ...], place: int) -> Iterator[Any]:
    for other in _values(args[place], DEEPEST):
        yield "beside", at, _with(args, place, other)


def _values(value: Any, deep: int) -> Iterator[Any]:
    """Values beside one. A boundary value (None, zero, one, an empty container) has none: it is a case of its own."""
    if isinstance(value, datetime.date):
        yield from (value + datetime.timedelta(days) for days in (1, -1, 7, 31, -31, 365))
    elif isinstance(value, numbers.Number) and value not in (0, 1):  # type: ignore[comparison-overlap]
        yield from (value + step for step in (1, -1, 2, -2, 3, 7, 10, -3))  # type: ignore[operator]
    elif type(value) is str:
        yield from _texts(value)
    elif type(value) in (list, tuple) and value and deep:
        for at, item in enumerate(value[:PARTS]):
            yield from (type(value)(_with(value, at, other)) for other in itertools.islice(_values(item, deep - 1), VALUES))
        yield from (value[1:], value[:-1], value + value[-1:], value[::-1])
    elif type(value) is dict and deep:
        for key, item in itertools.islice(value.items(), PARTS):
            yield from ({**value, key: other} for other in itertools.islice(_values(item, deep - 1), VALUES))
    elif deep and not isinstance(value, (type, types.ModuleType)):
        for name, item in itertools.islice(_fields(value), PARTS):
            yield from (_having(value, name, other) for other in itertools.islice(_values(item, deep - 1), VALUES))


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """The public attributes of an object: private ones may hang together in ways that only the object knows."""
    names = [*getattr(value, "__dict__", ()), *getattr(type(value), "_fields", ()), *getattr(type(value), "__slots__", ())]
    return ((name, getattr(value, name)) for name in names if not name.startswith("_") and hasattr(value, name))


def _having(value: Any, name: str, other: Any) -> Any:
    """A copy of an object, frozen ones too, with another value of an attribute."""
    if isinstance(value, tuple):
        return value._replace(**{name: other})  # type: ignore[attr-defined]
    made = copy.copy(value)
    if made is not value:  # as the members of an enumeration are
        object.__setattr__(made, name, other)
    return made


def _texts(text: str) -> Iterator[str]:
    """With another number in it, or at a place another character of the same kind, one more or one less."""
    places = sorted(range(min(len(text), 40)), key=lambda at: (not text[at].isalnum(), at % 3))
    yield from _in_turns([_with_numbers(text), (other for at in places for other in _with_characters(text, at))])


def _with_numbers(text: str) -> Iterator[str]:
    for step, found in itertools.product((1, 2, 3, 7, 10, -1), list(itertools.islice(re.finditer(r"\d{1,9}", text), PARTS))):
        number = max(0, int(found[0]) + step)
        yield text[: found.start()] + str(number).zfill(len(found[0])) + text[found.end() :]


def _with_characters(text: str, at: int) -> Iterator[str]:
    start, one, rest = text[:at], text[at], text[at + 1 :]
    for kind in (kind for kind in _KINDS if one in kind):
        yield from (start + kind[(kind.index(one) + step) % len(kind)] + rest for step in (1, 4))
    yield from (start + one + one + rest, start + rest)


def _holding(calls: Sequence[RecordedCall]) -> Iterator[Any]:
    """A text or container of a passing test's call is emptied, or joined with that of another one."""
    passing = [(at, call) for at, call in enumerate(calls) if call.passing]
    for (at, call), (_, other) in itertools.permutations(passing, 2):
        pairs = zip(call.args, other.args) if call.function == other.function else ()  # noqa: B905 - Python 3.8
        for place, (value, beside) in enumerate(pairs):
            if type(value) is type(beside) and type(value) in (str, list, tuple, dict) and 0 < len(value) <= LONGEST:
                yield from (("holds", at, _with(call.args, place, longer)) for longer in _joined(value, beside))


def _joined(value: Any, other: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from ({}, {**other, **value})
        return
    yield from (value[:0], value + other)
    marks = dict.fromkeys(one for one in other + value if not one.isalnum()) if isinstance(value, str) else ()
    for between in (value[:0], *itertools.islice(marks, PARTS)):
        yield from (other + between + value, other[: len(other) // 2] + between + value)


def _beyond(calls: Sequence[RecordedCall]) -> Iterator[Any]:
    """Whole numbers above all tested ones, and below."""
    tested: dict[Any, list[Any]] = {}
    for at, call in enumerate(calls):
        for place, value in enumerate(call.args):
            if type(value) is int:
                tested.setdefault((call.function, place), []).append((value, at))
    ends = [(place, *end(found), sign) for (_, place), found in tested.items() for end, sign in ((max, 1), (min, -1))]
    for step, (place, number, at, sign) in itertools.product(range(1, BEYOND + 1), ends):
        yield "beyond", at, _with(calls[at].args, place, number + sign * step)
