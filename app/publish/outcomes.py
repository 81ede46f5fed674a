"""The text of each outcome: its sentence, and the next step for people. A constant table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from agent.contract.outcome import NoRepair, Outcome
from agent.report.endings import MORE_BUDGET


@dataclass(frozen=True, slots=True)
class OutcomeText:
    """The text of an outcome."""

    sentence: str
    next_step: str


DISAGREE = "Selfheal found what broke the tests. A person must decide whether the change or the test is right."
FOUND = "Selfheal found the change that broke the tests. It does not take a change back by itself."
UNSURE = "Selfheal found a possible repair: all checks pass with it, but do not show that it is right. A person must decide."
NOT_PUBLISHED = "Selfheal found a verified repair, but cannot open a pull request with it."
NOTHING_TO_HEAL = "No failure that this change caused was found here."  # on a checkout, where no CI reported one

_LABELS = {"needs_services": "Needs a service", "needs_secret": "Needs a secret", "needs_test_change": "Needs a test change"}
OUTCOME_TEXTS: Mapping[Outcome, OutcomeText] = MappingProxyType(
    {
        Outcome.HEALED: OutcomeText(
            "Selfheal found a verified repair.", "Review the pull request. Selfheal never merges by itself."
        ),
        Outcome.NOT_REPRODUCED: OutcomeText(
            "The failure did not occur in the sandbox.",
            "Rerun the job. If it fails again, name the failing command under `test:` in `.github/selfheal.yml`.",
        ),
        Outcome.FLAKY: OutcomeText(
            "The failure depends on chance or on the environment.",
            "Check the tests named above for dependence on time, order, randomness or shared state. No code was changed.",
        ),
        Outcome.INFRASTRUCTURE: OutcomeText(
            "The CI run or the sandbox failed for a reason outside the code.",
            "Rerun the job. If it fails again, see the reason above.",
        ),
        Outcome.NEEDS_SERVICES: OutcomeText(
            "The tests need a service that the sandbox does not provide.",
            "Make the tests start the service themselves, or list tests that run without it in `.github/selfheal.yml`.",
        ),
        Outcome.NEEDS_SECRET: OutcomeText(
            "The failing step needs a secret, and the sandbox never contains secrets.",
            "Check the secret in your CI's settings, or list tests that run without it in `.github/selfheal.yml`.",
        ),
        Outcome.NEEDS_TEST_CHANGE: OutcomeText(
            "The code contradicts a test or another protected file. A person must decide which is right.",
            "Decide whether the test or the code is correct. `allow_test_edits` in `.github/selfheal.yml` allows such repairs.",
        ),
        Outcome.SUPERSEDED: OutcomeText(
            "The branch changed before the repair was finished.", "No action needed. Only the newest commit matters."
        ),
        Outcome.NOTHING_FAILED: OutcomeText(
            "No failing check was found at this commit.",
            "If a check fails, add its command to `.github/selfheal.yml`.",
        ),
        Outcome.OUT_OF_BUDGET: OutcomeText(
            "The budget or a time limit ran out before a repair was verified.",
            f"Start at the failure; the changes that failed are listed below. {MORE_BUDGET}",
        ),
        Outcome.GAVE_UP: OutcomeText(
            "Selfheal found no repair.",
            "Start at the failure; the changes that failed are listed below.",
        ),
        Outcome.REFUSED: OutcomeText("Selfheal cannot carry out this attempt.", "The reason above says what prevents it."),
        Outcome.CANCELLED: OutcomeText("The attempt was cancelled.", "To start a new one, comment `/heal` on a pull request."),
        Outcome.ERROR: OutcomeText(
            "Selfheal failed with an internal error.",
            "Your code is not the cause. Tell the operator of Selfheal, who finds the attempt's id in the log.",
        ),
    }
)


def label(state: str) -> str:
    """A status or an outcome, in a few words for people."""
    return _LABELS.get(state) or state.replace("_", " ").capitalize()


def ended(result: NoRepair) -> str:
    """How an attempt without a repair ended, in a few words."""
    if result.culprit is not None:
        return "Cause found"
    if result.suspects:
        return "Repair found, not published" if result.outcome is Outcome.REFUSED else "Unsure"
    return label(result.outcome)


def said(result: NoRepair) -> str:
    """What an attempt without a repair found, in one sentence."""
    if result.culprit is not None:
        return DISAGREE if result.outcome is Outcome.NEEDS_TEST_CHANGE else FOUND
    if result.suspects:
        return NOT_PUBLISHED if result.outcome is Outcome.REFUSED else UNSURE
    return OUTCOME_TEXTS[result.outcome].sentence
