"""Finds classes of the repository whose objects are equal to everything, or contain everything.

They are probed at the end of a run with random values, on objects that were never initialised: an honest comparison finds
nothing in common, or fails for lack of attributes.
"""

from __future__ import annotations

import random
import warnings

from .snapshot import origin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from typing import Any

_HEAP = 1 << 9  # a class made in Python
_PROBED = 2000  # classes, at most


def marks(root: str, known: Container[int]) -> set[str]:
    """`PATH: CLASS.METHOD says yes to everything` of classes that are not in `known` (ids)."""
    found = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cls in list(_made_since(known))[:_PROBED]:
            for name in ("__eq__", "__contains__"):
                method = _lookup(cls, name)
                path = origin(method, root) if method is not None else ""
                if path and method is not None and _always_agrees(cls, method):
                    found.add("%s: %s.%s says yes to everything" % (path, cls.__name__, name))
            meta = type(cls)
            method = None if meta is type else vars(meta).get("__eq__")
            if method is not None and origin(method, root) and _agrees(method, cls):
                found.add("%s: %s.__eq__ says yes to everything" % (origin(method, root), meta.__name__))
    return found


def _made_since(known: Container[int]) -> Iterator[type]:
    seen: set[int] = set()
    waiting: list[Any] = [object]
    while waiting:
        cls = waiting.pop()
        for sub in type.__subclasses__(cls):
            if id(sub) not in seen:
                seen.add(id(sub))
                waiting.append(sub)
                if id(sub) not in known:
                    yield sub


def _lookup(cls: type, name: str) -> Callable[..., Any] | None:
    """The method that the class's own body gives it."""
    method = type.__getattribute__(cls, "__dict__").get(name)
    return method if callable(method) else None


def _always_agrees(cls: type, method: Callable[..., Any]) -> bool:
    made = _uninitialised(cls)
    return made is not None and _agrees(method, made)


def _uninitialised(cls: type) -> Any:
    base: Any = next(one for one in type.mro(cls) if not one.__flags__ & _HEAP)
    try:
        return base.__new__(cls)
    except Exception:
        return None


def _agrees(method: Callable[..., Any], made: Any) -> bool:
    chance = random.SystemRandom()
    number = chance.getrandbits(60)
    return any(_is_yes(method, made, value) for value in (number, str(number), [number], float(number), object()))


def _is_yes(method: Callable[..., Any], made: Any, value: object) -> bool:
    try:
        answer = method(made, value)
        return answer is not NotImplemented and bool(answer)
    except Exception:
        return False
