"""Events of the graph in words that fit answers."""

from __future__ import annotations

import msgspec

from agent.contract.events import (
    AnyEvent,
    Emit,
    Localized,
    Reproduced,
    RungSpent,
    StepDone,
    StepStarted,
)
from agent.contract.proposal import is_model

FOR_CODE = " for code"  # ends what a rung says when it asks a model: the graph does not know which answers are known
_STEPS = {  # texts of steps where an answer is judged, instead of a repair
    **dict.fromkeys(("unpack", "install", "compare", "localize", "recall"), ""),
    "reproduce": "Running the tests",
    "verify": "Running the tests on the answer",
    "prove": "Running the tests again, with the answer and without it",
    "challenge": "Trying the answer beyond its tests",
    "reflect": "Recording why the answer failed",
    "weigh": "Weighing how sure the answer is",
}


def of_answers(emit: Emit) -> Emit:
    async def told(event: AnyEvent) -> None:
        if isinstance(event, StepStarted | StepDone) and event.text and event.step in _STEPS:
            is_start = isinstance(event, StepStarted)
            event = msgspec.structs.replace(event, text=_STEPS[event.step] if is_start else "")
        elif isinstance(event, StepStarted) and event.text.startswith("Asking ") and event.step == "propose":
            event = msgspec.structs.replace(event, text=event.text if event.text.endswith(FOR_CODE) else "")
        elif isinstance(event, StepStarted):
            event = msgspec.structs.replace(event, text=event.text.replace(" for a patch", FOR_CODE))
        elif isinstance(event, Reproduced | Localized) or (isinstance(event, RungSpent) and _is_known(event)):
            event = msgspec.structs.replace(event, text="")
        await emit(event)

    return told


def _is_known(event: RungSpent) -> bool:
    """Is it an answer for which no model was asked?"""
    return is_model(event.rung) and event.tried > 0 and not event.tokens
