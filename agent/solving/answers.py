"""The code as it was after a round of an earlier run, from its log."""

from __future__ import annotations

from agent.edits.changes import EditProblem
from agent.edits.patches import apply_patch
from agent.solving.code import Files


def after(files: Files, diff: str) -> Files | EditProblem:
    """The files with a change in git's form applied, as `agent.edits.changes.diff` writes it."""
    found = dict(files)
    for path, patch in _parts(diff):
        text = apply_patch(found.get(path, ""), patch)
        if isinstance(text, EditProblem):
            return text
        found[path] = text
    return found


def _parts(diff: str) -> list[tuple[str, str]]:
    """Each file's path and hunks."""
    parts: list[tuple[str, list[str]]] = []
    lines = diff.split("\n")
    at = 0
    while at < len(lines):
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if lines[at].startswith("--- ") and following.startswith("+++ "):
            name = following if not following.startswith("+++ /dev/null") else lines[at]
            parts.append((name[4:].split("\t")[0].partition("/")[2], []))
            at += 2
        elif parts:
            parts[-1][1].append(lines[at])
            at += 1
        else:
            at += 1
    return [(path, "\n".join(body).rstrip("\n")) for path, body in parts]
