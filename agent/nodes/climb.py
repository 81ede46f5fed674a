"""Where on the ladder? Stay on the rung while it brings something new, else the next one that can help and can be paid."""

from __future__ import annotations

from langgraph.types import Overwrite

from agent import words
from agent.contract.usage import RungCost, Usage
from agent.guard import rules as guard
from agent.nodes.propose import situation_of
from agent.proposer import Strategist
from agent.report.costs import tell_cost
from agent.state import Round, State, Work, fell_back, pack, remember, unpack

FRUITLESS = 2  # rounds in a row without anything new to judge, after which a rung is left
STUCK = 4  # changes in a row that failed in the very same way, after which a model is left
REJECTIONS = 2  # by the review, after which a search's further changes are left for a model that knows the reasons


async def climb(state: State, work: Work) -> State:
    """Sets `rung`, `strategies` and `iteration` of the next round; no strategies where the ladder or the budget ends."""
    rung, fruitless, lessons = _after_the_round(state)
    update: State = {"rounds": Overwrite([]), "strategies": [], "lessons": lessons}  # type: ignore[typeddict-item]
    if is_left_to_a_model(state, work):
        rung, fruitless = state["rung"] + 1, 0
        if others := len(state.get("allowed", [])):
            told = f"{words.counted(others, 'other change')} of {words.rung(work.ladder[rung - 1].rung)}"
            update["notes"] = [f"The review rejected {REJECTIONS} changes, so {told} made way for a model"]
    if wanted := state.get("asked_next"):
        names = [proposer.rung for proposer in work.ladder]
        update["asked_next"] = ""
        if wanted in names:
            rung, fruitless = names.index(wanted), 0
        else:
            update |= await fell_back(work, "climb", f"`{wanted}` was to be asked next, and may not climb here")
    costs = []
    while rung < len(work.ladder) and work.ledger.spent_up() is None:
        proposer = work.ladder[rung]
        if rung == state.get("rung", 0):
            update["round"] = state.get("round", 0) + 1
        else:  # another rung looks with its own eyes
            behind = len(state.get("refused", []))
            update |= {"round": 1, "diagnosis": None, "stuck": 0, "rejected": 0, "refused_behind": behind}
        situation = await situation_of({**state, **update, "rung": rung}, work)
        reason = proposer.can_help(situation)
        if reason is None and proposer.rung.startswith("model"):
            reason = work.ledger.model_spent_up()
        if reason is None:
            update["strategies"] = list(proposer.strategies(situation) if isinstance(proposer, Strategist) else ("",))
            break
        costs.append(RungCost(proposer.rung, 0.0, 0, 0, Usage(), reason))
        await tell_cost(work, costs[-1])
        rung, fruitless = rung + 1, 0
    update |= {"rung": rung, "fruitless": fruitless, "rungs": [pack(cost) for cost in costs]}
    if update["strategies"]:
        update["iteration"] = state.get("iteration", 0) + 1
    return update


def is_left_to_a_model(state: State, work: Work) -> bool:
    """Is a search finding changes that pass the tests and do not mend the fault, while a model can still be asked?"""
    if state.get("rejected", 0) < REJECTIONS or work.ledger.spent_up() or work.ledger.model_spent_up():
        return False
    (rung, *later) = work.ladder[state["rung"] :]
    return not rung.rung.startswith("model") and any(each.rung.startswith("model") for each in later)


def _after_the_round(state: State) -> tuple[int, int, list[str]]:
    """Rung, fruitless rounds and lessons after the round that has just ended, where there was one."""
    rung, fruitless, lessons = state.get("rung", 0), state.get("fruitless", 0), state.get("lessons", [])
    rounds = [unpack(Round, packed) for packed in state.get("rounds", [])]
    if not rounds:
        return rung, fruitless, lessons
    for each in rounds:
        if each.repeated:
            lessons = remember(lessons, "The same change as before was proposed again; propose something else.")
        elif not each.fresh and not each.exhausted and each.note:
            lessons = remember(lessons, each.note)
    fruitless = 0 if any(each.fresh for each in rounds) else fruitless + 1
    refused = state.get("refused", [])[state.get("refused_behind", 0) :]
    insists = refused[-2:] == [guard.TESTS] * 2
    is_stuck = state.get("stuck", 0) >= STUCK
    if all(each.exhausted for each in rounds) or fruitless >= FRUITLESS or insists or is_stuck:
        return rung + 1, 0, lessons
    return rung, fruitless, lessons
