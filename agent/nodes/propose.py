"""Asks the current rung: a model first for its diagnosis, then every rung for patches, with all its strategies in parallel.

A search that finds nothing within its head start goes on while the next rung, a model, is asked.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

from agent.contract import words
from agent.contract.budget import RungCost, Usage
from agent.contract.events import AnyEvent, Degraded, ModelCalled, Proposed
from agent.contract.last_good import Culprit, Regression
from agent.contract.memory import Recollection
from agent.contract.outcome import Iteration
from agent.contract.proposal import Diagnosis, Span, is_model, model_name
from agent.contract.verdicts import CheckRun, Oracle
from agent.debugger.debugger import Debugger
from agent.diagnosis import evidence
from agent.edits.changes import diff, digest
from agent.gate.gate import proof_seconds
from agent.models.values import ModelError
from agent.nodes.unsure import found_by_search, unsure_of
from agent.proposer import Proposal, Situation, Strategist
from agent.report import culprits
from agent.report.recording import report_cost
from agent.state import Direction, Proposals, State, StrategyResult, Work, fell_back, pack, red_of, unpack
from sandbox.base import DeadlinePassed, LimitExceeded, SandboxError

SEARCH = "patterns"  # the rung that can go on in the background
COLLECT = "collect"  # the strategy that takes the result of the search that went on
CROWDED, SPACIOUS = 2, 8  # factor on the head start beside a model on this machine, unless it has that many cores
EARLIER = 2  # failed patches that a rung sees: the last ones, and the one that fixed most
GRACE = 20.0  # seconds beyond its time limit, after which a rung is stopped


async def propose(state: State, work: Work) -> Proposals:
    """A model's error is recorded as a note and counts as a fruitless round. Raises `SandboxError` when the sandbox is lost."""
    context = work.context
    collects = state["strategy"] == COLLECT
    at = state["searching"] - 1 if collects else state["rung"]
    proposer = work.ladder[at]
    situation = await situation_of({**state, "rung": at}, work)
    situation = replace(situation, strategy="" if collects else state["strategy"])
    began = context.monotonic()
    since = began if work.background.since is None else work.background.since
    found = await _collected(work, at, situation) if collects else await _asked(work, at, situation)
    if found is None:
        work.background.since = context.monotonic()
        so_far = RungCost(proposer.rung, work.background.since - began, 0, 0, Usage(), "it goes on while a model is asked")
        await report_cost(work, so_far)
        rounds = [pack(StrategyResult(0, 0, True))]
        return {"searching": at + 1, "proposed": [], "rounds": rounds, "rungs": [pack(so_far)]}
    if is_model(proposer.rung) and await _stands_by(state, work, found, situation):
        found = replace(found, exhausted=True)
    update = await _proposed(work, proposer.rung, found, context.monotonic() - (since if collects else began), situation)
    if collects:
        return {**update, "searching": 0}
    if state.get("searching") and (ended := await _found_meanwhile(work)) is not None:
        # It is judged beside the model's change: their rank decides.
        searched = work.ladder[state["searching"] - 1].rung
        beside = await _proposed(work, searched, ended, context.monotonic() - since, situation)
        joined = {name: [*beside[name], *update[name]] for name in ("proposed", "rungs", "usage")}
        answer = unpack(StrategyResult, update["rounds"][0])
        rounds = [pack(replace(answer, plausible=answer.plausible + ended.plausible))]
        return {**update, **joined, "rounds": rounds, "searching": 0}  # type: ignore[typeddict-item]
    return update


async def _stands_by(state: State, work: Work, answer: Proposal, situation: Situation) -> bool:
    """Whether a model gives again what passes the tests, or as many as any change: it was told what is left, or why that is not
    enough, so nothing more is to be had by asking."""
    known = {digest(each.edits) for each in await unsure_of(state, work)}
    if partial := state.get("partial"):
        tried = await work.context.recall(Iteration, partial[1])
        known |= set(partial[2:]) if tried.rung == work.ladder[state["rung"]].rung else set()
    return bool(answer.candidates) and all(digest(each.edits) in known & situation.tried for each in answer.candidates)


