"""Status of an attempt for people: a summary of its timeline, what happened, and what to do next. Pure.

The summary is a fold over events, so a stream can continue where a page ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType
from typing import Literal

from agent.contract import words
from agent.contract.events import (
    Answered,
    CulpritFound,
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
from agent.contract.outcome import Outcome
from app.publish.outcomes import OUTCOME_TEXTS, label
from app.store.events import StoredEvent
from app.store.leases.quotas import Use
from app.store.values import Attempt

MOST_CANDIDATES = 60
_MOST_ITEMS = 20  # opinions, rungs


@dataclass(frozen=True, slots=True)
class TriedChange:
    """One candidate and what happened to it.

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
    """The attempt's state after its first `events` events; initially empty."""

    events: int = 0
    doing: str = ""  # text of the current step
    latest: str = ""  # text of the latest result
    reproduced: Reproduced | None = None
    proven: Proven | None = None
    diagnosis: Diagnosed | None = None
    culprit: CulpritFound | None = None
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
        case CulpritFound() as culprit:
            return replace(summary, culprit=culprit)
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
    """Update the newest candidate that has this title."""
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


Tone = Literal["good", "busy", "ask", "calm", "bad"]


@dataclass(frozen=True, slots=True)
class StatusText:
    """A short `label`, `what` happened, `why`, and what to do `next`."""

    tone: Tone
    label: str
    what: str
    why: str = ""
    next: str = ""


_FATES: Mapping[str, str] = MappingProxyType(
    {
        "refused": "against policy",
        "failed": "failed",
        "green": "passed",
        "chosen": "selected",
        "unproven": "not verified",
        "proven": "verified",
        "objected": "objected to",
        "declined": "rejected",
    }
)
_TONES: Mapping[Outcome, Tone] = MappingProxyType(
    {
        Outcome.HEALED: "good",
        Outcome.NEEDS_SERVICES: "ask",
        Outcome.NEEDS_SECRET: "ask",
        Outcome.NEEDS_TEST_CHANGE: "ask",
        Outcome.GAVE_UP: "ask",
        Outcome.OUT_OF_BUDGET: "ask",
        Outcome.ERROR: "bad",
    }
)


def tone(attempt: Attempt) -> Tone:
    """The colour of the status."""
    if attempt.outcome is not None:
        return _TONES.get(attempt.outcome, "calm")
    return "ask" if attempt.status == "waiting" else "busy" if attempt.status == "running" else "calm"


def status_text(attempt: Attempt, summary: AttemptSummary | None = None) -> StatusText:
    """The status as text: for a row of the list without a summary, for the attempt's page with one."""
    word = label(attempt.outcome or attempt.status)
    if attempt.outcome is not None:
        ending = OUTCOME_TEXTS[attempt.outcome]
        return StatusText(tone(attempt), word, ending.sentence, attempt.reason or "", attempt.next_step or ending.next_step)
    if attempt.status == "waiting":
        question = attempt.question.text if attempt.question else ""
        short_id = attempt.id[:12]
        how = f"Answer with `selfheal attempts approve {short_id}` or `selfheal attempts reject {short_id} --why TEXT`."
        return StatusText(tone(attempt), word, "Waiting for approval.", question, how)
    if attempt.status == "queued":
        what = "Waiting for a worker to continue." if attempt.started_at else "Waiting for a worker."
        how = "`selfheal worker` starts a worker. This page updates automatically."
        return StatusText(tone(attempt), word, what, next=how)
    doing, found = (summary.doing, summary.latest) if summary else ("", "")
    return StatusText(tone(attempt), word, doing or "Started.", found, "No action needed. This page updates automatically.")


def quota_text(use: Use) -> str:
    """ "octo/calc 3 of 50 attempts, $1.20 of $20.00", without what has no limit."""
    shown = (
        (use.quota.attempts, f"{use.attempts:,} of {use.quota.attempts.most:,.0f} attempts"),
        (use.quota.tokens, f"{use.tokens:,} of {use.quota.tokens.most:,.0f} tokens"),
        (use.quota.cost, f"${use.cost:,.2f} of ${use.quota.cost.most:,.2f}"),
    )
    return f"{use.whose} {', '.join(text for limit, text in shown if limit.most < inf)}"


def sureness(attempt: Attempt, summary: AttemptSummary) -> str:
    """The state of the repair until it has a confidence, which is set when the repair is published."""
    if all(change.state != "proven" for change in summary.changes):
        return "no repair" if attempt.outcome else "no repair yet"
    if attempt.outcome is None:
        return "verified, not yet published"
    return "verified" if attempt.outcome is Outcome.HEALED else "verified, not published"


def pace(attempt: Attempt) -> str:
    """Shown instead of the duration of an attempt that has not ended: what it is waiting for, or that it is running."""
    if attempt.status == "waiting":
        return "paused for approval"
    if attempt.status == "queued":
        return "paused until a worker is free" if attempt.started_at else "for a worker"
    return "still running"


def fate(attempt: Attempt, change: TriedChange) -> str:
    """The state of a candidate, in one to three words."""
    if change.state != "proposed":
        return _FATES[change.state]
    if attempt.status == "ended":
        return "not needed" if attempt.outcome is Outcome.HEALED else "not checked"
    return "being checked" if attempt.status == "running" else "not checked yet"


def learning(attempt: Attempt, summary: AttemptSummary) -> str:
    """Shown if there is no cause and no lesson."""
    if attempt.outcome is not None:
        return "None recorded."
    if any(change.state == "proven" for change in summary.changes):
        return "Shown when the repair is published."
    return "None yet."
