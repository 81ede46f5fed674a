"""Unified diffs from a manifest, applied to texts. Pure; only exact matches count, so that a wrong base is noticed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent.edits.changes import lines

_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class DoesNotApply(Exception):
    """The message says where."""


def applied(diff: str, texts: Mapping[str, str]) -> dict[str, str | None]:
    """The files that the diff changes, as they are after it; None removes one. Raises `DoesNotApply`."""
    after: dict[str, str | None] = {}
    rest = diff.split("\n")
    while rest:
        line = rest.pop(0)
        if line.startswith("--- ") and rest and rest[0].startswith("+++ "):
            old, new = _path(line), _path(rest.pop(0))
            path = new or old
            text, removed = _patched(path, lines(texts[old]) if old in texts else [], rest), not new
            after[path] = None if removed else text
    return after


def _path(line: str) -> str:
    """ "" stands for no file."""
    path = line[4:].split("\t")[0].strip()
    return "" if path == "/dev/null" else path.partition("/")[2]


def _patched(path: str, before: list[str], rest: list[str]) -> str:
    """Takes the hunks of one file off `rest`."""
    after: list[str] = []
    at = 0
    while rest and (hunk := _HUNK.match(rest[0])):
        header = rest.pop(0)
        old, new = (int(count) if count else 1 for count in (hunk[2], hunk[3]))
        start = int(hunk[1]) - 1 if old else int(hunk[1])
        after += before[at:start]
        at = start
        mark = ""
        while rest and (old or new or rest[0].startswith("\\")):
            if rest[0].startswith("\\"):  # no newline at the end of the file
                rest.pop(0)
                if mark == "+":
                    after[-1] = after[-1].removesuffix("\n")
                continue
            mark, line = rest[0][:1] or " ", rest.pop(0)[1:]
            if mark == "+":
                after.append(line + "\n")
            elif at < len(before) and before[at].rstrip("\n") == line.rstrip("\n"):
                after += [before[at]] if mark == " " else []
                at += 1
            else:
                raise DoesNotApply(f"{path}, {header}: line {at + 1} is another")
            old, new = old - (mark != "+"), new - (mark != "-")
    return "".join([*after, *before[at:]])
