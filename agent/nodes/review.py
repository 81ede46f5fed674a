"""A model reviews the proven winner: it reads the change and the failing test, and looks for what tests cannot show.

It reads every winner, however many were rejected before: the budget bounds it, and `climb` leaves a search whose patches keep
being rejected. A review without a usable verdict does not stop a proven change; it is reported and lowers the confidence.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from agent.challenge.judgement import Challenged, with_variants
from agent.contract.budget import Usage
from agent.contract.events import Opined
from agent.contract.proposal import Candidate, is_model, model_name
from agent.models.decisions import line, read_object, truth
from agent.models.values import ModelError
from agent.nodes.guard import questions_of
from agent.nodes.propose import situation_of
from agent.prompts import review as reviewing
from agent.state import Objection, Reviewed, State, Work, fell_back, pack, unpack

_WORD, _NONE = re.compile(r"\w"), frozenset({"none", "null", "n/a", "na", "input", "any", "unknown", "not applicable"})
UNREAD = ("tools",)  # rungs whose changes are not reviewed: those of formatters and lock files explain themselves
MOST_VARIANTS = 3  # that a review decides on
KEPT = 4_000  # characters of an unusable answer
AGAIN = (
    'That could not be used: it has to be one JSON object with "accept": true or false, and with a "reason" if it is false. '
    "Answer again with only the JSON object."
)
REPAIR, VARIANT = "repair", "variant"  # the review's choices


@dataclass(frozen=True, slots=True)
class Review:
    accepted: bool
    reason: str  # of a rejection
    oddity: str = ""  # of an acceptance: what no maintainer would write like this
    example: str = ""  # of an acceptance: an input that no shown test uses, and its result
    choices: tuple[str, ...] = ()  # for each variant that it was shown: REPAIR, VARIANT, or anything else if it is unclear


async def review(state: State, work: Work) -> Reviewed:
    """Have a model review the winner; a rejection becomes an objection. Raises `SandboxError` when the sandbox is lost."""
    models, context = work.context.models, work.context
    candidate = await context.recall(Candidate, state["winner"][0])
    if models is None or not work.task.policy.critic or "model" not in work.task.policy.rungs or candidate.rung in UNREAD:
        return {}
    if (bound := work.ledger.model_spent_up()) is not None:
        return await fell_back(work, "review", f"The review was skipped: {bound}")
    known = unpack(Challenged, state["challenged"]) if state.get("challenged") else Challenged()
    asked = (*known.questions, *await questions_of(candidate, state, work))
    shown = known.variants[:MOST_VARIANTS]
    prompt = await reviewing.review(await situation_of(state, work, with_change=False), candidate, asked, shown)
    rung = model_name(candidate.rung)
    usage, found = Usage(), None
    for _ in range(2):
        if found is not None or replace(work.ledger, usage=work.ledger.usage + usage).model_spent_up() is not None:
            break
        seconds = min(models.settings("review", rung).timeout, work.ledger.seconds_left() / 3)
        try:
            answer = await models.ask(prompt, seconds=seconds, emit=context.emit, rung=rung)
        except ModelError as error:
            return await fell_back(work, "review", f"The model gave no review: {error}", usage + error.usage)
        usage += answer.usage
        found = read_review(answer.text)
        prompt = prompt.then(answer.text[:KEPT] or "(nothing)", AGAIN)
    if found is None:
        return await fell_back(work, "review", "The review's answer is not a usable verdict", usage)
    if found.accepted and (better := [each for each, choice in zip(shown, found.choices, strict=False) if choice == VARIANT]):
        found = Review(False, f"the tests also pass if {better[0]}, and that is what the code is meant to do")
    settled = [each for each, choice in zip(shown, found.choices, strict=False) if choice == REPAIR]
    opined = Opined(
        text=f"Review: {'accepted' if found.accepted else f'rejected because {found.reason}'}",
        step="review",
        title=candidate.title,
        accepted=found.accepted,
        reasons=[
            *(each for each in (found.reason, found.oddity) if each),
            *(f"the repair is right although the tests also pass if {each}" for each in settled),
        ],
    )
    await context.emit(opined)
    update: Reviewed = {"usage": [pack(usage)], "opinions": [pack(opined)]}
    if not found.accepted:
        rejected = state.get("rejected", 0) + (not is_model(candidate.rung))
        return {**update, "objection": pack(Objection("review", found.reason)), "rejected": rejected}
    reviewed = with_variants(known, tuple(each for each in known.variants if each not in settled)) if settled else known
    if found.example and not known.tests_due:
        reviewed = replace(reviewed, witnesses=reviewed.witnesses + 1)
    if found.oddity:
        reviewed = replace(reviewed, doubts=(*reviewed.doubts, f"the review finds the code unnatural: {found.oddity}"))
    return update if reviewed is known else {**update, "challenged": pack(reviewed)}


def read_review(text: str) -> Review | None:
    """None if the answer is not a usable verdict, for example a rejection without a reason."""
    told = read_object(text) or {}
    accepted, reason, example = truth(told.get("accept")), line(told.get("reason"), 500), _example(told.get("input"))
    if accepted is None or not (accepted or reason):
        return None
    if accepted:
        choices = told.get("variants")
        oddity = (reason or "no reason given") if truth(told.get("unnatural")) else ""
        return Review(True, "", oddity, example, tuple(map(_first_word, choices)) if isinstance(choices, list) else ())
    return Review(False, f"{reason} (for example with {example})" if example else reason)


def _example(value: object) -> str:
    """An input as text; "" for what only stands for one."""
    text = line(value if isinstance(value, str) or value is None else json.dumps(value, default=str), 200)
    return text if _WORD.search(text) and text.lower().strip(".") not in _NONE else ""


def _first_word(value: object) -> str:
    found = re.search(r"\w+", line(value, 200).lower())
    return found[0] if found else ""
