"""What an attempt's timeline comes to: its candidates and what became of them, what was red, proven, learned and spent.

A pure fold over events, so that a stream can go on from where a page began.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from agent import words
from agent.contract.events import (
    Answered,
    Diagnosed,
    Guarded,
    Opined,
    Proposed,
    Proven,
    Reflected,
    Remembered,
    Reproduced,
    RungSpent,
    Selected,
    StepStarted,
    Verified,
)
from app.store.events import Stored

MOST_CANDIDATES = 60
_PIECES = 20  # opinions, rungs


@dataclass(frozen=True, slots=True)
class Tried:
    """One candidate as it stands.

    `state` is one of proposed, refused, failed, green, chosen, unproven, proven, objected, declined (by a person).
    """

    number: int
    sequence: int  # of the event that proposed it
    rung: str
    title: str
    diff: str
    iteration: int
    state: str = "proposed"
    note: str = ""
    still_red: tuple[str, ...] = ()
    newly_red: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Story:
    """The sum of the events so far; begins empty."""

    events: int = 0
    doing: str = ""  # the step that was begun last, in words
    latest: str = ""  # what was found last
    reproduced: Reproduced | None = None
    proven: Proven | None = None
    diagnosis: Diagnosed | None = None
    tried: tuple[Tried, ...] = ()
    left_out: int = 0  # candidates that came first, of very many
    lessons: tuple[str, ...] = ()
    remembered: tuple[str, ...] = ()
    opinions: tuple[Opined, ...] = ()
    rungs: tuple[RungSpent, ...] = ()

    def with_events(self, events: Iterable[Stored]) -> Story:
        """The story after some more events."""
        story = self
        for stored in events:
            found = stored.event.text if not isinstance(stored.event, StepStarted) else ""
            story = replace(_told(story, stored), events=stored.sequence, latest=found or story.latest)
        return story


def _told(story: Story, stored: Stored) -> Story:
    match stored.event:
        case StepStarted(text=text) if text:
            return replace(story, doing=text)
        case Reproduced() as reproduced:
            return replace(story, reproduced=reproduced)
        case Diagnosed() as diagnosis:
            return replace(story, diagnosis=diagnosis)
        case Remembered(lessons=lessons):
            return replace(story, remembered=tuple(lessons))
        case Reflected(lessons=lessons):
            return replace(story, lessons=tuple(lessons))
        case RungSpent() as spent:
            return replace(story, rungs=(*story.rungs, spent)[-_PIECES:])
        case Opined() as opinion:
            opined = replace(story, opinions=(*story.opinions, opinion)[-_PIECES:])
            if opinion.accepted:
                return opined
            return _judged(opined, opinion.title, state="objected", note="; ".join(opinion.reasons))
        case Answered(about="publish", approved=False) as answer:
            newest = next((tried.title for tried in reversed(story.tried) if tried.state == "proven"), None)
            return story if newest is None else _judged(story, newest, state="declined", note=answer.why)
        case Proposed() as proposed:
            return _proposed(story, proposed, stored.sequence)
        case Guarded(title=title, rule=rule):
            return _judged(story, title, state="refused", note=rule)
        case Verified(title=title, passed=True):
            return _judged(story, title, state="green")
        case Verified(title=title) as failed:
            red = {"still_red": tuple(failed.still_red[:5]), "newly_red": tuple(failed.newly_red[:5])}
            return _judged(story, title, state="failed", note=_failing(failed), **red)
        case Selected(title=title) as selected:
            return _judged(story, title, state="chosen", note=selected.why, diff=selected.diff)
        case Proven(title=title) as proven:
            judged = replace(story, proven=proven if proven.passed else story.proven)
            return _judged(judged, title, state="proven" if proven.passed else "unproven", note=proven.why)
    return story


def _proposed(story: Story, proposed: Proposed, sequence: int) -> Story:
    number = story.left_out + len(story.tried) + 1
    tried = (*story.tried, Tried(number, sequence, proposed.rung, proposed.title, proposed.diff, proposed.iteration))
    over = max(0, len(tried) - MOST_CANDIDATES)
    return replace(story, tried=tried[over:], left_out=story.left_out + over)


def _judged(story: Story, title: str, **what: object) -> Story:
    """The newest candidate of that title, as it stands now."""
    for at in range(len(story.tried) - 1, -1, -1):
        if story.tried[at].title == title:
            what = {name: value for name, value in what.items() if value or name != "diff"}
            judged = replace(story.tried[at], **what)  # type: ignore[arg-type]
            return replace(story, tried=(*story.tried[:at], judged, *story.tried[at + 1 :]))
    return story


def _failing(verified: Verified) -> str:
    parts = []
    if verified.still_red:
        parts.append(f"{words.counted(len(verified.still_red), 'result')} still red")
    if verified.newly_red:
        parts.append(f"{words.counted(len(verified.newly_red), 'result')} newly red")
    return ", ".join(parts)
