"""The texts about an attempt's status: what happened, why, and what to do next. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from agent.contract.outcome import Outcome
from app.dashboard.summary import AttemptSummary, TriedChange
from app.publish.outcomes import ENDINGS
from app.store.values import Attempt

Tone = Literal["good", "busy", "ask", "calm", "bad"]


@dataclass(frozen=True, slots=True)
class StatusText:
    """A short `label`, `what` happened, `why`, and what to do `next`."""

    tone: Tone
    label: str
    what: str
    why: str = ""
    next: str = ""


_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "not_reproduced": "Not reproduced",
        "needs_services": "Needs a service",
        "needs_secret": "Needs a secret",
        "needs_test_change": "Needs a test change",
        "nothing_failed": "Nothing failed",
        "out_of_budget": "Out of budget",
        "gave_up": "Gave up",
    }
)
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


def label(state: str) -> str:
    """A status or an outcome, for people."""
    return _LABELS.get(state) or state.replace("_", " ").capitalize()


def tone(attempt: Attempt) -> Tone:
    """The colour of the status."""
    if attempt.outcome is not None:
        return _TONES.get(attempt.outcome, "calm")
    return "ask" if attempt.status == "waiting" else "busy" if attempt.status == "running" else "calm"


def status_text(attempt: Attempt, summary: AttemptSummary | None = None) -> StatusText:
    """For a row of the list without a summary, for the attempt's page with one."""
    word = label(attempt.outcome or attempt.status)
    if attempt.outcome is not None:
        ending = ENDINGS[attempt.outcome]
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


def sureness(attempt: Attempt, summary: AttemptSummary) -> str:
    """The state of the repair while it has no confidence, which is set when it is published."""
    if all(change.state != "proven" for change in summary.changes):
        return "no repair" if attempt.outcome else "no repair yet"
    if attempt.outcome is None:
        return "verified, not yet published"
    return "verified" if attempt.outcome is Outcome.HEALED else "verified, not published"


def pace(attempt: Attempt) -> str:
    """What an attempt that has not ended is waiting for, instead of its duration."""
    if attempt.status == "waiting":
        return "paused for approval"
    if attempt.status == "queued":
        return "paused until a worker is free" if attempt.started_at else "for a worker"
    return "still running"


def fate(attempt: Attempt, change: TriedChange) -> str:
    """The state of a change, in a word or two."""
    if change.state != "proposed":
        return _FATES[change.state]
    if attempt.status == "ended":
        return "not needed" if attempt.outcome is Outcome.HEALED else "not checked"
    return "being checked" if attempt.status == "running" else "not checked yet"


def learning(attempt: Attempt, summary: AttemptSummary) -> str:
    """Shown while there are no cause and lessons."""
    if attempt.outcome is not None:
        return "None recorded."
    if any(change.state == "proven" for change in summary.changes):
        return "Shown when the repair is published."
    return "None yet."
