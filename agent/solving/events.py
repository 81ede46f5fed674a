"""Events of the graph in words that fit answers."""

from __future__ import annotations

import msgspec

from agent.contract.events import (
    AnyEvent,
    Emit,
    Localized,
    Reproduced,
    StepDone,
    StepStarted,
)

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
        elif isinstance(event, StepStarted):
            event = msgspec.structs.replace(event, text=event.text.replace(" for a patch", " for code"))
        elif isinstance(event, Reproduced | Localized):
            event = msgspec.structs.replace(event, text="")
        await emit(event)

    return told
