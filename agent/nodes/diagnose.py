"""What is believed to be wrong, before a model proposes. Without a usable answer the verdicts have to tell it."""

from __future__ import annotations

from agent import diagnosis, words
from agent.events import Degraded, Diagnosed
from agent.model import ModelError
from agent.nodes.propose import situation_of
from agent.oracle import failures
from agent.proposers.model import diagnosis_by
from agent.state import State, Work, pack
from agent.task import CheckRun, Oracle, Usage


async def diagnose(state: State, work: Work) -> State:
    """Raises `SandboxError` when the sandbox is lost; a model's error makes the diagnosis weaker, never fails the attempt."""
    context = work.context
    oracle = await context.recall(Oracle, state["oracle_ref"])
    base = await context.recall(tuple[CheckRun, ...], state["base_ref"])
    red = failures(base, (id_ for ids in oracle.must_turn.values() for id_ in ids))
    found, usage, notes = diagnosis.from_verdicts(red), Usage(), []
    if context.models is not None:
        try:
            found, usage = await diagnosis_by(context.models, await situation_of(state, work))
        except ModelError as error:
            usage, notes = error.usage, [f"No diagnosis by the model: {error}"]
            await context.emit(Degraded(text=notes[0], step="diagnose", why=str(error)))
    await context.emit(
        Diagnosed(
            text=f"The cause, as {_by(found.by)}: {found.cause}",
            cause=found.cause,
            category=found.category,
            confidence=found.confidence,
            by=found.by,
        )
    )
    return {"diagnosis": pack(found), "usage": [pack(usage)], "notes": notes}


def _by(by: str) -> str:
    return "the failing verdicts tell it" if by == diagnosis.BY_VERDICTS else f"{words.rung(by)} sees it"
