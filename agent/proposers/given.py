"""A rung that proposes one known change, so that it goes through the same steps on another commit."""

from __future__ import annotations

from dataclasses import dataclass

from agent.contract.proposal import Candidate
from agent.proposer import Proposal, Situation


@dataclass(frozen=True, slots=True)
class Given:
    candidate: Candidate

    @property
    def rung(self) -> str:
        return self.candidate.rung

    def can_help(self, situation: Situation) -> str | None:
        return None

    async def propose(self, situation: Situation) -> Proposal:
        return Proposal((self.candidate,), 1, 1, exhausted=True)
