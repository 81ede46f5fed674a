"""Splits a change into pieces that can be taken back separately: from single tokens to whole files. Pure.

A piece is a replacement in the text with the change. Taking it back restores what stood there before.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise

from agent.contract.proposal import Edits, FileChange
from agent.edits.changes import changed_ranges, lines

MOST = 3_000  # pieces of one change
PAIRED = 40  # lines of a hunk's side; in longer hunks, lines are paired by position if both sides have as many
LONG = 500  # characters of a line; longer ones are not split into tokens
SIMILAR = 0.5  # ratio from which a removed and an added line count as one line that was edited
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True, order=True)
class PartialRevert:
    """Replace text[start:end] of one file. Partial reverts sort by how much they take back."""

    lines: int  # changed lines that it takes back, added and removed
    size: int  # characters removed plus characters added
    path: str
    start: int
    end: int
    text: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.text + text[self.end :]


def pieces(reversal: Edits) -> list[PartialRevert]:
    """The pieces of the changed files that exist on both sides, smallest first; at most `MOST` of each file and in total.

    CPU-bound: call it in a thread.
    """
    found: set[PartialRevert] = set()
    for edit in reversal:
        if edit.before is not None and edit.after is not None:
            found.update(islice(_of_file(edit), MOST))
    return sorted(found)[:MOST]


def hunks(edit: FileChange) -> list[PartialRevert]:
    """The hunks of one file, in order. A file that was added or removed is one hunk."""
    now, before = edit.before or "", edit.after or ""
    if edit.before is None or edit.after is None:
        return [_piece(edit.path, now, 0, len(now), before, len(lines(now)) + len(lines(before)))]
    ours, theirs = lines(now), lines(before)
    at = [0, *accumulate(map(len, ours))]
    return [
        _piece(edit.path, now, at[i], at[end], "".join(theirs[j:to]), end - i + to - j)
        for i, end, j, to in changed_ranges(edit)
    ]


def with_moved(edit: FileChange, part: FileChange) -> FileChange | None:
    """`part`, and the other places of lines that were only moved: taking back one half of a move loses or doubles a line.

    None if no line was moved. Both start from the same text.
    """
    now = edit.before or ""
    at = [0, *accumulate(map(len, lines(now)))]
    touched = [(at[start], at[end]) for start, end, _, _ in changed_ranges(part)]
    every = hunks(edit)
    own = [hunk for hunk in every if any(hunk.start <= end and start <= hunk.end for start, end in touched)]
    others = [hunk for hunk in every if hunk not in own and any(_are_one_move(now, hunk, each) for each in own)]
    if not others:
        return None
    return FileChange(edit.path, edit.before, joined([*own, *others], now).apply(now))


def whole_lines(edit: FileChange, part: FileChange) -> FileChange:
    """`part` with the lines as they were before the change: where it takes back single tokens, no such line ever existed."""
    now = edit.before or ""
    ours, theirs = lines(now), lines(edit.after or "")
    at = [0, *accumulate(map(len, ours))]
    restored = set(lines(part.after or ""))
    touched = [(start, end) for start, end, _, _ in changed_ranges(part)]
    found: list[PartialRevert] = []
    for i, end, j, to in changed_ranges(edit):
        for mine, other in _pairs(ours[i:end], theirs[j:to]).items():
            is_touched = any(first <= i + mine < last for first, last in touched)
            if is_touched and theirs[j + other] not in restored:
                found.append(_piece(edit.path, now, at[i + mine], at[i + mine + 1], theirs[j + other], 2))
    return FileChange(edit.path, edit.before, joined(found, now).apply(now)) if found else part


def _are_one_move(text: str, one: PartialRevert, other: PartialRevert) -> bool:
    """Does a line leave one hunk for the other?"""
    gone = [_lines_of(hunk.text) - _lines_of(text[hunk.start : hunk.end]) for hunk in (one, other)]
    come = [_lines_of(text[hunk.start : hunk.end]) - _lines_of(hunk.text) for hunk in (one, other)]
    return bool(gone[0] & come[1] or gone[1] & come[0])


def _lines_of(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines()} - {""}


def _piece(path: str, now: str, start: int, end: int, text: str, count: int) -> PartialRevert:
    return PartialRevert(count, end - start + len(text), path, start, end, text)


def joined(parts: Sequence[PartialRevert], text: str) -> PartialRevert:
    """Pieces of one file that do not overlap, as one."""
    ordered = sorted(parts, key=lambda piece: piece.start)
    new = ordered[0].text
    for one, other in pairwise(ordered):
        new += text[one.end : other.start] + other.text
    start, end = ordered[0].start, ordered[-1].end
    return PartialRevert(sum(p.lines for p in parts), sum(p.size for p in parts), ordered[0].path, start, end, new)


def _of_file(edit: FileChange) -> Iterator[PartialRevert]:
    now, before = edit.before or "", edit.after or ""
    ours, theirs = lines(now), lines(before)
    at = [0, *accumulate(map(len, ours))]
    for i, end, j, to in changed_ranges(edit):
        yield from _of_hunk(edit.path, ours[i:end], theirs[j:to], at[i])
    whole = hunks(edit)
    yield from whole
    for count in (2, 3, 4):  # neighbouring hunks belong together
        for first in range(len(whole) - count + 1):
            yield joined(whole[first : first + count], now)
    if len(whole) > 1:
        yield joined(whole, now)


def _of_hunk(path: str, ours: Sequence[str], theirs: Sequence[str], offset: int) -> Iterator[PartialRevert]:
    """Single lines and tokens of one hunk, which starts at `offset`."""
    at = [offset, *(offset + end for end in accumulate(map(len, ours)))]
    pairs = _pairs(ours, theirs)
    for mine, other in pairs.items():
        yield PartialRevert(2, len(ours[mine]) + len(theirs[other]), path, at[mine], at[mine + 1], theirs[other])
        yield from _of_line(path, ours[mine], theirs[other], at[mine])
    for mine, line in enumerate(ours):
        if mine not in pairs and line.strip():
            yield PartialRevert(1, len(line), path, at[mine], at[mine + 1], "")
    place = {other: mine for mine, other in pairs.items()}
    behind = 0  # lines of ours that stand before the next of theirs
    run: list[str] = []
    for other, line in enumerate(theirs):
        if other in place:
            behind, run = place[other] + 1, []
        elif line.strip():
            run.append(line)
            yield PartialRevert(1, len(line), path, at[behind], at[behind], line)
            if 1 < len(run) <= PAIRED:
                yield PartialRevert(len(run), sum(map(len, run)), path, at[behind], at[behind], "".join(run))


def _pairs(ours: Sequence[str], theirs: Sequence[str]) -> dict[int, int]:
    """Lines that were edited: the index of ours → the index of theirs, in order on both sides."""
    if len(ours) == len(theirs) == 1:
        return {0: 0}
    if len(ours) > PAIRED or len(theirs) > PAIRED:
        return dict(zip(range(len(ours)), range(len(theirs)), strict=False)) if len(ours) == len(theirs) else {}
    pairs: dict[int, int] = {}
    first = 0
    for mine, line in enumerate(ours):
        scored = [(_similarity(line, theirs[other]), -other) for other in range(first, len(theirs))]
        best, place = max(scored, default=(0.0, 0))
        if best >= SIMILAR:
            pairs[mine] = -place
            first = 1 - place
    return pairs


def _similarity(one: str, other: str) -> float:
    if max(len(one), len(other)) > LONG:
        return 0.0
    return (
        difflib.SequenceMatcher(None, one.strip(), other.strip(), autojunk=False).ratio()
        if one.strip() and other.strip()
        else 0.0
    )


def _of_line(path: str, ours: str, theirs: str, offset: int) -> Iterator[PartialRevert]:
    """The tokens in which an edited line differs, separately."""
    if max(len(ours), len(theirs)) > LONG:
        return
    one, other = _TOKEN.findall(ours), _TOKEN.findall(theirs)
    at = [offset, *(offset + end for end in accumulate(map(len, one)))]
    codes = [code for code in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes() if code[0] != "equal"]
    if len(codes) > 1:
        for _, i, end, j, to in codes:
            text = "".join(other[j:to])
            yield PartialRevert(2, at[end] - at[i] + len(text), path, at[i], at[end], text)
