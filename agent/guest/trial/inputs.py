"""Records the arguments of calls while tests run, varies them a little, and describes and judges values.

`as_text` gives the same text for values that a test would consider equal; `fits` tells whether a value fits a type hint.
"""

from __future__ import annotations

import collections.abc
import contextlib
import copy
import copyreg
import itertools
import json
import random
import sys
import time
import typing
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType, FunctionType
from typing import Any

from . import hot_swap

SEEN = 40  # most calls of one function that are kept
COPYING = 0.4  # seconds for copying arguments, in total
VARARGS, VARKEYWORDS = 0x04, 0x08  # flags of code objects
ITEMS = 200  # most items of a container or an iterator that count
DEEPEST = 8
LONGEST = 2000  # most characters of a string that count


class RecordedCall:
    """A call of the function with this index, with copied arguments. `passing`: the test that makes it passes.

    `callers`: the files of the repository from which it is made, or "" for any other.
    """

    def __init__(
        self, function: int, args: tuple[Any, ...], kwargs: dict[str, Any], passing: bool, is_variation: bool = False
    ) -> None:
        self.function, self.args, self.kwargs, self.passing, self.is_variation = function, args, kwargs, passing, is_variation
        self.callers: set[str] = set()

    def copied(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return copy.deepcopy((self.args, self.kwargs))


class CallRecorder:
    """Records the calls of some functions, given as (path, name, first line); recursive calls do not count."""

    def __init__(self, root: str, functions: Iterable[Sequence[Any]]) -> None:
        self.root, self.functions = root, {tuple(function): index for index, function in enumerate(functions)}
        self.codes: dict[CodeType, int | None] = {}
        self.calls: list[RecordedCall] = []
        self.known: dict[tuple[int, str], RecordedCall] = {}
        self.counts: dict[int, int] = {}
        self.depths: dict[int, int] = {}
        self.copying = 0.0
        self.latest: list[RecordedCall] = []
        self.returned: dict[tuple[int, str], str] | None = None  # if set, what the calls return is kept in it
        self.open: dict[int, tuple[int, str]] = {}
        self.changed: frozenset[str] = frozenset()  # paths whose own calls are not kept in `outer`
        self.outer: set[tuple[int, str]] = set()

    def _index(self, code: CodeType) -> int | None:
        if code not in self.codes:
            function = (hot_swap.repository_path(self.root, code.co_filename), code.co_name, code.co_firstlineno)
            self.codes[code] = self.functions.get(function)
        return self.codes[code]

    def record(self, test: Callable[[], Any]) -> Any:
        """Run a test and record the calls; returns its result. If that is True, the calls count as those of a passing test."""
        self.latest, self.depths, passed = [], {}, None
        sys.setprofile(self._profile)
        try:
            passed = test()
        finally:
            sys.setprofile(None)
            for call in self.latest:
                call.passing = passed is True
        return passed

    def _profile(self, frame: FrameType, event: str, arg: object) -> None:
        if event not in ("call", "return"):
            return
        index = self._index(frame.f_code)
        if index is None:
            return
        depth = self.depths[index] = self.depths.get(index, 0) + (1 if event == "call" else -1)
        if event == "call" and depth == 1 and self.counts.get(index, 0) < SEEN and self.copying < COPYING:
            started = time.monotonic()
            try:
                self._keep(index, *_arguments(frame))
                caller = _caller(frame)
                path = hot_swap.repository_path(self.root, caller.f_code.co_filename) if caller is not None else None
                self.known[self.open[index]].callers.add(path or "")
                if path not in self.changed:
                    self.outer.add(self.open[index])
            except Exception:  # any `__deepcopy__`: the call cannot be repeated
                pass
            self.copying += time.monotonic() - started
        # An exception also returns None.
        if event == "return" and depth == 0 and self.returned is not None and arg is not None and not hasattr(arg, "__next__"):
            if index in self.open:
                self.returned[self.open.pop(index)] = as_text(arg)

    def _keep(self, index: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        args, kwargs = copy.deepcopy((args, kwargs))
        name = self.open[index] = (index, as_text([args, kwargs]))
        if name not in self.known:
            self.known[name] = RecordedCall(index, args, kwargs, False)
            self.counts[index] = self.counts.get(index, 0) + 1
            self.calls.append(self.known[name])
            self.latest.append(self.known[name])


def _caller(frame: FrameType) -> FrameType | None:
    """The frame from which the function is called, above its wrappers: closures over the function that they call."""
    while (caller := frame.f_back) is not None:
        held = [caller.f_locals.get(name) for name in caller.f_code.co_freevars]
        if not any(isinstance(each, FunctionType) and each.__code__ is frame.f_code for each in held):
            break
        frame = caller
    return caller


def _arguments(frame: FrameType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    code, values = frame.f_code, frame.f_locals
    names, count, keywords = code.co_varnames, code.co_argcount, code.co_kwonlyargcount
    args = [values[name] for name in names[:count]]
    kwargs = {name: values[name] for name in names[count : count + keywords]}
    at = count + keywords
    if code.co_flags & VARARGS:
        args += values[names[at]]
        at += 1
    if code.co_flags & VARKEYWORDS:
        kwargs.update(values[names[at]])
    return tuple(args), kwargs


def variations(calls: Sequence[RecordedCall], count: int) -> list[RecordedCall]:
    """Up to `count` further calls similar to these, with values of the same types; deterministic."""
    rng, known = random.Random(7), {as_text([c.function, c.args, c.kwargs]) for c in calls}
    made: list[RecordedCall] = []
    pools: dict[Any, list[Any]] = {}
    for call in calls:
        for at, value in enumerate(call.args):
            _learn(pools, (call.function, at), value)
    for turn in range(count * 3 if calls else 0):
        if len(made) >= count:
            break
        call = calls[turn % len(calls)]
        positions = [
            at for at, value in enumerate(call.args) if isinstance(value, (bool, int, float, str, list, tuple, dict, set))
        ]
        if not positions:
            continue
        copied, kwargs = call.copied()
        args, at = list(copied), rng.choice(positions)
        args[at] = _vary(rng, pools, (call.function, at), args[at])
        name = as_text([call.function, args, kwargs])
        if name not in known:
            known.add(name)
            made.append(RecordedCall(call.function, tuple(args), kwargs, call.passing, is_variation=True))
    return made


def _learn(pools: dict[Any, list[Any]], position: Any, value: Any) -> None:
    """Remember the values seen at a position: (function, argument), or (position, "item") inside a container."""
    pools.setdefault((position, type(value)), []).append(value)
    if isinstance(value, (list, tuple, set, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            _learn(pools, (position, "item"), item)


def _vary(rng: random.Random, pools: dict[Any, list[Any]], position: Any, value: Any) -> Any:
    pool = pools.get((position, type(value)), [value])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        drawn = rng.choice((value + 1, value - 1, rng.choice(pool), rng.randint(min(pool), max(pool))))
        return max(drawn, 0) if min(pool) >= 0 else drawn
    if isinstance(value, float):
        return rng.choice((value + 1, value / 2, rng.choice(pool), -value if min(pool) < 0 else value))
    if isinstance(value, str):
        return "".join(_resized(rng, list(value), [char for text in pool for char in text]))
    if isinstance(value, (list, tuple)):
        items, inner = list(value), [v for (p, _), vs in pools.items() if p == (position, "item") for v in vs]
        if items and rng.random() < 0.5:
            at = rng.randrange(len(items))
            items[at] = _vary(rng, pools, (position, "item"), items[at])
        else:
            items = _resized(rng, items, inner)
        return items if isinstance(value, list) else type(value)(items) if type(value) is tuple else value
    if isinstance(value, dict) and value:
        key = rng.choice(list(value))
        if rng.random() < 0.4:
            return {k: v for k, v in value.items() if k != key}
        return {k: _vary(rng, pools, (position, "item"), v) if k == key else v for k, v in value.items()}
    if isinstance(value, set) and value:
        return value - {sorted(value, key=repr)[0]}
    return value


def _resized(rng: random.Random, items: list[Any], pool: list[Any]) -> list[Any]:
    """The items with one removed, added, changed or moved."""
    step = rng.choice(("less", "more", "other", "moved", "twice"))
    if step == "less" and items:
        del items[rng.randrange(len(items))]
    elif step == "twice" and items:
        at = rng.randrange(len(items))
        items.insert(at, items[at])
    elif step == "other" and items and pool:
        items[rng.randrange(len(items))] = rng.choice(pool)
    elif step == "moved" and len(items) > 1:
        one, other = rng.sample(range(len(items)), 2)
        items[one], items[other] = items[other], items[one]
    elif pool:
        items.insert(rng.randint(0, len(items)), rng.choice(pool))
    return items


def as_text(value: object) -> str:
    """A description of the value; an object is described by its class and its attributes."""
    return json.dumps(_shape(value, DEEPEST))


def is_plain(value: Any, deep: int = DEEPEST) -> bool:
    """Whether `as_text` tells everything about the value: it has no attributes."""
    if type(value) is dict:
        value = list(value.items())
    if type(value) in (list, tuple, set, frozenset):
        return deep > 0 and all(is_plain(item, deep - 1) for item in value)
    return value is None or type(value) in (str, bytes, bool, int, float, complex)


def _shape(value: Any, deep: int) -> Any:
    if deep == 0:
        return "..."
    if value is None or isinstance(value, str):
        return value[:LONGEST] if value else value
    if isinstance(value, (bool, int)):
        return {"number": str(int(value)) if abs(value) < 1 << 4000 else "huge"}
    if isinstance(value, float):
        return {"number": str(int(value)) if value.is_integer() and abs(value) < 1e15 else "%.9g" % value}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_shape(item, deep - 1) for item in value[:ITEMS]], "of": len(value)}
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(json.dumps(_shape(item, deep - 1)) for item in value)[:ITEMS]}
    if isinstance(value, dict):
        pairs = ([_shape(key, deep - 1), _shape(item, deep - 1)] for key, item in value.items())
        return {"dict": sorted(json.dumps(pair) for pair in pairs)[:ITEMS]}
    if isinstance(value, (bytes, bytearray, complex)):
        return {type(value).__name__: repr(value)[:LONGEST]}
    if hasattr(value, "__next__"):
        return {"iterator": [_shape(item, deep - 1) for item in itertools.islice(value, ITEMS)]}
    return _shape_of_object(value, deep)


def _shape_of_object(value: Any, deep: int) -> Any:
    """Dates, ranges, errors and objects with slots have no attributes of their own: they are told by how they are copied."""
    state: Any = getattr(value, "__dict__", None)
    try:
        if callable(value):
            state = getattr(value, "__qualname__", None)
        elif not isinstance(state, dict) or isinstance(value, BaseException):
            with contextlib.suppress(AttributeError, OverflowError, ValueError):  # infinite or no number
                whole, parts = value.as_integer_ratio()  # decimals and fractions
                return _shape(whole if parts == 1 else whole / parts, deep)
            copied = copyreg.dispatch_table.get(type(value))
            state = copied(value) if copied is not None else value.__reduce_ex__(2)
    except Exception:  # any code of the repository, and what cannot be copied
        state = None
    return {"object": type(value).__name__, "state": _shape(state, deep - 1)}


def equals_others(value: Any, deep: int = 2) -> bool:
    """Whether a value, or one in it, is equal to values that it should differ from. Plain values never are."""
    kind = type(value)
    if kind in (list, tuple, set, frozenset) or kind is dict:
        items = list(value.values() if kind is dict else value)[:ITEMS]
        return deep > 0 and any(equals_others(item, deep - 1) for item in items)
    if kind in _PLAIN:
        return False
    others: list[Any] = [object(), "not %d" % id(_NEAR), 10**9 + 7]
    for base, near in _NEAR:
        if isinstance(value, base):
            others += near(value)
    for other in others:
        try:
            if value == other and other == value:
                return True
        except Exception:  # any `__eq__`, and `__bool__` of its result
            continue
    return False


# A plain type, and plain values near one of its kind.
_NEAR: tuple[Any, ...] = (
    (int, lambda value: [int.__add__(value, 1), int.__sub__(value, 1)]),
    (float, lambda value: [float.__mul__(value, 1.25) + 1.0, float.__sub__(value, 0.01)]),
    (str, lambda value: [str.__add__(value, "x"), str.__getitem__(value, slice(0, -1)) + "\0"]),
    (list, lambda value: [[*list.__iter__(value), None]]),
    (dict, lambda value: [dict(dict.items(value), **{"other ": None})]),
)
_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes, bytearray, range, type, type(len), type(equals_others)))
_CONTAINERS = frozenset((list, set, frozenset, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection))


