"""Where an attempt stands, in the order in which a maintainer wants to know it: what happened, why, what to do next. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from agent.contract.outcome import Outcome
from app.dashboard.summary import Story, Tried
from app.endings import ENDINGS
from app.store.values import Attempt

Tone = Literal["good", "busy", "ask", "calm", "bad"]


@dataclass(frozen=True, slots=True)
class Standing:
    """`label` in a word or two; `what` happened or happens, `why`, and what comes `next`."""

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
        "refused": "refused",
        "failed": "failed",
        "green": "green",
        "chosen": "chosen",
        "unproven": "not proven",
        "proven": "proven",
        "objected": "objected to",
        "declined": "rejected by a person",
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
    """A status or an outcome as people say it."""
    return _LABELS.get(state) or state.replace("_", " ").capitalize()


def tone(attempt: Attempt) -> Tone:
    """What colour it has."""
    if attempt.outcome is not None:
        return _TONES.get(attempt.outcome, "calm")
    return "ask" if attempt.status == "waiting" else "busy" if attempt.status == "running" else "calm"


def standing(attempt: Attempt, story: Story | None = None) -> Standing:
    """Of the list's row without a story, of the attempt's page with one."""
    word = label(attempt.outcome or attempt.status)
    if attempt.outcome is not None:
        ending = ENDINGS[attempt.outcome]
        return Standing(tone(attempt), word, ending.sentence, attempt.reason or "", attempt.next_step or ending.next_step)
    if attempt.status == "waiting":
        question = attempt.question.text if attempt.question else ""
        known = attempt.id[:12]
        how = f"Answer with `selfheal attempts approve {known}`, or `selfheal attempts reject {known} --why TEXT`."
        return Standing(tone(attempt), word, "A person is asked before it goes on.", question, how)
    if attempt.status == "queued":
        what = "It waits for a worker to go on with it." if attempt.started_at else "It waits for a worker."
        return Standing(
            tone(attempt), word, what, next="Workers are started with `selfheal worker`; this page follows by itself."
        )
    doing, found = (story.doing, story.latest) if story else ("", "")
    return Standing(tone(attempt), word, doing or "A worker has begun.", found, "Nothing to do: this page follows by itself.")


def sureness(attempt: Attempt, story: Story) -> str:
    """What is known of the repair while no figure of confidence is: that comes with the pull request."""
    if all(tried.state != "proven" for tried in story.tried):
        return "no repair" if attempt.outcome else "no repair yet"
    if attempt.outcome is None:
        return "proven; told when it is published"
    return "proven" if attempt.outcome is Outcome.HEALED else "proven, not published"


def pace(attempt: Attempt) -> str:
    """Why the time that an attempt took is not known yet: of one that has not ended."""
    if attempt.status == "waiting":
        return "paused, for a person's decision"
    if attempt.status == "queued":
        return "paused, for a worker" if attempt.started_at else "for a worker"
    return "still at it"


def fate(attempt: Attempt, tried: Tried) -> str:
    """What became of a change, in a word or two."""
    if tried.state != "proposed":
        return _FATES[tried.state]
    if attempt.status == "ended":
        return "not needed" if attempt.outcome is Outcome.HEALED else "not judged"
    return "being judged" if attempt.status == "running" else "not judged yet"


def learning(attempt: Attempt, story: Story) -> str:
    """Why nothing is told of cause and lessons."""
    if attempt.outcome is not None:
        return "Nothing beyond what the change itself says." if story.tried else "Nothing was learned."
    if any(tried.state == "proven" for tried in story.tried):
        return "Told when the repair is published."
    return "Nothing yet."
