"""What broke the tests: the smallest part of the change since the last good commit, as Markdown for GitHub. Pure."""

from __future__ import annotations

from agent.contract import words
from agent.contract.last_good import Culprit
from agent.contract.proposal import Span
from agent.edits.changes import diff
from agent.edits.reversals import inverted
from app.publish.markdown import Quoter

_PLACES = 5


def markdown(culprit: Culprit, quote: Quoter, limit: int) -> list[str]:
    """Which lines, and the diff from how they were to how they are now: at most `limit` characters of it."""
    return [f"{quote.prose(_sentence(culprit), 1000)}.", quote.fence(diff(inverted(culprit.reversal)), limit, "diff")]


def _sentence(culprit: Culprit) -> str:
    """ "2 of the 140 lines changed since commit 3f2a91c0de: `pkg/a.py:12-13`"; untrusted text."""
    if culprit.lines < culprit.of:
        part = f"{culprit.lines:,} of the {words.counted(culprit.of, 'line')}"
    else:
        part = "The only line" if culprit.lines == 1 else f"All {words.counted(culprit.lines, 'line')}"
    places = ", ".join(words.code(_numbered(span)) for span in culprit.places[:_PLACES])
    more = f" and {words.counted(len(culprit.places) - _PLACES, 'more place')}" if len(culprit.places) > _PLACES else ""
    return f"{part} changed since {culprit.good}" + (f": {places}{more}" if places else "")


def _numbered(span: Span) -> str:
    """ "pkg/a.py:12-13", "pkg/a.py:12"."""
    return f"{span.path}:{span.first_line}" + (f"-{span.last_line}" if span.last_line > span.first_line else "")
