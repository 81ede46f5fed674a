"""The critic: a model reads the proven change and the failing test, and looks for what tests cannot see.

Every winner is read, however many were rejected before: the budget bounds it, and `climb` leaves a search that finds nothing
better. Without a model nobody reads. A critic that gives no usable verdict does not stop a proven change; that is told, and the
confidence drops.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from agent.challenge.judgement import Challenged
from agent.contract.events import Opined
from agent.contract.proposal import Candidate
from agent.contract.rungs import model_name
from agent.models.decisions import line, read_object, truth
from agent.models.values import ModelError
from agent.nodes.propose import situation_of
from agent.prompts import review as reviewing
from agent.state import Objection, Reviewed, State, Work, fell_back, pack, unpack

SECONDS = 120.0
UNREAD = ("tools",)  # rungs whose changes are not worth a reader: formatters and lock files explain themselves


@dataclass(frozen=True, slots=True)
class Review:
    accepted: bool
    reason: str  # why not
    oddity: str = ""  # of an accepted one: what no maintainer would write so


async def review(state: State, work: Work) -> Reviewed:
    """Nothing, or the objection to the winner; `Opined` says which. Raises `SandboxError` when the sandbox is lost."""
    models, context = work.context.models, work.context
    candidate = await context.recall(Candidate, state["winner"][0])
    if models is None or "model" not in work.task.policy.rungs or candidate.rung in UNREAD:
        return {}
    if (bound := work.ledger.model_spent_up()) is not None:
        return await fell_back(work, "review", f"The review was skipped: {bound}")
    prompt = await reviewing.review(await situation_of(state, work), candidate)
    update: Reviewed
    rung = model_name(candidate.rung)
    try:
        answer = await models.ask(prompt, seconds=min(SECONDS, work.ledger.seconds_left() / 3), emit=context.emit, rung=rung)
    except ModelError as error:
        update = await fell_back(work, "review", f"The model gave no review: {error}")
        update["usage"] = [pack(error.usage)]
        return update
    found = read_review(answer.text)
    if found is None:
        update = await fell_back(work, "review", "The review's answer is not a usable verdict")
        update["usage"] = [pack(answer.usage)]
        return update
    opined = Opined(
        text=f"Review: {'accepted' if found.accepted else f'rejected because {found.reason}'}",
        step="review",
        title=candidate.title,
        accepted=found.accepted,
        reasons=[each for each in (found.reason, found.oddity) if each],
    )
    await context.emit(opined)
    update = {"usage": [pack(answer.usage)], "opinions": [msgspec.to_builtins(opined)]}
    if found.oddity:
        known = unpack(Challenged, state["challenged"]) if state.get("challenged") else Challenged()
        update["challenged"] = pack(
            replace(known, doubts=(*known.doubts, f"the review finds the code unnatural: {found.oddity}"))
        )
    if found.accepted:
        return update
    return {**update, "objection": pack(Objection("review", found.reason)), "rejected": state.get("rejected", 0) + 1}


def read_review(text: str) -> Review | None:
    """None where the answer is no verdict; a rejection that gives no reason is none."""
    told = read_object(text) or {}
    accepted, reason = truth(told.get("accept")), line(told.get("reason"), 500)
    if accepted is None or not (accepted or reason):
        return None
    if accepted and truth(told.get("unnatural")):
        return Review(True, "", reason or "it gives no reason")
    example = line(told.get("input"), 200)
    return Review(accepted, "" if accepted else f"{reason} (for instance with {example})" if example else reason)
