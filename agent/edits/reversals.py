"""What a patch takes back of an earlier change. Pure.

The earlier change is given by its reversal: for each file, the text with the change (`before`) and without it (`after`).
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import PurePosixPath

from agent.contract.proposal import Edits, FileChange
from agent.edits.changes import changed_ranges, lines
from agent.source.outline import parse

_COMMENTS = ("#", "//", "/*", "* ")
_GENERATED = frozenset(
    {
        *("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml"),
        *("poetry.lock", "uv.lock", "pdm.lock", "Cargo.lock", "go.sum"),
    }
)
LineRange = tuple[int, int]  # first and last line, from 1; the last is one less than the first where lines were only removed


def inverted(edits: Edits) -> Edits:
    """The change that takes these back."""
    return tuple(FileChange(edit.path, edit.after, edit.before) for edit in edits)


def ranges_of(reversal: Edits) -> dict[str, list[LineRange]]:
    """The lines that the earlier change touched, by file, in the text with the change. For other edits: those they replace."""
    return {
        edit.path: [(first + 1, end) for first, end, _, _ in changed_ranges(edit)]
        for edit in reversal
        if edit.before is not None
    }


def taken_back(edits: Edits, reversal: Edits) -> tuple[int, int]:
    """How many changed lines of code (added and removed) of the earlier change the patch undoes, and how many there are.

    Blank lines, comments, Python's docstrings, and lock files do not count. A line that the patch only rewrites, into something
    that stood nowhere before, is not undone.
    """
    patched = {edit.path: edit.after for edit in edits}
    undone = total = 0
    for edit in reversal:
        if PurePosixPath(edit.path).name in _GENERATED:
            continue
        now, before = _code(edit.path, edit.before), _code(edit.path, edit.after)
        added, removed = now - before, before - now
        total += added.total() + removed.total()
        if edit.path in patched:
            after = _code(edit.path, patched[edit.path])
            back = (removed - (before - after)).total()  # old lines that are there again
            gone = (added - (after - before)).total()  # new lines that are gone
            undone += back + max(0, gone - ((after - before) - added).total())
    return undone, total


def _code(path: str, text: str | None) -> Counter[str]:
    """The lines of code, without indentation."""
    kept = [line.strip() for line in lines(text or "")]
    tree = parse((text or "").removeprefix("\ufeff")) if path.endswith(".py") else None
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for at in range(node.lineno - 1, min(node.end_lineno or node.lineno, len(kept))):
                kept[at] = ""
    return Counter(line for line in kept if line and not line.startswith(_COMMENTS))


def touches(edits: Edits, reversal: Edits) -> bool:
    """Does the patch change a line that the earlier change touched, or one beside it?"""
    earlier = ranges_of(reversal)
    return any(
        first <= at_last + 1 and at_first <= last + 1
        for path, ranges in ranges_of(edits).items()
        for first, last in ranges
        for at_first, at_last in earlier.get(path, ())
    )


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
