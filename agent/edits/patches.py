"""Takes a patch back, or applies it: one text from the other one and the hunks between them. Pure.

The hunks are those of a unified diff in git's form, as GitHub's API returns them for one file: without the lines that name it.
"""

from __future__ import annotations

import re

from agent.edits.changes import EditProblem, lines

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(?: .*)?")
_Body = list[tuple[str, str]]  # sign (" ", "+", "-") and line with its ending


def reverse_patch(after: str, patch: str) -> str | EditProblem:
    """The text before the patch. An empty patch changes nothing.

    Strict: every context line, every added line and every position must match exactly, line endings included. A file that
    the patch removes is the empty text after it.
    """
    hunks = _parsed(patch)
    return hunks if isinstance(hunks, EditProblem) else _replaced(after, hunks)


def _replaced(after: str, hunks: list[tuple[int, int, _Body]]) -> str | EditProblem:
    """The text with the new side of each hunk replaced by its old one."""
    now, before, at = lines(after), list[str](), 0
    for old, new, body in hunks:
        if not at <= new <= len(now):
            return EditProblem(f"A hunk of the patch starts at line {new + 1}, which does not follow the hunk before it.")
        before += now[at:new]
        if len(before) != old:
            return EditProblem(f"A hunk of the patch starts at line {old + 1} of the old text, not at line {len(before) + 1}.")
        at = new
        for sign, line in body:
            if sign != "-":
                if at >= len(now) or now[at] != line:
                    return EditProblem(f"Line {at + 1} of the text differs from the patch.")
                at += 1
            if sign != "+":
                before.append(line)
    before += now[at:]
    if any(not line.endswith("\n") for line in before[:-1]):
        return EditProblem("The patch ends a line of the old text without a line break, although others follow.")
    return "".join(before)


def apply_patch(before: str, patch: str) -> str | EditProblem:
    """The text after the patch; as strict as `reverse_patch`, whose inverse it is."""
    hunks = _parsed(patch)
    if isinstance(hunks, EditProblem):
        return hunks
    flipped = {"+": "-", "-": "+", " ": " "}
    return _replaced(before, [(new, old, [(flipped[sign], line) for sign, line in body]) for old, new, body in hunks])


def _parsed(patch: str) -> list[tuple[int, int, _Body]] | EditProblem:
    """The hunks: lines of the old and of the new text before each, and its body."""
    raw = patch.removesuffix("\n").split("\n") if patch else []
    hunks: list[tuple[int, int, _Body]] = []
    at = 0
    while at < len(raw):
        header = _HUNK.fullmatch(raw[at])
        if header is None:
            return EditProblem(f"Line {at + 1} of the patch does not start a hunk.")
        old, olds, new, news = (int(number) if number is not None else 1 for number in header.groups())
        at, left, body = at + 1, [olds, news], _Body()
        while at < len(raw) and (left != [0, 0] or raw[at].startswith("\\")):
            sign, text = raw[at][:1], raw[at][1:]
            if sign == "\\" and body:
                body[-1] = body[-1][0], body[-1][1].removesuffix("\n")
            elif sign in (" ", "-", "+"):
                left[0] -= sign != "+"
                left[1] -= sign != "-"
                body.append((sign, text + "\n"))
            else:
                return EditProblem(f"Line {at + 1} of the patch has no sign.")
            at += 1
        if left != [0, 0]:
            return EditProblem(f"A hunk of the patch has other lines than its header announces: {header[0][:100]}")
        # An empty side names the line before it.
        hunks.append((old - (olds > 0), new - (news > 0), body))
    return hunks
