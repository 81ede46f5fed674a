"""Shuffles tests by a seed: the same order for the same ids, whatever other tests run with them.

Files are shuffled, then the classes in them, then the tests in those, so that fixtures of a file or a class are set up once (as
in pytest-randomly). A negative seed reverses the order: of any two tests, each comes first under one of the two seeds. Used on
both sides of the sandbox.
"""

from __future__ import annotations

import hashlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def ordered(ids: Iterable[str], seed: int) -> list[str]:
    """`ids` in the order that `seed` defines."""
    return sorted(ids, key=lambda name: _key(name, abs(seed)), reverse=seed < 0)


def _key(name: str, seed: int) -> list[tuple[str, str]]:
    return [(_digest(seed, part), part) for part in _parts(name)]


def _parts(name: str) -> tuple[str, str, str]:
    """Its file, its class, its id: "a.py::C::test", or "module.C.test" of unittest."""
    separator = "::" if "::" in name else "."
    pieces = name.partition("[")[0].split(separator)
    file = pieces[:1] if separator == "::" else pieces[:-2]
    return separator.join(file), separator.join(pieces[:-1]), name


def _digest(seed: int, part: str) -> str:
    return hashlib.sha256(("%d:%s" % (seed, part)).encode("utf-8", "replace")).hexdigest()
