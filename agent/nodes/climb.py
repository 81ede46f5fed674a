"""Chooses the rung: keeps it while it produces new candidates, else takes the next that can help within the budget."""

from __future__ import annotations

from langgraph.types import Overwrite

from agent.contract import words
from agent.contract.budget import RungCost, Usage
from agent.contract.proposal import is_model
from agent.guard import rules
from agent.nodes.propose import COLLECT, SEARCH, situation_of
from agent.proposer import Strategist
from agent.report.recording import report_cost
from agent.state import Direction, State, StrategyResult, Work, fell_back, pack, remember, unpack

FRUITLESS = 2  # consecutive rounds without anything new to judge, after which a rung is left
STUCK = 4  # consecutive changes that failed in the same way, after which a model is left
REJECTIONS = 2  # rejections by the review, after which a model that knows the reasons replaces a search


async def climb(state: State, work: Work) -> Direction:
    """Sets `rung`, `strategies` and `iteration` of the next round; no strategies if the ladder or the budget has ended."""
    rung, fruitless, lessons = _after_the_round(state)
    update: Direction = {"rounds": Overwrite([]), "strategies": [], "lessons": lessons}  # type: ignore[typeddict-item]
    if is_left_to_a_model(state, work):
        left = work.ladder[state["rung"]].rung
        if is_model(left):  # what a search found in the background was rejected
            left, update["rejected"] = SEARCH, 0
        else:
            rung, fruitless = state["rung"] + 1, 0
        update["allowed"] = []
        if others := len(state.get("allowed", [])):
            dropped = f"{words.counted(others, 'other change')} from {words.rung(left)}"
            update["notes"] = [f"The review rejected {REJECTIONS} changes, so {dropped} were dropped and a model is asked"]
    if wanted := state.get("asked_next"):
        names = [proposer.rung for proposer in work.ladder]
        update["asked_next"] = ""
        if wanted in names:
            rung, fruitless = names.index(wanted), 0
        else:
            update |= await fell_back(work, "climb", f"`{wanted}` was requested, but is not an enabled source of patches")
    if state.get("searching") and work.background.has_ended() and work.ledger.spent_up() is None:
        return {**update, "rung": rung, "fruitless": fruitless, "strategies": [COLLECT], "iteration": state["iteration"] + 1}
    costs = []
    while rung < len(work.ladder) and work.ledger.spent_up() is None:
        proposer = work.ladder[rung]
        if rung == state.get("rung", 0):
            update["round"] = state.get("round", 0) + 1
        else:  # a new rung starts without the last one's diagnosis
            behind = len(state.get("refused", []))
            update |= {"round": 1, "diagnosis": None, "stuck": 0, "rejected": 0, "refused_behind": behind}
        situation = await situation_of({**state, **update, "rung": rung}, work, with_change=not is_model(proposer.rung))
        reason = proposer.can_help(situation)
        if reason is None and is_model(proposer.rung):
            reason = work.ledger.model_spent_up()
        if reason is None:
            update["strategies"] = list(proposer.strategies(situation) if isinstance(proposer, Strategist) else ("",))
            break
        costs.append(RungCost(proposer.rung, 0.0, 0, 0, Usage(), reason))
        await report_cost(work, costs[-1])
        rung, fruitless = rung + 1, 0
    update |= {"rung": rung, "fruitless": fruitless, "rungs": [pack(cost) for cost in costs]}
    if not update["strategies"] and state.get("searching") and work.ledger.spent_up() is None:
        update["strategies"] = [COLLECT]
    if update["strategies"]:
        update["iteration"] = state.get("iteration", 0) + 1
    return update


def is_left_to_a_model(state: State, work: Work) -> bool:
    """Does the review keep rejecting a search's patches although they pass the tests, while a model can still be asked?"""
    if state.get("rejected", 0) < REJECTIONS or work.ledger.spent_up() or work.ledger.model_spent_up():
        return False
    is_asked = any(is_model(each.rung) for each in work.ladder[state["rung"] :][:1])
    following = _after_the_round(state)[0] if is_asked else state["rung"] + 1
    return any(is_model(each.rung) for each in work.ladder[following:])


def _after_the_round(state: State) -> tuple[int, int, list[str]]:
    """Rung, fruitless rounds and lessons after the last round, if there was one."""
    rung, fruitless, lessons = state.get("rung", 0), state.get("fruitless", 0), state.get("lessons", [])
    rounds = [unpack(StrategyResult, packed) for packed in state.get("rounds", [])]
    if not rounds or state["strategies"] == [COLLECT]:
        return rung, fruitless, lessons
    for each in rounds:
        if each.lesson:
            lessons = remember(lessons, each.lesson)
    fruitless = 0 if any(each.fresh for each in rounds) else fruitless + 1
    refused = state.get("refused", [])[state.get("refused_behind", 0) :]
    insists = refused[-2:] == [rules.TESTS] * 2
    is_stuck = state.get("stuck", 0) >= STUCK
    if all(each.exhausted for each in rounds) or fruitless >= FRUITLESS or insists or is_stuck:
        return rung + 1, 0, lessons
    return rung, fruitless, lessons
