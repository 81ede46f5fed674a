"""What broke the tests: the smallest part of the change since the last good commit, as text. Pure."""

from __future__ import annotations

from agent.contract import words
from agent.contract.events import Traced
from agent.contract.last_good import Culprit
from agent.contract.proposal import FileChange, Span
from agent.edits.changes import diff
from app.publish.markdown import Quoter

_PLACES = 5
_IDS = 50  # in the event
_SHOWN = 20_000  # characters of the event's diff


def sentence(culprit: Culprit) -> str:
    """ "2 of the 140 lines changed since commit 3f2a91c0de: `pkg/a.py:12-13`"; untrusted text, with its code in backticks."""
    if culprit.lines < culprit.of:
        part = f"{culprit.lines:,} of the {words.counted(culprit.of, 'line')}"
    else:
        part = "the only line" if culprit.lines == 1 else f"all {words.counted(culprit.lines, 'line')}"
    places = ", ".join(_place(span) for span in culprit.places[:_PLACES])
    more = f" and {len(culprit.places) - _PLACES} more places" if len(culprit.places) > _PLACES else ""
    return f"{words.capitalized(part)} changed since {culprit.good}" + (f": {places}{more}" if places else "")


def change(culprit: Culprit) -> str:
    """The diff of these lines, from how they were to how they are now."""
    return diff(tuple(FileChange(edit.path, edit.after, edit.before) for edit in culprit.reversal))


def breaks(culprit: Culprit) -> str:
    """What else depends on these lines, as a sentence of untrusted text; "" if nothing does."""
    if not culprit.breaks:
        return ""
    fails = "fails" if len(culprit.breaks) == 1 else "fail"
    return f"Without these lines, {words.counted(len(culprit.breaks), 'other test')} {fails}: {words.named(culprit.breaks)}."


def markdown(culprit: Culprit, quote: Quoter, limit: int) -> list[str]:
    """Paragraphs for GitHub, with at most `limit` characters of the diff."""
    made = [f"{quote.prose(sentence(culprit), 1000)}."]
    if shown := change(culprit):
        made.append(quote.fence(shown, limit, "diff"))
    if others := breaks(culprit):
        made.append(quote.prose(others, 600))
    return made


def event(culprit: Culprit) -> Traced:
    said = sentence(culprit)
    return Traced(
        text=f"What broke it: {said[:1].lower()}{said[1:]}",
        good=culprit.good,
        places=[_numbered(span) for span in culprit.places[:_IDS]],
        lines=culprit.lines,
        of=culprit.of,
        diff=change(culprit)[:_SHOWN],
        breaks=list(culprit.breaks[:_IDS]),
        breaks_count=len(culprit.breaks),
    )


def _place(span: Span) -> str:
    at = words.code(_numbered(span))
    return f"before {at}" if span.last_line < span.first_line else at


def _numbered(span: Span) -> str:
    """ "pkg/a.py:12-13", "pkg/a.py:12"; an empty range stands before its line."""
    return f"{span.path}:{span.first_line}" + (f"-{span.last_line}" if span.last_line > span.first_line else "")
