"""A model reviews the proven winner: it reads the change and the failing test, and looks for what tests cannot show.

It reads every winner, however many were rejected before: the budget bounds it, and `climb` leaves a search whose patches keep
being rejected. A review without a usable verdict does not stop a proven change; it is reported and lowers the confidence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent.challenge.judgement import Challenged
from agent.contract.events import Opined
from agent.contract.proposal import Candidate, model_name
from agent.models.decisions import line, read_object, truth
from agent.models.values import ModelError
from agent.nodes.guard import questions_of
from agent.nodes.propose import situation_of
from agent.prompts import review as reviewing
from agent.state import Objection, Reviewed, State, Work, fell_back, pack, unpack

SECONDS = 120.0  # for the review
UNREAD = ("tools",)  # rungs whose changes are not reviewed: those of formatters and lock files explain themselves


@dataclass(frozen=True, slots=True)
class Review:
    accepted: bool
    reason: str  # of a rejection
    oddity: str = ""  # of an acceptance: what no maintainer would write like this


async def review(state: State, work: Work) -> Reviewed:
    """Have a model review the winner; a rejection becomes an objection. Raises `SandboxError` when the sandbox is lost."""
    models, context = work.context.models, work.context
    candidate = await context.recall(Candidate, state["winner"][0])
    if models is None or not work.task.policy.critic or "model" not in work.task.policy.rungs or candidate.rung in UNREAD:
        return {}
    if (bound := work.ledger.model_spent_up()) is not None:
        return await fell_back(work, "review", f"The review was skipped: {bound}")
    known = unpack(Challenged, state["challenged"]) if state.get("challenged") else Challenged()
    asked = (*known.asked, *await questions_of(candidate, state, work))
    prompt = await reviewing.review(await situation_of(state, work, with_change=False), candidate, asked)
    rung = model_name(candidate.rung)
    try:
        answer = await models.ask(prompt, seconds=min(SECONDS, work.ledger.seconds_left() / 3), emit=context.emit, rung=rung)
    except ModelError as error:
        return await fell_back(work, "review", f"The model gave no review: {error}", error.usage)
    found = read_review(answer.text)
    if found is None:
        return await fell_back(work, "review", "The review's answer is not a usable verdict", answer.usage)
    opined = Opined(
        text=f"Review: {'accepted' if found.accepted else f'rejected because {found.reason}'}",
        step="review",
        title=candidate.title,
        accepted=found.accepted,
        reasons=[each for each in (found.reason, found.oddity) if each],
    )
    await context.emit(opined)
    update: Reviewed = {"usage": [pack(answer.usage)], "opinions": [pack(opined)]}
    if found.oddity:
        update["challenged"] = pack(
            replace(known, doubts=(*known.doubts, f"the review finds the code unnatural: {found.oddity}"))
        )
    if found.accepted:
        return update
    return {**update, "objection": pack(Objection("review", found.reason)), "rejected": state.get("rejected", 0) + 1}


def read_review(text: str) -> Review | None:
    """None if the answer is not a usable verdict, for example a rejection without a reason."""
    told = read_object(text) or {}
    accepted, reason = truth(told.get("accept")), line(told.get("reason"), 500)
    if accepted is None or not (accepted or reason):
        return None
    if accepted and truth(told.get("unnatural")):
        return Review(True, "", reason or "no reason given")
    example = line(told.get("input"), 200)
    return Review(accepted, "" if accepted else f"{reason} (for example with {example})" if example else reason)
