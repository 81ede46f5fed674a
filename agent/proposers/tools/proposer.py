"""The rung of deterministic tools: what the failing checks themselves say how to mend, done in the sandbox."""

from __future__ import annotations

from collections.abc import Iterable

from agent.edits import digest
from agent.proposers.base import Proposal, Situation
from agent.proposers.tools import locks
from agent.proposers.tools.depending import name_dependencies
from agent.proposers.tools.fixing import Fixed, fix, fixes_of
from agent.proposers.tools.importing import Imported, bring_back
from agent.proposers.tools.recording import record
from agent.proposers.tools.trials import Trials
from agent.task import Candidate


class ToolsProposer:
    """Proposes what turned red checks in its own trials; what turned only some of them comes last."""

    rung = "tools"

    def can_help(self, situation: Situation) -> str | None:
        return None if Trials(situation).targets else "no check is red"

    async def propose(self, situation: Situation) -> Proposal:
        """Raises `SandboxError` when the sandbox is lost."""
        trials = Trials(situation)
        tools = await fixes_of(trials, trials.targets)
        fixed = await fix(trials, tools) if tools else Fixed()
        imported = Imported()
        if len(fixed.checks) < len(trials.targets):
            runs = {run.check: run for run in (*situation.red, *fixed.runs)}
            red = {check.name: runs[check.name] for check in trials.targets}
            imported = await bring_back(trials, fixed.edits, red)
            if imported.edits != fixed.edits and not imported.candidates and tools:
                again = await fix(trials, tools, imported.edits)  # a linter has its own idea of where an import goes
                fixed = again if again.candidates else fixed
        named, more = await name_dependencies(trials, imported.left, imported.known, imported.edits)
        recorded, remarks = await record(trials, [check for check in trials.targets if check.name not in fixed.checks])
        whole = [*imported.candidates, *named, *recorded, *fixed.candidates]
        notes = [*fixed.notes, *imported.notes, *more, *remarks, *locks.remarks(situation.hints)]
        red = [check.name for check in trials.targets if check.name not in fixed.checks]
        if fixed.candidates and red and not imported.candidates:
            notes.append(
                f"its tools mend {', '.join(sorted(fixed.checks))}, while {', '.join(red)} stays red for other reasons"
            )
        fresh = list(_fresh(whole, situation))
        return Proposal(tuple(fresh), trials.tried, len(fresh), note="; ".join(dict.fromkeys(notes)))


def _fresh(candidates: Iterable[Candidate], situation: Situation) -> Iterable[Candidate]:
    """Each once, without those that were judged already."""
    seen = set(situation.tried)
    for candidate in candidates:
        if (name := digest(candidate.edits)) not in seen:
            seen.add(name)
            yield candidate
