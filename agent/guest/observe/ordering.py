"""A shuffled order of tests that a number names: the same for the same ids, whatever other tests run beside them.

Files are shuffled, the classes in them, and the tests in those, so that what is set up for a file or a class is set up once (as
pytest-randomly does it). A number's negative is the reverse: of any two tests, each is first in one of the two. Read on both
sides of the sandbox.
"""

import hashlib

if False:  # for type checkers: old Pythons have no such names
    from collections.abc import Iterable


def ordered(ids: "Iterable[str]", seed: int) -> "list[str]":
    """`ids` in the order that `seed` names."""
    return sorted(ids, key=lambda name: _key(name, abs(seed)), reverse=seed < 0)


def _key(name: str, seed: int) -> "list[tuple[str, str]]":
    return [(_digest(seed, part), part) for part in _parts(name)]


def _parts(name: str) -> "tuple[str, str, str]":
    """Its file, its class, itself: "a.py::C::test", or "module.C.test" of unittest."""
    separator = "::" if "::" in name else "."
    pieces = name.partition("[")[0].split(separator)
    file = pieces[:1] if separator == "::" else pieces[:-2]
    return separator.join(file), separator.join(pieces[:-1]), name


def _digest(seed: int, part: str) -> str:
    return hashlib.sha256(("%d:%s" % (seed, part)).encode("utf-8", "replace")).hexdigest()
