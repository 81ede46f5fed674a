"""The rung of deterministic tools: what the failing checks themselves say how to mend, done in the sandbox."""

from __future__ import annotations

from agent.edits import digest
from agent.proposers.base import Proposal, Situation
from agent.proposers.tools.fixing import fix, fixes_of
from agent.proposers.tools.trials import Trials


class ToolsProposer:
    """Proposes what turned the red checks in its own trial; what mends one of several checks is said in the note."""

    rung = "tools"

    def can_help(self, situation: Situation) -> str | None:
        return None if Trials(situation).targets else "no check is red"

    async def propose(self, situation: Situation) -> Proposal:
        """Raises `SandboxError` when the sandbox is lost."""
        trials = Trials(situation)
        notes: list[str] = []
        found = await fixes_of(trials, trials.targets)
        fixed = await fix(trials, found)
        candidates = [c for c in fixed.candidates if digest(c.edits) not in situation.tried]
        notes += fixed.notes
        return Proposal(tuple(candidates), trials.tried, len(candidates), note="; ".join(notes))
