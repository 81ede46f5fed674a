"""The contest of a round: the rules screen new candidates, each is verified, and the best is selected and proven.

The rules of `agent/guard` apply before anything runs. Of the candidates that pass, the smallest wins, and every hunk that it
does not need is dropped. Ties go to the patch without new lint, then to the one that most strategies proposed, then to its
proposer's prior.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

from langgraph.types import Overwrite

from agent.checks.findings import read_findings
from agent.checks.oracle import Verification
from agent.contract.events import Guarded, Proven, Selected, Verified
from agent.contract.proposal import Candidate, Edits
from agent.contract.verdicts import Oracle
from agent.contract.words import named
from agent.edits.changes import apply, changed_lines, diff, digest
from agent.edits.hunks import depends_on_others, hunks, merge, without_hunk
from agent.gate import gate
from agent.guard import rules
from agent.state import Candidates, Contest, State, StrategyResult, Work, base_runs, pack, red_of, unpack
from sandbox.base import Command, DeadlinePassed, LimitExceeded, Sandbox, Workspace

MOST_DROPS = 8  # most hunks of one candidate that are tried without
SHOWN = 50  # ids in one event of the timeline
LONGEST = 20.0  # seconds for one run of a linter
_LINTERS = (("ruff", "check", "--output-format=concise", "--no-cache"), ("flake8",), ("pyflakes",))


async def guard(state: State, work: Work) -> Candidates:
    """Send allowed candidates to `verify` and refused ones to `reflect`. Equal proposals are judged once."""
    context = work.context
    tried = set(state.get("tried", []))
    support = dict(state.get("support", {}))
    allowed, failed, refused, taken = [], [], [], []
    for ref in state.get("proposed", []):
        candidate = await context.recall(Candidate, ref)
        if (whole := await _on_the_groundwork(candidate, state, work)) is not None:
            tried.add(digest(candidate.edits))
            taken.append(digest(candidate.edits))
            candidate, ref = whole, await context.keep(whole)
        name = digest(candidate.edits)
        support[name] = support.get(name, 0) + 1
        if name in tried:
            continue
        tried.add(name)
        refusal = await refusal_of(candidate, state, work)
        if refusal is None:
            allowed.append(ref)
            continue
        text = f"Refused by policy because {refusal.sentence}: {candidate.title}"
        await context.emit(Guarded(text=text, title=candidate.title, rule=refusal.rule))
        refused.append(refusal.rule)
        failed.append([ref, pack(Verification(False, f"refused: {refusal.sentence}", judge="guard"))])
    plausible = sum(unpack(StrategyResult, packed).plausible for packed in state.get("rounds", []))
    return {
        "proposed": Overwrite([]),  # type: ignore[typeddict-item]
        "support": support,
        "allowed": allowed,
        "failed": failed,
        "refused": refused,
        "tried": taken,
        "alternatives": max(0, plausible - 1),
    }


async def _on_the_groundwork(candidate: Candidate, state: State, work: Work) -> Candidate | None:
    """The candidate merged with the fix by `tools`, so that both checks pass; None if there is none or they conflict."""
    if not (ref := state.get("groundwork")) or candidate.rung == "tools":
        return None
    ground = await work.context.recall(Candidate, ref)
    edits = await asyncio.to_thread(merge, ground.edits, candidate.edits)
    return None if edits is None else replace(candidate, edits=edits, title=f"{candidate.title}; {ground.title}")


async def refusal_of(candidate: Candidate, state: State, work: Work) -> rules.Refusal | None:
    """The first rule that a candidate breaks, or None. The part from `tools` is judged as a candidate of that rung."""
    oracle = await work.context.recall(Oracle, state["oracle_ref"])
    failing = "\n".join(f"{failure.message}\n{failure.details}" for failure in await red_of(state, work.context))
    ref = state.get("groundwork")
    ground = (await work.context.recall(Candidate, ref)).edits if ref else ()
    own = replace(candidate, edits=tuple(edit for edit in candidate.edits if edit not in ground))
    for judged in (own,) if own == candidate else (own, replace(candidate, rung="tools")):
        refused = await asyncio.to_thread(rules.refusal, judged, work.task.policy, oracle, failing)
        if refused is not None:
            return refused
    return None


async def verify(state: State, work: Work) -> Candidates:
    """Judges `state["judging"]`. If it ran out of memory next to others, it stays allowed, to be judged alone later.

    Raises `SandboxError` when the sandbox is lost. A limit that the candidate reached alone makes it fail.
    """
    context, ref = work.context, state["judging"]
    candidate = await context.recall(Candidate, ref)
    oracle = await context.recall(Oracle, state["oracle_ref"])
    began = context.monotonic()
    verification = await gate.is_green(work, oracle, await base_runs(state, context), candidate.edits)
    if verification.starved and state.get("beside"):
        return {"alone": [ref]}
    how = "Everything passes" if verification.passed else f"Failed because {verification.reason}"
    await context.emit(
        Verified(
            text=f"{how}: {candidate.title}",
            title=candidate.title,
            passed=verification.passed,
            still_red=[str(id_) for id_ in verification.still_red[:SHOWN]],
            newly_red=[str(id_) for id_ in verification.newly_red[:SHOWN]],
            seconds=context.monotonic() - began,
        )
    )
    update: Candidates = {"judged": [[ref, pack(verification)]]}
    if verification.flaky:
        shaky = f"Failed once with a patch but passed when run again, so ignored: {named(verification.flaky)}."
        update["notes"] = [shaky]
    return update


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
    for ref, packed in green:
        candidate = await context.recall(Candidate, ref)
        size = await asyncio.to_thread(changed_lines, candidate.edits)
        lint = await _new_findings(work.task.sandbox, candidate.edits) if len(green) > 1 else 0
        support = state.get("support", {}).get(digest(candidate.edits), 1)
        contest.append(((size, lint, -support, -candidate.prior), candidate, unpack(Verification, packed), ref))
    (size, *_), proposed, verification, ref = min(contest, key=lambda entry: entry[0])
    winner, verification = await _smallest(state, work, proposed, verification)
    update["tried"] = [digest(proposed.edits)]
    update["winner"] = [await context.keep(winner), pack(verification)]
    update["passed"] = [verdict for verdict in green if verdict[0] != ref]
    await context.emit(
        Selected(
            text=f"Selected from {len(green)} candidates: {winner.title}" if len(green) > 1 else "",
            title=winner.title,
            among=len(green),
            why=f"the smallest change, {size} lines" if len(green) > 1 else "the only one",
            diff=(await asyncio.to_thread(diff, winner.edits))[:20_000],
        )
    )
    return update


async def _smallest(
    state: State, work: Work, candidate: Candidate, verification: Verification
) -> tuple[Candidate, Verification]:
    """The candidate without the hunks that it does not need. Leaves enough time for the proof."""
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


async def prove(state: State, work: Work) -> Contest:
    """Raises `SandboxError` when the sandbox is lost."""
    context = work.context
    ref, green = state["winner"]
    candidate = await context.recall(Candidate, ref)
    oracle = await context.recall(Oracle, state["oracle_ref"])
    began = context.monotonic()
    base = await base_runs(state, context)
    verification = await gate.prove(work, oracle, base, candidate.edits, unpack(Verification, green))
    seconds = context.monotonic() - began
    how = "Verified against the original code" if verification.passed else f"Not verified because {verification.reason}"
    await context.emit(
        Proven(
            text=f"{how}: {candidate.title}",
            title=candidate.title,
            passed=verification.passed,
            why=verification.reason,
            seconds=seconds,
            evidence=[replace(check, target=check.target[:SHOWN]) for check in verification.evidence],
        )
    )
    # By the time a person approves, the attempt can be in another sandbox.
    proof: Contest = {"winner": [ref, pack(verification)], "proven_in": [work.task.environment, list(work.task.approximated)]}
    return proof if verification.passed else {"winner": None, "failed": [[ref, pack(verification)]]}


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
