"""A change taken apart into hunks, each of which could be left out. Pure."""

from __future__ import annotations

from agent.edits import lines, opcodes
from agent.task import Edits, FileChange


def hunks(edits: Edits) -> int:
    """How many there are: runs of changed lines, in all files; a file that is made or removed is one."""
    return sum(_count(change) for change in edits)


def without_hunk(edits: Edits, number: int) -> Edits:
    """The change without one of its hunks, counted from 0 through all files; a file with no hunk left is left out."""
    kept: list[FileChange] = []
    for change in edits:
        count = _count(change)
        if not 0 <= number < count:
            kept.append(change)
        elif count > 1:
            kept.append(_restored(change, number))
        number -= count
    return tuple(kept)


def _count(change: FileChange) -> int:
    if change.before is None or change.after is None:
        return 1
    return sum(1 for code in opcodes(lines(change.before), lines(change.after)) if code[0] != "equal")


def _restored(change: FileChange, number: int) -> FileChange:
    """The file's change with the lines of one hunk as they were."""
    before, after = lines(change.before or ""), lines(change.after or "")
    text, at = [], 0
    for tag, i, i_end, j, j_end in opcodes(before, after):
        text += before[i:i_end] if tag != "equal" and at == number else after[j:j_end]
        at += tag != "equal"
    return FileChange(change.path, change.before, "".join(text))
