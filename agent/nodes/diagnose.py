"""What is believed to be wrong, before a model proposes. Without a usable answer the verdicts have to tell it."""

from __future__ import annotations

from agent import diagnosis, words
from agent.events import Diagnosed
from agent.model import ModelError
from agent.nodes.propose import situation_of
from agent.proposers.model import diagnosis_by
from agent.state import State, Work, fell_back, pack, red_of
from agent.task import Usage


async def diagnose(state: State, work: Work) -> State:
    """Raises `SandboxError` when the sandbox is lost; a model's error makes the diagnosis weaker, never fails the attempt."""
    context = work.context
    red = await red_of(state, context)
    found, usage, fallen = diagnosis.from_verdicts(red), Usage(), State()
    if context.models is not None:
        try:
            found, usage = await diagnosis_by(context.models, await situation_of(state, work))
        except ModelError as error:
            usage = error.usage
            fallen = await fell_back(work, "diagnose", f"No diagnosis by the model: {error}")
    await context.emit(
        Diagnosed(
            text=f"The cause, as {_by(found.by)}: {found.cause}",
            cause=found.cause,
            category=found.category,
            confidence=found.confidence,
            by=found.by,
            evidence=list(found.evidence),
        )
    )
    return {"diagnosis": pack(found), "usage": [pack(usage)], **fallen}


def _by(by: str) -> str:
    return "the failing verdicts tell it" if by == diagnosis.BY_VERDICTS else f"{words.rung(by)} sees it"