async def _found_meanwhile(work: Work) -> Proposal | None:
    """What the search has found while a model answered; None if it goes on, or lost its sandbox: then it is made again."""
    try:
        return await work.background.result(0)
    except SandboxError:  # the model's answer is paid for: it is kept, and the next step finds out what became of the sandbox
        return None


async def _proposed(work: Work, rung: str, proposal: Proposal, seconds: float, situation: Situation) -> Proposals:
    """The update by one answer, which is told."""
    context = work.context
    cost = RungCost(
        rung, seconds, proposal.tried, proposal.plausible, proposal.usage, proposal.note, is_outage=proposal.is_outage
    )
    await report_cost(work, cost)
    fresh = [candidate for candidate in proposal.candidates if digest(candidate.edits) not in situation.tried]
    for candidate in fresh:
        text = f"Proposed: {candidate.title}"
        shown = (await asyncio.to_thread(diff, candidate.edits))[:20_000]
        await context.emit(
            Proposed(text=text, rung=candidate.rung, title=candidate.title, diff=shown, iteration=situation.iteration)
        )
    update: Proposals = {}
    if proposal.culprit is not None:
        await context.emit(await asyncio.to_thread(culprits.event, proposal.culprit))
        update["culprit_ref"] = await context.keep(proposal.culprit)
    lesson = proposal.lesson
    if proposal.candidates and not fresh:
        lesson = f"This repeats an earlier change; propose something else: {proposal.candidates[0].title[:160]}"
    return {
        **update,
        "proposed": [await context.keep(candidate) for candidate in fresh],
        "rounds": [pack(StrategyResult(len(fresh), proposal.plausible, proposal.exhausted, lesson))],
        "rungs": [pack(cost)],
        "usage": [pack(proposal.usage)],
    }


async def _asked(work: Work, at: int, situation: Situation) -> Proposal | None:
    """The rung's answer; None if it is a search that goes on in the background, as a model can be asked meanwhile."""
    if not _leaves_room(work, at):
        return await _ask(work, at, situation)
    work.background.start(_ask(work, at, situation))
    return await work.background.result(work.task.policy.head_start * (1 if _is_spacious(work, at) else CROWDED))


async def _collected(work: Work, at: int, situation: Situation) -> Proposal:
    """The result of the search that went on. If it was lost, it is made again."""
    found = await work.background.result()
    return found if found is not None else await _ask(work, at, situation)


def _leaves_room(work: Work, at: int) -> bool:
    """Is this rung a search, and a model next, which may be asked without a person's approval?"""
    rung, following = work.ladder[at].rung, work.ladder[at + 1 :][:1]
    is_next = any(is_model(each.rung) for each in following) and work.ledger.model_spent_up() is None
    return is_next and rung == SEARCH and work.task.policy.autonomy in ("full", "review_publish")


def _is_spacious(work: Work, at: int) -> bool:
    """A model on this machine needs the cores that the search uses."""
    models = work.context.models
    name = model_name(work.ladder[at + 1].rung)
    is_here = models is not None and models.settings("repair", name).is_on_this_machine
    return not is_here or (os.cpu_count() or 1) >= SPACIOUS


