"""A unified diff as numbered lines for a page, with changed words marked and syntax highlighted.

One regular expression finds comments, strings, numbers and keywords of common languages. It runs in linear time on any text, as
the text is untrusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from markupsafe import Markup, escape

from app.dashboard.safe_text import LONGEST, Sanitizer

MOST_LINES = 600  # of one diff
PAGE_LINES = 2_000  # of all diffs of one page
_COLUMNS = 40  # characters that count as one line of the page's budget, as each may become a token with markup
_LONG = 400  # characters; longer lines are not highlighted
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_BETWEEN = ("diff ", "index ", "new file", "deleted file", "similarity ", "rename ", "old mode", "new mode")
_WORDS = frozenset(
    """
    and as assert async await break case catch class const continue def default defer del do elif else enum except
    export extends false False final finally fn for from func function global go if impl implements import in
    interface is lambda let loop match mod mut new nil None nonlocal not null or package pass private protected
    pub public raise return self static struct super switch this throw throws trait true True try type use var
    void where while with yield
    """.split()  # noqa: SIM905 - a table to read
)
_TOKENS = re.compile(
    r"(?P<unseen>⟦U\+[0-9A-F]{4,6}⟧)"
    r"|(?P<string>\"(?:[^\"\\]|\\.)*\"?|'(?:[^'\\]|\\.)*'?|`(?:[^`\\]|\\.)*`?)"
    r"|(?P<comment>(?:(?<![\w$])#(?![\[!{])|(?<![:/])//).*)"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<number>\d[\w.]*)"
)

Kind = Literal["file", "hunk", "same", "old", "new", "note"]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a diff: safe `html`, and its line numbers before and after the change."""

    kind: Kind
    html: Markup
    old: int | None = None
    new: int | None = None


def lines_of(diff: str, sanitizer: Sanitizer) -> list[Line]:
    """The diff as lines: at most `MOST_LINES`, then a note about the rest."""
    raw = sanitizer.text(diff).rstrip("\n").split("\n")
    lines = list(_lines(raw[:MOST_LINES])) if diff.strip() else []
    if len(raw) > MOST_LINES:
        lines.append(Line("note", escape(f"{len(raw) - MOST_LINES:,} more lines not shown")))
    return lines


def affordable(diffs: Iterable[tuple[int, str]]) -> frozenset[int]:
    """The numbers of the diffs that fit on one page; earlier diffs take precedence."""
    left = PAGE_LINES
    shown: set[int] = set()
    for number, diff in diffs:
        left -= max(min(diff.count("\n"), MOST_LINES), min(len(diff), LONGEST) // _COLUMNS)
        if left < 0:
            break
        shown.add(number)
    return frozenset(shown)


def _lines(raw: list[str]) -> Iterator[Line]:
    old = new = 0  # next line numbers
    old_left = new_left = 0  # remaining lines of the hunk; only after them can a file header follow
    at = 0
    while at < len(raw):
        text = raw[at]
        if hunk := _HUNK.match(text):
            old, new = int(hunk[1]), int(hunk[3])
            old_left, new_left = int(hunk[2] or 1), int(hunk[4] or 1)
            yield Line("hunk", escape(f"line {old}{hunk[5][:200]}" if old else f"line {new}"))
        elif old_left <= 0 and _is_head(raw, at):
            yield Line("file", escape(_file(text, raw[at + 1])))
            at += 1
        elif text.startswith("-"):
            removed, added = _changed(raw, at, old_left)
            yield from _pairs(removed, added, old, new)
            old, new = old + len(removed), new + len(added)
            old_left, new_left = old_left - len(removed), new_left - len(added)
            at += len(removed) + len(added) - 1
        elif text.startswith("+"):
            yield Line("new", _coloured(text[1:]), None, new)
            new, new_left = new + 1, new_left - 1
        elif text.startswith("\\"):
            yield Line("note", escape(text[2:]))
        elif old_left <= 0 and new_left <= 0 and text.startswith(_BETWEEN):
            pass
        else:
            yield Line("same", _coloured(text[1:]), old, new)
            old, new, old_left, new_left = old + 1, new + 1, old_left - 1, new_left - 1
        at += 1


def _is_head(raw: list[str], at: int) -> bool:
    return raw[at].startswith("--- ") and at + 1 < len(raw) and raw[at + 1].startswith("+++ ")


def _file(before: str, after: str) -> str:
    """ "src/a.py" or "src/a.py (new)". Text after the path, usually a date, is shown too."""
    was, now = (text[4:].rstrip("\t").removeprefix(side) for text, side in ((before, "a/"), (after, "b/")))
    if was.partition("\t")[0] == "/dev/null":
        return f"{now} (new)"
    return f"{was} (removed)" if now.partition("\t")[0] == "/dev/null" else now


def _changed(raw: list[str], at: int, old_left: int) -> tuple[list[str], list[str]]:
    """The removed lines from here on, and the added lines that replace them."""
    removed: list[str] = []
    added: list[str] = []
    while at < len(raw) and raw[at].startswith("-") and (len(removed) < old_left or not _is_head(raw, at)):
        removed.append(raw[at][1:])
        at += 1
    while at < len(raw) and raw[at].startswith("+"):
        added.append(raw[at][1:])
        at += 1
    return removed, added


def _pairs(removed: list[str], added: list[str], old: int, new: int) -> Iterator[Line]:
    marked = [_differing(before, after) for before, after in zip_longest(removed, added)]
    for number, text in enumerate(removed):
        yield Line("old", _coloured(text, marked[number][0]), old + number, None)
    for number, text in enumerate(added):
        yield Line("new", _coloured(text, marked[number][1]), None, new + number)


def _differing(before: str | None, after: str | None) -> tuple[tuple[int, int], tuple[int, int]]:
    """The differing range of each of two lines; empty if most of the line differs."""
    if before is None or after is None:
        return (0, 0), (0, 0)
    shorter = min(len(before), len(after))
    head = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    tail = next((at for at in range(shorter - head) if before[-1 - at] != after[-1 - at]), shorter - head)
    if 2 * (len(before.strip()) - (len(before) - head - tail)) < len(before.strip()):
        return (0, 0), (0, 0)
    return (head, len(before) - tail), (head, len(after) - tail)


def _coloured(text: str, mark: tuple[int, int] = (0, 0)) -> Markup:
    first, last = mark
    if first >= last:
        return _tokens(text)
    return Markup("{}<mark>{}</mark>{}").format(_tokens(text[:first]), _tokens(text[first:last]), _tokens(text[last:]))


def _tokens(text: str) -> Markup:
    if len(text) > _LONG:
        return escape(text)
    made, at = Markup(), 0
    for token in _TOKENS.finditer(text):
        kind = token.lastgroup or ""
        if kind == "word":
            if token.group() not in _WORDS:
                continue
            kind = "keyword"
        made += escape(text[at : token.start()])
        made += Markup('<span class="t-{}">{}</span>').format(kind, token.group())
        at = token.end()
    return made + escape(text[at:])
