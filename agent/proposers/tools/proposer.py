"""The rung of deterministic tools: runs the fixes that the failing checks themselves point to, in the sandbox."""

from __future__ import annotations

from collections.abc import Sequence

from agent.contract.proposal import Candidate
from agent.edits.changes import digest
from agent.proposer import Proposal, Situation
from agent.proposers.tools.dependencies import lock_notes, name_dependencies
from agent.proposers.tools.fixers import has_fixer
from agent.proposers.tools.fixes import Fixed, fix, fixes_of, mentions_snapshots, record
from agent.proposers.tools.missing import read_missing
from agent.proposers.tools.restoring import restore_missing
from agent.proposers.trials import Trials


class ToolsProposer:
    """Proposes changes by tools. Those that made all failing checks pass in its own trials come first."""

    rung = "tools"

    def can_help(self, situation: Situation) -> str | None:
        trials = Trials(situation)
        if not trials.targets:
            return "no check fails"
        failures = [failure for check in trials.targets for failure in trials.base_run(check).failures]
        has_tool = any(has_fixer(check.command) for check in trials.targets)
        if has_tool or read_missing(failures) or any(map(mentions_snapshots, failures)) or lock_notes(situation.hints):
            return None
        return "none applies"

    async def propose(self, situation: Situation) -> Proposal:
        """Raises `SandboxError` if the sandbox is lost."""
        trials = Trials(situation)
        tools = await fixes_of(trials, trials.targets)
        fixed = await fix(trials, tools) if tools else Fixed()
        notes = [*fixed.notes, *lock_notes(situation.hints)]
        others = [check for check in trials.targets if check.name not in fixed.checks]
        if not others:
            return _proposal(trials, fixed.candidates, (), notes)
        runs = {run.check: run for run in (*situation.red, *fixed.runs)}
        imported = await restore_missing(trials, fixed.edits, {check.name: runs[check.name] for check in trials.targets})
        if tools and imported.edits != fixed.edits and not imported.candidates:
            # A linter may want the import in another place.
            again = await fix(trials, tools, imported.edits)
            fixed = again if again.candidates else fixed
        named, of_names = await name_dependencies(trials, imported.left, imported.known, imported.edits)
        recorded, of_records = await record(trials, others)
        notes += [*imported.notes, *of_names, *of_records]
        others = [check for check in others if check.name not in fixed.checks]
        if fixed.candidates and others and not imported.candidates:
            red = ", ".join(check.name for check in others)
            notes.append(f"the tools fix {', '.join(sorted(fixed.checks))}, but {red} fails for other reasons")
        return _proposal(trials, [*imported.candidates, *recorded], [*named, *fixed.candidates], notes)


def _proposal(trials: Trials, proven: Sequence[Candidate], unproven: Sequence[Candidate], notes: Sequence[str]) -> Proposal:
    """Each change once, without those already judged."""
    fresh: dict[str, Candidate] = {}
    for candidate in (*proven, *unproven):
        if (name := digest(candidate.edits)) not in trials.situation.tried:
            fresh.setdefault(name, candidate)
    plausible = sum(candidate in proven for candidate in fresh.values())
    return Proposal(tuple(fresh.values()), trials.tried, plausible, note="; ".join(dict.fromkeys(notes)))
