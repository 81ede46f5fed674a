"""What a patch takes back of an earlier change. Pure.

The earlier change is given by its reversal: for each file, the text with the change (`before`) and without it (`after`).
"""

from __future__ import annotations

import ast
from collections import Counter

from agent.contract.proposal import Edits, FileChange
from agent.edits.changes import changed_lines, changed_ranges, changes
from agent.source.outline import parse

LineRange = tuple[int, int]  # first and last line, from 1; the last is one less than the first where lines were only removed


def inverted(edits: Edits) -> Edits:
    """The change that takes these back."""
    return tuple(FileChange(edit.path, edit.after, edit.before) for edit in edits)


def ranges_of(reversal: Edits) -> dict[str, list[LineRange]]:
    """The lines that the earlier change touched, by file, in the text with the change."""
    return {
        edit.path: [(first + 1, end) for first, end, _, _ in changed_ranges(edit)]
        for edit in reversal
        if edit.before is not None
    }


def taken_back(edits: Edits, reversal: Edits) -> tuple[int, int]:
    """How many changed lines (added and removed) of the earlier change the patch undoes, and how many there are.

    A line that the patch only rewrites, into something that stood nowhere before, is not undone.
    """
    patched = {edit.path: edit.after for edit in edits}
    undone = 0
    for edit in reversal:
        if edit.path not in patched:
            continue
        if patched[edit.path] == edit.after:
            undone += changed_lines((edit,))
            continue
        added, removed = _counted(edit)
        still_added, still_removed = _counted(FileChange(edit.path, patched[edit.path], edit.after))
        back = sum((removed - still_removed).values())  # old lines that are there again
        gone = sum((added - still_added).values())  # new lines that are gone
        new = sum((still_added - added).values())  # lines that neither text has
        undone += back + max(0, gone - new)
    return undone, changed_lines(reversal)


def _counted(reversal: FileChange) -> tuple[Counter[str], Counter[str]]:
    """The lines that a change added, and those that it removed, without indentation; blank lines do not count."""
    added, removed = changes(reversal)
    return Counter(filter(None, map(str.strip, added))), Counter(filter(None, map(str.strip, removed)))


def is_same(edits: Edits, others: Edits) -> bool:
    """Do both leave the same files behind? Python files are compared as programs: layout and quotes do not matter."""
    return {edit.path: _program(edit) for edit in edits} == {edit.path: _program(edit) for edit in others}


def _program(edit: FileChange) -> str | None:
    tree = parse((edit.after or "").removeprefix("\ufeff")) if edit.path.endswith(".py") else None
    try:
        return edit.after if tree is None else ast.dump(tree)
    except RecursionError:
        return edit.after


def lost_names(edits: Edits, reversal: Edits) -> tuple[str, ...]:
    """Functions and classes that the earlier change added and the patch removes, sorted. Python only."""
    patched = {edit.path: edit.after for edit in edits}
    lost: set[str] = set()
    for edit in reversal:
        if edit.path in patched and edit.path.endswith(".py"):
            lost |= _defined(edit.before) - _defined(edit.after) - _defined(patched[edit.path])
    return tuple(sorted(lost))


def _defined(text: str | None) -> set[str]:
    tree = parse((text or "").removeprefix("\ufeff"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, kinds)} if tree is not None else set()
