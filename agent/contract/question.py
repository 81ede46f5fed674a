"""The question that a reviewer is asked, when it is asked, and the reply. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.contract.budget import Usage

Autonomy = Literal["full", "review_publish", "review_repairs", "review_all"]
"""When a reviewer is asked: never; before publishing; also before each later round; also before the first round."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a reviewer is asked."""

    about: Literal["round", "publish"]
    text: str  # one sentence
    diff: str = ""  # what would be published


@dataclass(frozen=True, slots=True)
class Reply:
    """A reviewer's answer."""

    approved: bool
    why: str = ""  # in their own words; feedback for the next round if rejected
    to: str = ""  # the `Waiting.asking` it answers; "" answers any question

    @property
    def summary(self) -> str:
        """The reply as one line of the timeline."""
        return f"{'Approved' if self.approved else 'Rejected'} by a person{f': {self.why}' if self.why else ''}"

    def answers(self, waiting: Waiting) -> bool:
        """Whether the reply is for this question: one that a killed worker already used must not answer the next."""
        return self.to in ("", waiting.asking)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Neither repaired nor ended: the repair waits in its checkpoints until someone replies."""

    question: Question
    usage: Usage
    asking: str = ""  # identifies this question; unchanged while it waits
