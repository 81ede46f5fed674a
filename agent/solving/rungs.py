"""The rungs that repair an answer, kept to what the user stated: the signature and the number of rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from agent.contract import words
from agent.contract.events import StepStarted
from agent.contract.proposal import Candidate
from agent.edits.changes import EditProblem
from agent.models.values import ModelError
from agent.proposer import Proposal, Proposer, Situation
from agent.proposers.model import ModelProposer
from agent.solving import code
from agent.solving.draft import Draft
from agent.solving.events import FOR_CODE
from agent.solving.writer import Writer


@dataclass(frozen=True, slots=True)
class Signed:
    """A rung whose changes keep the signature: its defaults and annotations are restored before a change is judged."""

    inner: Proposer
    draft: Draft

    @property
    def rung(self) -> str:
        return self.inner.rung

    def can_help(self, situation: Situation) -> str | None:
        return self.inner.can_help(situation)

    async def propose(self, situation: Situation) -> Proposal:
        """Raises as the rung does."""
        found = await self.inner.propose(situation)
        judged = [await asyncio.to_thread(signed, each, self.draft) for each in found.candidates]
        problem = next((each.sentence for each in judged if isinstance(each, EditProblem)), "")
        kept = tuple(each for each in judged if isinstance(each, Candidate))
        return replace(found, candidates=kept, lesson=problem or found.lesson)


@dataclass(frozen=True, slots=True)
class Counted:
    """A model's rung in counted rounds: `bound` says why there is no further one.

    `asked` counts. It gets the rung, the iteration, and why the answer could not be used, or "".
    """

    inner: Writer | ModelProposer
    draft: Draft
    bound: Callable[[], str | None]
    asked: Callable[[str, int, str], None]

    @property
    def rung(self) -> str:
        return self.inner.rung

    def can_help(self, situation: Situation) -> str | None:
        return self.bound() or self.inner.can_help(situation)

    def strategies(self, situation: Situation) -> tuple[str, ...]:
        return self.inner.strategies(situation)

    async def propose(self, situation: Situation) -> Proposal:
        """Raises `ModelError`."""
        self.asked(self.rung, situation.iteration, "")
        if not (isinstance(self.inner, Writer) and self.inner.knows(situation)):
            await situation.emit(StepStarted(step="propose", text=f"Asking {words.rung(self.rung)}{FOR_CODE}"))
        why = "no answer came in time"
        try:
            found = await Signed(self.inner, self.draft).propose(situation)
            why = found.note or ("" if found.candidates else found.lesson)
        except ModelError as error:
            why = str(error)
            raise
        finally:
            self.asked(self.rung, situation.iteration, why)
        return found


def signed(candidate: Candidate, draft: Draft) -> Candidate | EditProblem:
    """The candidate with the signature as it is stated; a problem if its code has other parameters."""
    edits = []
    for change in candidate.edits:
        if change.path == draft.path and change.after is not None:
            problem = code.problem_in({draft.path: change.after}, draft.path, draft.name, draft.signature)
            if problem is not None:
                return problem
            change = replace(change, after=code.signed(change.after, draft.name, draft.signature))
        edits.append(change)
    return replace(candidate, edits=tuple(edits))
