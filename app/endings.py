"""What each outcome says to people: its sentence, what they can do next, and how our check run ends. A pure table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from agent.contract.outcome import Outcome

if TYPE_CHECKING:  # `selfheal fix` reads this table and starts without GitHub's client
    from app.github.types import Conclusion


@dataclass(frozen=True, slots=True)
class Ending:
    """What an outcome says to people, and how our check run ends.

    Never `failure`: that Selfheal could not help does not make the commit worse, and a check run of ours must not be what
    keeps somebody from merging. `action_required` where only a person can go on.
    """

    sentence: str
    next_step: str
    conclusion: Conclusion


ENDINGS: Mapping[Outcome, Ending] = MappingProxyType(
    {
        Outcome.HEALED: Ending(
            "A verified repair was found.", "Review the pull request; nothing is merged without you.", "success"
        ),
        Outcome.NOT_REPRODUCED: Ending(
            "The failure did not occur in the sandbox.",
            "Compare the environment below with the one of your CI, or run the job again.",
            "neutral",
        ),
        Outcome.FLAKY: Ending(
            "The same commit sometimes passes and sometimes fails.",
            "Look for time, order, randomness or shared state in the tests named below; no code was changed.",
            "neutral",
        ),
        Outcome.INFRASTRUCTURE: Ending(
            "The run failed for a reason outside the code, or the sandbox did.",
            "Run the job again; if it stays, the reason below says where to look.",
            "neutral",
        ),
        Outcome.NEEDS_SERVICES: Ending(
            "The tests need a service that the sandbox does not have.",
            "Let the tests start what they need, or name in `.github/selfheal.yml` the tests that run without it.",
            "action_required",
        ),
        Outcome.NEEDS_SECRET: Ending(
            "The failing step needs a secret, and none ever enters the sandbox.",
            "Check that secret in your CI's settings, or name in `.github/selfheal.yml` the tests that run without it.",
            "action_required",
        ),
        Outcome.NEEDS_TEST_CHANGE: Ending(
            "What fails is a test or a file that a repair must not edit.",
            "Decide whether the test or the code is right; `allow_test_edits` in `.github/selfheal.yml` permits such repairs.",
            "action_required",
        ),
        Outcome.SUPERSEDED: Ending(
            "The branch moved on before the work was done.", "Nothing to do: a newer commit counts now.", "neutral"
        ),
        Outcome.NOTHING_FAILED: Ending(
            "There is nothing to heal: no failing check was found at this commit.",
            "If something is red, name its command in `.github/selfheal.yml`.",
            "neutral",
        ),
        Outcome.OUT_OF_BUDGET: Ending(
            "The budget of this attempt was used up before a repair was verified.",
            "Raise the budget, or start from the diagnosis and the lessons below.",
            "neutral",
        ),
        Outcome.GAVE_UP: Ending(
            "No change was found that makes the failing checks pass and keeps the others green.",
            "Start from the diagnosis and the attempts below; a stronger model may find more.",
            "neutral",
        ),
        Outcome.REFUSED: Ending(
            "The policy does not allow this attempt.", "The reason below names the rule and who can change it.", "neutral"
        ),
        Outcome.CANCELLED: Ending(
            "The attempt was cancelled.", "Comment `/heal` on the pull request to start another.", "cancelled"
        ),
        Outcome.ERROR: Ending(
            "Selfheal itself failed.",
            "Nothing is wrong with your code because of this; the operator finds the attempt's id in the log.",
            "neutral",
        ),
    }
)
