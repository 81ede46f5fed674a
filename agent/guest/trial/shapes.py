"""Values as text, the same for values that a test would call equal, and whether they fit a type hint; inside the sandbox."""

import collections.abc
import itertools
import json
import typing

ITEMS = 200  # of a container, or of what an iterator gives
DEEPEST = 8
LONGEST = 2000  # characters of a string that count


def shown(value):
    """The text. What cannot be compared has none of its own: an object is told by its class and its attributes."""
    return json.dumps(_shape(value, DEEPEST))


def _shape(value, deep):
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


_CONTAINERS = {
    list: list, set: set, frozenset: frozenset, collections.abc.Sequence: collections.abc.Sequence,
    collections.abc.Iterable: collections.abc.Iterable, collections.abc.Collection: collections.abc.Collection,
}  # fmt: skip


def fits(value, hint):
    """Whether a value is what the hint says; None where that is not known. Numbers are as lenient as PEP 484."""
    if hint is None or hint is type(None):
        return value is None
    origin, args = getattr(hint, "__origin__", None), getattr(hint, "__args__", None) or ()
    if any(isinstance(arg, typing.TypeVar) for arg in args):
        args = ()
    if origin is typing.Union or type(hint).__name__ == "UnionType":
        told = [fits(value, arg) for arg in args]
        return True if True in told else None if None in told else False
    if origin is None:
        if not isinstance(hint, type) or hint is object or getattr(hint, "_is_protocol", False):
            return None
        return isinstance(value, (int, float, complex)[: (int, float, complex).index(hint) + 1]
                          if hint in (int, float, complex) else hint)  # fmt: skip
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
        return len(args) == len(value) and _all(fits(item, arg) for item, arg in zip(value, args))  # noqa: B905
    return None


def _all(told):
    told = list(itertools.islice(told, ITEMS))
    return False if False in told else None if None in told else True