def fits(value: Any, hint: Any) -> bool | None:
    """Whether a value is of the hinted type; None if that is unknown. Numbers follow PEP 484: an int is a float."""
    if hint is None or hint is type(None):
        return value is None
    origin: Any = getattr(hint, "__origin__", None)
    args: tuple[Any, ...] = getattr(hint, "__args__", None) or ()
    if any(isinstance(arg, typing.TypeVar) for arg in args):
        args = ()
    if origin is typing.Union or type(hint).__name__ == "UnionType":
        results = [fits(value, arg) for arg in args]
        return True if True in results else None if None in results else False
    if origin is None:
        if not isinstance(hint, type) or hint is object or getattr(hint, "_is_protocol", False):
            return None
        numbers: Any = (int, float, complex)
        try:
            return isinstance(value, numbers[: numbers.index(hint) + 1] if hint in numbers else hint)
        except Exception:  # `typing.Any`, a `TypedDict`, or any `__instancecheck__`
            return None
    if origin in _CONTAINERS:
        if not isinstance(value, origin):
            return False
        return (
            _all(fits(item, args[0]) for item in value) if args and isinstance(value, (list, set, frozenset, tuple)) else True
        )
    if origin is dict:
        if not isinstance(value, dict):
            return False
        return _all(fits(part, arg) for pair in value.items() for part, arg in zip(pair, args)) if args else True  # noqa: B905
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(args) == 2 and args[1] is Ellipsis:
            return _all(fits(item, args[0]) for item in value)
        if not args or args == ((),):
            return True
        return _all(fits(item, arg) for item, arg in zip(value, args)) if len(args) == len(value) else False  # noqa: B905
    return None


def _all(results: Iterable[bool | None]) -> bool | None:
    first = list(itertools.islice(results, ITEMS))
    return False if False in first else None if None in first else True
