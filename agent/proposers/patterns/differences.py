"""What a failed comparison shows: a value that differs only by spaces, or only by capital letters, lost a call. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from agent.contract.verdicts import Failure

MOST, LONGEST = 40, 2_000  # compared pairs, characters of a line
SPACES, LETTERS = ("strip", "rstrip", "lstrip"), ("lower", "upper", "casefold", "title")  # the calls that may be missing
_COMPARED = re.compile(r"assert (.+) == (.+)|AssertionError: (.+) != (.+)")
_BLANK = re.compile(r"\s|\\[nrt]")


def lost_methods(found: Iterable[Failure]) -> tuple[str, ...]:
    """Methods of texts that would make what these failures compare the same."""
    methods: dict[str, None] = {}
    for one, other in [pair for failure in found for pair in _pairs(failure) if pair[0] != pair[1]][:MOST]:
        if _BLANK.sub("", one) == _BLANK.sub("", other):
            methods |= dict.fromkeys(SPACES)
        elif one.casefold() == other.casefold():
            methods |= dict.fromkeys(LETTERS)
    return tuple(methods)


def _pairs(failure: Failure) -> Iterator[tuple[str, str]]:
    """The two sides of each comparison that pytest or unittest shows, also as neighbouring lines of a diff."""
    lines = [line[1:].strip() for line in failure.details.splitlines() if line.startswith("E")]
    lines = [line for line in [failure.message, *lines] if len(line) <= LONGEST and not line.startswith("?")]
    for line, after in pairwise([*lines, ""]):
        if compared := _COMPARED.search(line):
            one, other = [side for side in compared.groups() if side is not None]
            yield one.strip(), other.strip()
        elif line[:1] in "+-" and after[:1] in "+-" and line[:1] != after[:1] and line and after:
            yield line[1:].strip(), after[1:].strip()
