"""Selects the best candidate that passed.

If it is known what changed since the last good commit, patches of these lines come first. Then a model's changes come before
those that were found by trying, which are smaller, and right less often. Of equal ones the smallest wins, and without a model
every hunk that it does not need is dropped. Ties go to the patch without new lint, then to the one that most strategies
proposed, then to its proposer's prior.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

from langgraph.types import Overwrite

from agent.checks.findings import read_findings
from agent.checks.oracle import Verification
from agent.contract import words
from agent.contract.events import Selected
from agent.contract.last_good import Regression
from agent.contract.proposal import Candidate, Edits, is_model
from agent.contract.verdicts import Oracle
from agent.edits.changes import apply, changed_lines, diff, digest
from agent.edits.hunks import depends_on_others, hunks, without_hunk
from agent.edits.reversals import touches
from agent.gate import gate
from agent.nodes.guard import refusal_of
from agent.proposers.given import Given
from agent.state import Contest, State, Work, base_runs, pack, unpack
from sandbox.base import Command, DeadlinePassed, LimitExceeded, Sandbox, Workspace

MOST_DROPS = 8  # most hunks of one candidate that are tried without
LONGEST = 20.0  # seconds for one run of a linter
_LINTERS = (("ruff", "check", "--output-format=concise", "--no-cache"), ("flake8",), ("pyflakes",))


async def select(state: State, work: Work) -> Contest:
    """Put the winner into `winner`, or None. Raises `SandboxError` when the sandbox is lost."""
    context = work.context
    judged = state.get("judged", [])
    green = [*state.get("passed", []), *(verdict for verdict in judged if unpack(Verification, verdict[1]).passed)]
    update: Contest = {
        "judged": Overwrite([]),  # type: ignore[typeddict-item]
        "allowed": [ref for ref in state.get("allowed", []) if ref not in {verdict[0] for verdict in judged}],
        "failed": [verdict for verdict in judged if not unpack(Verification, verdict[1]).passed],
        "passed": [],
        "winner": None,
    }
    if not green:
        return update
    contest = []
    changed = await context.recall(Regression, ref) if (ref := state.get("regression_ref")) else None
    for ref, packed in green:
        candidate = await context.recall(Candidate, ref)
        size = await asyncio.to_thread(changed_lines, candidate.edits)
        lint = await _new_findings(work.task.sandbox, candidate.edits) if len(green) > 1 else 0
        support = state.get("support", {}).get(digest(candidate.edits), 1)
        apart = changed is not None and not await asyncio.to_thread(touches, candidate.edits, changed.reversal)
        blind = not is_model(candidate.rung)
        contest.append(((apart, blind, size, lint, -support, -candidate.prior), candidate, unpack(Verification, packed), ref))
    (_, _, size, *_), proposed, verification, ref = min(contest, key=lambda entry: entry[0])
    winner, verification = await _smallest(state, work, proposed, verification)
    smallest = f"the smallest change{' of the model' if is_model(proposed.rung) else ''}, {words.counted(size, 'line')}"
    update["tried"] = [digest(proposed.edits)]
    update["winner"] = [await context.keep(winner), pack(verification)]
    update["passed"] = [verdict for verdict in green if verdict[0] != ref]
    await context.emit(
        Selected(
            text=f"Selected from {len(green)} candidates: {winner.title}" if len(green) > 1 else "",
            title=winner.title,
            among=len(green),
            why=smallest if len(green) > 1 else "the only one",
            diff=(await asyncio.to_thread(diff, winner.edits))[:20_000],
        )
    )
    return update


async def _smallest(
    state: State, work: Work, candidate: Candidate, verification: Verification
) -> tuple[Candidate, Verification]:
    """The candidate without the hunks that it does not need. Leaves enough time for the proof.

    A model's change stays whole: a part of it may be right although no test asks for it. So does one that is only verified.
    """
    if is_model(candidate.rung) or any(isinstance(proposer, Given) for proposer in work.ladder):
        return candidate, verification
    oracle = await work.context.recall(Oracle, state["oracle_ref"])
    base = await base_runs(state, work.context)
    spare = replace(work, ledger=replace(work.ledger, seconds=work.ledger.seconds + gate.proof_seconds(base)))
    at = 0
    for _ in range(min(MOST_DROPS, count) if (count := await asyncio.to_thread(hunks, candidate.edits)) > 1 else 0):
        if spare.ledger.seconds_left() <= 0:
            break
        if await asyncio.to_thread(depends_on_others, candidate.edits, at):
            at += 1
            continue
        smaller = replace(candidate, edits=await asyncio.to_thread(without_hunk, candidate.edits, at))
        if await refusal_of(smaller, state, work) is None:
            judged = await gate.is_green(spare, oracle, base, smaller.edits)
            if judged.passed:
                candidate, verification = smaller, judged
                continue
        at += 1
    return candidate, verification


async def _new_findings(sandbox: Sandbox, edits: Edits) -> int:
    """New findings of the repository's linter in the Python files that the change touches; 0 if the repository has no linter.

    Raises `SandboxError` when the sandbox is lost.
    """
    paths = [edit.path for edit in edits if edit.path.endswith(".py") and edit.after is not None]
    if not paths:
        return 0
    try:
        async with sandbox.candidate() as workspace:
            before = await _findings(workspace, [edit.path for edit in edits if edit.path in paths and edit.before is not None])
            if before is None or await apply(workspace, edits) is not None:
                return 0
            after = await _findings(workspace, paths)
    except (DeadlinePassed, LimitExceeded):
        return 0
    return sum(((after or Counter()) - before).values())


async def _findings(workspace: Workspace, paths: list[str]) -> Counter[str] | None:
    """Findings of the first installed linter, by file and rule; None if there is none."""
    for linter in _LINTERS:
        argv = (workspace.python, "-m", *linter, *paths)
        done = await workspace.run(Command(argv, timeout=LONGEST))
        if b"No module named" not in done.stderr:
            found = read_findings(done.stdout.decode(errors="replace"), workspace.root, ".")
            return Counter(f"{finding.id.partition(': ')[0]} {finding.message.split(' ')[0]}" for finding in found)
    return None
