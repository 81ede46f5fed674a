"""What a person is asked before a repair goes on, when, and what the answer says. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.contract.usage import Usage

Autonomy = Literal["full", "review_publish", "review_repairs", "review_all"]
"""When a person is asked: never; before anything is published; before each further round too; before the first proposal too."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked before the repair goes on."""

    about: Literal["round", "publish"]
    text: str  # one sentence
    diff: str = ""  # of what would be published


@dataclass(frozen=True, slots=True)
class Reply:
    """A person's word on the question."""

    approved: bool
    why: str = ""  # in their own words; with a rejection it becomes feedback for the next round
    to: str = ""  # the `Waiting.asking` that it answers; "" answers whatever is asked

    @property
    def told(self) -> str:
        """A line of the timeline."""
        return f"A person {'approved' if self.approved else 'rejected'} it{f': {self.why}' if self.why else ''}"

    def answers(self, waiting: Waiting) -> bool:
        """Was it given to this asking? One that a killed worker has used already must not answer the next question."""
        return self.to in ("", waiting.asking)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Neither healed nor ended: the repair sleeps in its checkpoints until a person replies."""

    question: Question
    usage: Usage
    asking: str = ""  # names this one time of asking; the same while it waits