async def situation_of(state: State, work: Work, *, with_change: bool = True) -> Situation:
    """What a rung gets to know now. Its seconds leave time for the gate and for later rungs.

    What changed since the last good commit can be many megabytes, so steps that do not read it leave it out.
    """
    context = work.context
    base = await context.recall(tuple[CheckRun, ...], state["base_ref"])
    rungs_left = max(1, len(work.ladder) - state["rung"])
    known, memories = state.get("diagnosis"), state.get("memories_ref")
    earlier = state.get("iterations", [])[-EARLIER:]
    is_for_model = any(is_model(each.rung) for each in work.ladder[state["rung"] :][:1])
    unshown = await found_by_search(state, work) if is_for_model else []
    titles = tuple(each.title[:160] for each in unshown)
    if (best := state.get("partial")) and best[1] not in earlier:
        earlier = [best[1], *earlier[1:]]
    tries = [await context.recall(Iteration, ref) for ref in earlier]
    regression, culprit = (state.get("regression_ref"), state.get("culprit_ref")) if with_change else (None, None)
    return Situation(
        sandbox=work.task.sandbox,
        runner=work.runner,
        oracle=await context.recall(Oracle, state["oracle_ref"]),
        red=base,
        suspects=await context.recall(tuple[Span, ...], state["suspects_ref"]),
        policy=work.task.policy,
        emit=context.emit,
        seconds=max(1.0, (work.ledger.seconds_left() - proof_seconds({run.check: run for run in base})) / rungs_left),
        diagnosis=unpack(Diagnosis, known) if known else None,
        lessons=tuple(each for each in state.get("lessons", []) if not each.startswith(titles)),
        earlier=tuple([each for each in tries if not each.title.startswith(titles)]),
        hints=(*work.task.hints, *state.get("guidance", [])),
        memories=await context.recall(tuple[Recollection, ...], memories) if memories else (),
        tried=frozenset(state.get("tried", [])) - {digest(each.edits) for each in unshown},
        iteration=max(1, state.get("iteration", 0)),
        round=max(1, state.get("round", 0)),
        refuted=tuple(state.get("refuted", [])),
        stuck=state.get("stuck", 0),
        calls=work.ledger.calls_left(),
        regression=await context.recall(Regression, regression) if regression else None,
        culprit=await context.recall(Culprit, culprit) if culprit else None,
    )


async def _ask(work: Work, rung: int, situation: Situation) -> Proposal:
    """A rung's answer. Its errors and its time limit become values, with its usage so far."""
    proposer = work.ladder[rung]
    if is_model(proposer.rung) and (bound := work.ledger.model_spent_up()) is not None:
        return Proposal(note=bound)  # the diagnosis used up the budget
    spent = Usage()

    async def emit(event: AnyEvent) -> None:
        nonlocal spent
        if isinstance(event, ModelCalled):
            spent += Usage(event.tokens_in, event.tokens_out, 1, event.cost)
        await situation.emit(event)

    try:
        async with asyncio.timeout(situation.seconds + GRACE):
            return await proposer.propose(replace(situation, emit=emit))
    except ModelError as error:
        why, is_over = str(error), not error.worth_another_try
        proposal = Proposal(usage=error.usage, note=why, exhausted=is_over, is_outage=error.is_outage)
    except TimeoutError:
        why = f"no answer within {situation.seconds + GRACE:.0f} s"
        if is_model(proposer.rung):
            spent += Usage(calls=1, cost=None)  # the call that was still running
        proposal = Proposal(usage=spent, note=why)
    except (LimitExceeded, DeadlinePassed) as error:
        why, proposal = str(error), Proposal(usage=spent, note=str(error))
    await work.context.emit(
        Degraded(text=f"{words.capitalized(words.rung(proposer.rung))} proposed nothing: {why}", step="propose", why=why)
    )
    return proposal


async def diagnose(state: State, work: Work) -> Direction:
    """Sets the diagnosis, and the strategies that it leads to.

    A model's error weakens the diagnosis and never fails the attempt. Raises `SandboxError` when the sandbox is lost.
    """
    context, proposer = work.context, work.ladder[state["rung"]]
    red = await red_of(state, context)
    found, usage, update = evidence.from_verdicts(red), Usage(), Direction()
    situation = await situation_of(state, work)
    if context.models is not None and work.task.policy.debugger:
        history = [await context.recall(Iteration, ref) for ref in state.get("iterations", [])]
        debugger = Debugger(context.models, model_name(proposer.rung), situation, history)
        try:
            found, usage = await debugger.conclude()
        except ModelError as error:
            usage = error.usage
            update = await fell_back(work, "diagnose", f"The model gave no diagnosis: {error}")
    by = "inferred from the failures" if found.by == evidence.BY_VERDICTS else f"according to {words.rung(found.by)}"
    await context.emit(evidence.event(found, f"Likely cause, {by}: {found.cause}"))
    update["diagnosis"], update["usage"] = pack(found), [pack(usage)]
    if isinstance(proposer, Strategist):
        update["strategies"] = list(proposer.strategies(replace(situation, diagnosis=found)))
    return update
