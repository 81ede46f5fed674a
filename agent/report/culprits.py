"""What broke the tests, in words and as an event: the part of the change since the last good commit. Pure."""

from __future__ import annotations

from agent.contract import words
from agent.contract.events import CulpritFound
from agent.contract.last_good import Culprit
from agent.contract.proposal import Span
from agent.edits.changes import diff
from agent.edits.reversals import inverted

_PLACES = 5
_IDS = 50  # in the event
_SHOWN = 20_000  # characters of the event's diff


def part(culprit: Culprit) -> str:
    """ "2 of the 140 lines changed since the parent commit 3f2a91c0de"."""
    if culprit.lines < culprit.of:
        shown = f"{culprit.lines:,} of the {words.counted(culprit.of, 'line')}"
    else:
        shown = {1: "the only line", 2: "both lines"}.get(culprit.lines, f"all {culprit.lines:,} lines")
    return f"{shown} changed {culprit.since}"


def locations(culprit: Culprit) -> str:
    """ "`pkg/a.py:12-13`, `pkg/b.py:4`"; "" if no line is known."""
    places = ", ".join(words.code(numbered(span)) for span in culprit.places[:_PLACES])
    return places + (f" and {len(culprit.places) - _PLACES} more places" if len(culprit.places) > _PLACES else "")


def sentence(culprit: Culprit) -> str:
    """Untrusted text, with its code in backticks: "2 of the 140 lines changed since commit 3f2a91c0de: `pkg/a.py:12-13`"."""
    places = locations(culprit)
    return words.capitalized(part(culprit)) + (f": {places}" if places else "")


def needed_by(culprit: Culprit) -> str:
    """What else needs the part, as a sentence with a leading blank; "" if nothing does, or if that is unknown."""
    if not culprit.breaks:
        return ""
    fails = "fails" if len(culprit.breaks) == 1 else "fail"
    this = "this line" if culprit.lines == 1 else "these lines"
    return f" Without {this}, {words.counted(len(culprit.breaks), 'other test')} {fails}: {words.named(culprit.breaks)}."


def change(culprit: Culprit) -> str:
    """The diff of the part, from how they were to how they are now."""
    return diff(inverted(culprit.shown or culprit.reversal))


def event(culprit: Culprit) -> CulpritFound:
    return CulpritFound(
        text=f"What broke it: {words.uncapitalized(sentence(culprit))}",
        good=culprit.good,
        places=[numbered(span) for span in culprit.places[:_IDS]],
        lines=culprit.lines,
        of=culprit.of,
        diff=change(culprit)[:_SHOWN],
        breaks=list((culprit.breaks or ())[:_IDS]),
        breaks_count=len(culprit.breaks or ()),
    )


def numbered(span: Span) -> str:
    """ "pkg/a.py:12-13", "pkg/a.py:12"."""
    return f"{span.path}:{span.first_line}" + (f"-{span.last_line}" if span.last_line > span.first_line else "")
