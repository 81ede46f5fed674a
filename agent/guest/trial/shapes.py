"""Values as text, the same for values that a test would call equal; and whether a value fits a type hint."""

from __future__ import annotations

import collections.abc
import itertools
import json
import typing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

ITEMS = 200  # of a container or an iterator
DEEPEST = 8
LONGEST = 2000  # characters of a string that count


def as_text(value: object) -> str:
    """An object is described by its class and its attributes."""
    return json.dumps(_shape(value, DEEPEST))


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
    state = getattr(value, "__dict__", None)
    inside = _shape(state, deep - 1) if isinstance(state, dict) and not callable(value) else None
    return {"object": type(value).__name__, "state": inside}


_CONTAINERS = frozenset((list, set, frozenset, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection))


def fits(value: Any, hint: Any) -> bool | None:
    """Whether a value is of the hinted type; None where that is unknown. Numbers are as lenient as in PEP 484."""
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
        return isinstance(value, numbers[: numbers.index(hint) + 1] if hint in numbers else hint)
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
