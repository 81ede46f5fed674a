"""Calls near those of the tests: values beside the tested ones and beyond them, and refused values inside of longer ones.

A change that only knows the tests' own calls by heart has no effect there; deterministic, so that all variants answer the same.
"""

from __future__ import annotations

import datetime
import itertools
import numbers
from collections.abc import Iterator, Sequence
from typing import Any

from .inputs import RecordedCall, as_text

MOST = 400  # calls
BESIDE, HOLDING = 24, 40  # calls made from one recorded call
BEYOND = 150  # numbers that follow the tested ones
_PLAIN = (str, list, tuple, dict)


def near_calls(calls: Sequence[RecordedCall]) -> list[tuple[RecordedCall, str, int]]:
    """Further calls, each with how it was made ("beside", "beyond", "holds") and the index of the call it is made from."""
    known = {as_text([call.function, call.args, call.kwargs]) for call in calls}
    made: list[tuple[RecordedCall, str, int]] = []
    makers = (_beside(calls), _holding(calls), _beyond(calls))
    for at, how, args in itertools.chain.from_iterable(itertools.zip_longest(*makers, fillvalue=(-1, "", ()))):
        name = as_text([calls[at].function, args, calls[at].kwargs])
        if at >= 0 and name not in known and len(made) < MOST:
            known.add(name)
            origin = calls[at]
            made.append((RecordedCall(origin.function, args, origin.kwargs, origin.passing, is_variation=True), how, at))
    return made


def _beside(calls: Sequence[RecordedCall]) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
    """In turns of the calls, so that each has some if time is short."""
    turns = [zip(itertools.repeat(at), itertools.repeat("beside"), _changed(call.args)) for at, call in enumerate(calls)]
    for row in itertools.zip_longest(*(itertools.islice(turn, BESIDE) for turn in turns)):
        yield from filter(None, row)


def _changed(args: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for row in itertools.zip_longest(*(_with_another(args, at) for at in range(len(args)))):
        yield from filter(None, row)


def _with_another(args: tuple[Any, ...], at: int) -> Iterator[tuple[Any, ...]]:
    for value in _values(args[at], 3):
        yield (*args[:at], value, *args[at + 1 :])


def _values(value: Any, deep: int) -> Iterator[Any]:
    """Values beside an ordinary one. A boundary value (None, zero, one, an empty container) has no neighbours: it is a case of
    its own."""
    if deep == 0 or isinstance(value, bool) or not value or value == 1:
        return
    if isinstance(value, numbers.Number):
        for step in (1, -1, 2, -2, 3, 7, 10, -3):
            yield value + step  # type: ignore[operator]
    elif isinstance(value, datetime.date):
        for days in (1, -1, 7, 31, -31, 365):
            yield value + datetime.timedelta(days)
    elif isinstance(value, str):
        yield from _texts(value)
    elif isinstance(value, (list, tuple)) and type(value) in _PLAIN:
        kind, items = type(value), list(value)
        for at, item in enumerate(items[:6]):
            for other in itertools.islice(_values(item, deep - 1), 4):
                yield kind([*items[:at], other, *items[at + 1 :]])
        yield from (kind(items[1:]), kind(items[:-1]), kind([*items, items[-1]]), kind(reversed(items)))
    elif type(value) is dict:
        for key, item in list(value.items())[:6]:
            for other in itertools.islice(_values(item, deep - 1), 4):
                yield {**value, key: other}


def _texts(text: str) -> Iterator[str]:
    """With another character of the same kind at each place, with one more or less, with neighbours swapped."""
    for at in sorted(range(min(len(text), 40)), key=lambda at: (not text[at].isalnum(), at % 3, at)):
        one = text[at]
        for step in (1, 4):
            if one.isdigit():
                yield text[:at] + str((int(one) + step) % 10) + text[at + 1 :]
            elif "a" <= one.lower() <= "z":
                other = chr((ord(one.lower()) - 97 + step) % 26 + 97)
                yield text[:at] + (other if one.islower() else other.upper()) + text[at + 1 :]
        yield text[: at + 1] + text[at:]
        yield text[:at] + text[at + 1 :]
        if text[at + 1 : at + 2] not in ("", one):
            yield text[:at] + text[at + 1] + one + text[at + 2 :]


def _holding(calls: Sequence[RecordedCall]) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
    """The texts and containers of passing tests' calls inside of longer ones, made with those of the other calls."""
    made = [0] * len(calls)
    pairs = [
        (at, other) for at, call in enumerate(calls) for other in calls if call.passing and other.function == call.function
    ]
    for at, other in pairs:
        if other is calls[at] or len(other.args) != len(calls[at].args):
            continue
        for place, (value, beside) in enumerate(zip(calls[at].args, other.args)):  # noqa: B905 - Python 3.8
            if not value or type(value) is not type(beside) or not isinstance(value, _PLAIN):
                continue
            for longer in _joined(value, beside):
                made[at] += 1
                if made[at] <= HOLDING:
                    yield at, "holds", (*calls[at].args[:place], longer, *calls[at].args[place + 1 :])


def _joined(value: Any, other: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield {**other, **value}
        return
    if isinstance(value, str):
        for between in dict.fromkeys([one for one in other + value if not one.isalnum()][:6] + [""]):
            yield other + between + value
            yield other[: len(other) // 2] + between + value
            yield value + between + other
        return
    yield other + value
    yield value + other


def _beyond(calls: Sequence[RecordedCall]) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
    """Whole numbers above all tested ones, and some below; one place of one function at a time."""
    places = {(call.function, at) for call in calls for at, value in enumerate(call.args) if type(value) is int}
    for function, place in sorted(places):
        tested = [(call.args[place], at) for at, call in enumerate(calls)
                  if call.function == function and len(call.args) > place and type(call.args[place]) is int]  # fmt: skip
        (low, first), (high, last) = min(tested), max(tested)
        for step in range(1, BEYOND):
            for at, number in ((last, high + step), *([(first, low - step)] if step < 20 else [])):
                yield at, "beyond", (*calls[at].args[:place], number, *calls[at].args[place + 1 :])
