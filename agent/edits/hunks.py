"""Splits changes into hunks, to drop or merge them. Pure."""

from __future__ import annotations

import re

from agent.contract.proposal import Edits, FileChange
from agent.edits.changes import changed_ranges, lines
from agent.source.outline import Module

_NAME = re.compile(r"[^\W\d]\w*")


def hunks(edits: Edits) -> int:
    """The number of hunks (runs of changed lines) in all files; a created or removed file is one."""
    return sum(_count(change) for change in edits)


def without_hunk(edits: Edits, number: int) -> Edits:
    """The change without one hunk, counted from 0 through all files; a file without hunks is dropped."""
    kept: list[FileChange] = []
    for change in edits:
        count = _count(change)
        if not 0 <= number < count:
            kept.append(change)
        elif count > 1:
            kept.append(_restored(change, number))
        number -= count
    return tuple(kept)


def depends_on_others(edits: Edits, number: int) -> bool:
    """Does the hunk use a name that another hunk of its function introduces?"""
    for change in edits:
        count = _count(change)
        if 0 <= number < count and count > 1:
            return _depends(change, number)
        number -= count
    return False


def _depends(change: FileChange, number: int) -> bool:
    """Functions are those of the old text; outside of one, the whole file counts."""
    after, changed = lines(change.after or ""), changed_ranges(change)
    outline = Module(change.path, change.before or "")
    here = outline.around(changed[number][0] + 1)
    known = set(_NAME.findall(outline.text(here.first, here.last) if here else change.before or ""))
    introduced: set[str] = set()
    for at, (i, _, j, j_end) in enumerate(changed):
        if at != number and outline.around(i + 1) == here:
            introduced |= set(_NAME.findall("".join(after[j:j_end]))) - known
    _, _, j, j_end = changed[number]
    return not introduced.isdisjoint(_NAME.findall("".join(after[j:j_end])))


def merge(one: Edits, other: Edits) -> Edits | None:
    """Both changes as one, or None if they conflict. A hunk in both is applied once."""
    merged = {change.path: change for change in one}
    for change in other:
        known = merged.get(change.path)
        both = change if known is None else _merged(known, change)
        if both is None:
            return None
        merged[change.path] = both
    return tuple(merged.values())


def _merged(one: FileChange, other: FileChange) -> FileChange | None:
    if one == other:
        return one
    if one.before is None or one.before != other.before or one.after is None or other.after is None:
        return None
    before = lines(one.before)
    changed: dict[tuple[int, int, tuple[str, ...]], None] = {}  # an ordered set
    for change in (one, other):
        after = lines(change.after or "")
        changed |= {(i, end, tuple(after[j:j_end])): None for i, end, j, j_end in changed_ranges(change)}
    text: list[str] = []
    at = 0
    for start, end, new in sorted(changed, key=lambda hunk: hunk[:2]):
        if start < at:
            return None
        text += [*before[at:start], *new]
        at = end
    return FileChange(one.path, one.before, "".join(text + before[at:]))


def _count(change: FileChange) -> int:
    if change.before is None or change.after is None:
        return 1
    return len(changed_ranges(change))


def _restored(change: FileChange, number: int) -> FileChange:
    """The file's change with one hunk reverted."""
    before, after = lines(change.before or ""), lines(change.after or "")
    i, end, j, j_end = changed_ranges(change)[number]
    return FileChange(change.path, change.before, "".join([*after[:j], *before[i:end], *after[j_end:]]))
