"""Summary of an attempt's timeline: its candidates and their state, failures, evidence, lessons and costs.

A pure fold over events, so that a stream can continue from where a page ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from agent.contract import words
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
from app.store.events import StoredEvent

MOST_CANDIDATES = 60
_MOST_ITEMS = 20  # opinions, rungs


@dataclass(frozen=True, slots=True)
class TriedChange:
    """One candidate.

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
class AttemptSummary:
    """The state after some events; initially empty."""

    events: int = 0
    doing: str = ""  # text of the current step
    latest: str = ""  # text of the latest result
    reproduced: Reproduced | None = None
    proven: Proven | None = None
    diagnosis: Diagnosed | None = None
    changes: tuple[TriedChange, ...] = ()
    left_out: int = 0  # earliest candidates, dropped beyond `MOST_CANDIDATES`
    lessons: tuple[str, ...] = ()
    remembered: tuple[str, ...] = ()
    opinions: tuple[Opined, ...] = ()
    rungs: tuple[RungSpent, ...] = ()

    def with_events(self, events: Iterable[StoredEvent]) -> AttemptSummary:
        """The summary after more events."""
        summary = self
        for stored in events:
            found = stored.event.text if not isinstance(stored.event, StepStarted) else ""
            summary = replace(_after(summary, stored), events=stored.sequence, latest=found or summary.latest)
        return summary


def _after(summary: AttemptSummary, stored: StoredEvent) -> AttemptSummary:
    match stored.event:
        case StepStarted(text=text) if text:
            return replace(summary, doing=text)
        case Reproduced() as reproduced:
            return replace(summary, reproduced=reproduced)
        case Diagnosed() as diagnosis:
            return replace(summary, diagnosis=diagnosis)
        case Remembered(lessons=lessons):
            return replace(summary, remembered=tuple(lessons))
        case Reflected(lessons=lessons):
            return replace(summary, lessons=tuple(lessons))
        case RungSpent() as spent:
            return replace(summary, rungs=(*summary.rungs, spent)[-_MOST_ITEMS:])
        case Opined() as opinion:
            opined = replace(summary, opinions=(*summary.opinions, opinion)[-_MOST_ITEMS:])
            if opinion.accepted:
                return opined
            return _judged(opined, opinion.title, state="objected", note="; ".join(opinion.reasons))
        case Answered(about="publish", approved=False) as answer:
            newest = next((change.title for change in reversed(summary.changes) if change.state == "proven"), None)
            return summary if newest is None else _judged(summary, newest, state="declined", note=answer.why)
        case Proposed() as proposed:
            return _proposed(summary, proposed, stored.sequence)
        case Guarded(title=title, rule=rule):
            return _judged(summary, title, state="refused", note=rule)
        case Verified(title=title, passed=True):
            return _judged(summary, title, state="green")
        case Verified(title=title) as failed:
            red = {"still_red": tuple(failed.still_red[:5]), "newly_red": tuple(failed.newly_red[:5])}
            return _judged(summary, title, state="failed", note=_failing(failed), **red)
        case Selected(title=title) as selected:
            return _judged(summary, title, state="chosen", note=selected.why, diff=selected.diff)
        case Proven(title=title) as proven:
            judged = replace(summary, proven=proven if proven.passed else summary.proven)
            return _judged(judged, title, state="proven" if proven.passed else "unproven", note=proven.why)
    return summary


def _proposed(summary: AttemptSummary, proposed: Proposed, sequence: int) -> AttemptSummary:
    number = summary.left_out + len(summary.changes) + 1
    changes = (
        *summary.changes,
        TriedChange(number, sequence, proposed.rung, proposed.title, proposed.diff, proposed.iteration),
    )
    over = max(0, len(changes) - MOST_CANDIDATES)
    return replace(summary, changes=changes[over:], left_out=summary.left_out + over)


def _judged(summary: AttemptSummary, title: str, **what: object) -> AttemptSummary:
    """Update the newest candidate with that title."""
    for at in range(len(summary.changes) - 1, -1, -1):
        if summary.changes[at].title == title:
            what = {name: value for name, value in what.items() if value or name != "diff"}
            judged = replace(summary.changes[at], **what)  # type: ignore[arg-type]
            return replace(summary, changes=(*summary.changes[:at], judged, *summary.changes[at + 1 :]))
    return summary


def _failing(verified: Verified) -> str:
    parts = []
    if verified.still_red:
        parts.append(f"{words.counted(len(verified.still_red), 'result')} still failing")
    if verified.newly_red:
        parts.append(f"{words.counted(len(verified.newly_red), 'result')} newly failing")
    return ", ".join(parts)
