"""Reads a Python command line: its own options, and the module that it runs. Pure."""

from __future__ import annotations

import re

_PYTHON = re.compile(r"^(?:.*/)?(?:python|pypy|py)[\d.]*$")


def is_python(word: str) -> bool:
    return _PYTHON.match(word) is not None


def module_of(words: list[str]) -> list[str] | None:
    """`python -Im pip install x` → ["pip", "install", "x"]; None where it runs no module."""
    if not words or not is_python(words[0]):
        return None
    module, rest = without_options(words[1:])
    return [module, *rest] if module else None


def without_options(words: list[str]) -> tuple[str, list[str]]:
    """The module that Python's own options name ("" for none), and the words after them."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        found = re.match(r"-([A-Za-z?]*?)([cmWX])(.*)$", rest.pop(0), re.DOTALL)
        if found is None:
            continue
        value = found[3] or (rest.pop(0) if rest else "")
        if found[2] in "cm":
            return (value, rest) if found[2] == "m" else ("", [])
    return "", rest
