"""Screens the candidates of a round by the rules of `agent/guard`, before anything runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from langgraph.types import Overwrite

from agent.checks.oracle import Verification
from agent.checks.sampling import red_check, test_files
from agent.contract.events import Guarded
from agent.contract.last_good import Culprit, Regression
from agent.contract.proposal import Candidate, is_model
from agent.contract.verdicts import Oracle
from agent.edits.changes import EditProblem, digest, read_text
from agent.edits.hunks import merge
from agent.edits.reversals import touches
from agent.guard import reversals, rules
from agent.nodes.unsure import found_by_search
from agent.report import endings
from agent.state import Candidates, State, StrategyResult, Work, pack, red_of, unpack

MOST_FILES = 3  # with failing tests, whose texts are read


async def guard(state: State, work: Work) -> Candidates:
    """Send allowed candidates to `verify` and refused ones to `reflect`. Equal ones are judged once, as a model's if one is.

    Patches of a model are judged first, and before others those of the lines that changed since the last good commit.
    """
    context = work.context
    tried = set(state.get("tried", []))
    unsure_by_search = {digest(each.edits) for each in await found_by_search(state, work)}
    support = dict(state.get("support", {}))
    changed = await context.recall(Regression, state["regression_ref"]) if state.get("regression_ref") else None
    judged: list[tuple[tuple[bool, bool], str]] = []
    failed, refused, taken = [], [], []
    proposed = [(ref, await context.recall(Candidate, ref)) for ref in state.get("proposed", [])]
    for ref, candidate in sorted(proposed, key=lambda each: not is_model(each[1].rung)):
        if (whole := await _on_the_groundwork(candidate, state, work)) is not None:
            tried.add(digest(candidate.edits))
            taken.append(digest(candidate.edits))
            candidate, ref = whole, await context.keep(whole)
        name = digest(candidate.edits)
        support[name] = support.get(name, 0) + 1
        if name in tried and not (is_model(candidate.rung) and name in unsure_by_search):
            continue
        unsure_by_search.discard(name)
        tried.add(name)
        refusal = await refusal_of(candidate, state, work)
        if refusal is None:
            is_near = changed is None or await asyncio.to_thread(touches, candidate.edits, changed.reversal)
            order = (not is_model(candidate.rung), not is_near)
            judged.append((order, ref))
            continue
        text = f"Refused by policy because {refusal.sentence}: {candidate.title}"
        await context.emit(Guarded(text=text, title=candidate.title, rule=refusal.rule))
        refused.append(refusal.rule)
        verdict = Verification(False, f"refused: {refusal.sentence}", judge="guard", instead=refusal.instead)
        failed.append([ref, pack(verdict)])
    plausible = sum(unpack(StrategyResult, packed).plausible for packed in state.get("rounds", []))
    found_by_trying = [ref for (is_found, _), ref in judged if is_found]
    return {
        "proposed": Overwrite([]),  # type: ignore[typeddict-item]
        "support": support,
        # A model's change need not wait for the runs of others, which may hang.
        "alone": found_by_trying if len(found_by_trying) < len(judged) else [],
        "allowed": [ref for _, ref in sorted(judged, key=lambda each: each[0])],
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
    if (undoing := await _undoing(candidate, state, work)) is not None:
        return undoing
    oracle = await work.context.recall(Oracle, state["oracle_ref"])
    failing, own = await _failing(state, work), await _own_part(candidate, state, work)
    for judged in (own,) if own == candidate else (own, replace(candidate, rung="tools")):
        refused = await asyncio.to_thread(rules.refusal, judged, work.task.policy, oracle, failing)
        if refused is not None:
            return refused
    return None


async def questions_of(candidate: Candidate, state: State, work: Work) -> tuple[str, ...]:
    """What people have to look at in a candidate that no rule refuses, a clause each."""
    oracle = await work.context.recall(Oracle, state["oracle_ref"])
    files = await failing_test_files(oracle, work)
    tests = "\n".join(text for text in files.values() if isinstance(text, str))
    own = await _own_part(candidate, state, work)
    found = await asyncio.to_thread(rules.questions, own, oracle, await _failing(state, work), tests)
    return tuple(sentence for _, sentence in found)


async def failing_test_files(oracle: Oracle, work: Work) -> dict[str, str | EditProblem | None]:
    """The texts of a few files with failing tests, by their paths; none if no check runs tests."""
    if (check := red_check(oracle)) is None:
        return {}
    named = test_files(sorted(oracle.must_turn[check.name]), check.reader)[:MOST_FILES]
    return {path: await read_text(work.task.sandbox.base, path) for path in named}


async def _failing(state: State, work: Work) -> str:
    return "\n".join(f"{failure.message}\n{failure.details}" for failure in await red_of(state, work.context))


async def _own_part(candidate: Candidate, state: State, work: Work) -> Candidate:
    """Without the fix by `tools`."""
    ref = state.get("groundwork")
    ground = (await work.context.recall(Candidate, ref)).edits if ref else ()
    return replace(candidate, edits=tuple(edit for edit in candidate.edits if edit not in ground))


async def _undoing(candidate: Candidate, state: State, work: Work) -> rules.Refusal | None:
    """The refusal of a candidate that undoes the change since the last good commit, unless the policy allows that."""
    if work.task.policy.allow_reversals or not (ref := state.get("regression_ref")):
        return None
    red = await red_of(state, work.context)
    if candidate.rung == "tools" and red and all(map(endings.is_slip, red)):
        return None  # what a tool restores, such as an import, was not taken away on purpose
    regression = await work.context.recall(Regression, ref)
    known = state.get("culprit_ref")
    culprit = await work.context.recall(Culprit, known) if known else None
    why = await asyncio.to_thread(reversals.undoing, candidate, regression, culprit)
    return rules.Refusal(reversals.REVERSAL, why) if why else None
