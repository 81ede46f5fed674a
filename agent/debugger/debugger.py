"""A model looks for the cause, with tools that run in the sandbox, and concludes within a few steps.

In each message of a conversation, the model either concludes (with a JSON object) or calls tools (`agent/debugger/calls.py`).
It gets their output quoted as data. Refuted causes are rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent.contract.budget import Usage
from agent.contract.outcome import Iteration
from agent.contract.proposal import Diagnosis
from agent.debugger.calls import ToolCall, read_calls
from agent.debugger.tools import Toolbox
from agent.diagnosis.evidence import CATEGORIES, UNSURE, causes_left
from agent.models.decisions import fraction, line, lines, read_object
from agent.models.router import Models
from agent.models.values import ModelError, ModelUnavailable
from agent.prompts import diagnose
from agent.proposer import Situation
from agent.report.reflection import fenced

STEPS = 6  # messages with tool calls
TOKENS = 24_000  # for one diagnosis; every step repeats the conversation
KEPT = 1_500  # characters of each model message that stay in the conversation
RUNNING = ("run_snippet", "run_test")  # tools whose output shows values, which the repair needs too
OBSERVED, LONGEST_CALL, LONGEST_OUTPUT = 2, 300, 500  # outputs that the repair sees, characters of each


@dataclass(frozen=True, slots=True)
class Debugger:
    models: Models
    rung: str  # name of the model whose rung comes next
    situation: Situation
    history: Sequence[Iteration] = ()
    _observed: list[str] = field(default_factory=list)

    async def conclude(self) -> tuple[Diagnosis, Usage]:
        """The model's diagnosis. Raises `ModelError` (`ModelUnavailable` without a conclusion) and `SandboxError`."""
        situation = self.situation
        room = self.models.room("diagnose", self.rung)
        steps = max(0, min(STEPS, situation.calls - 1))
        prompt = await diagnose.diagnose(situation, room, has_history=bool(self.history), steps=steps)
        tools, usage, step, malformed = Toolbox(situation, self.history), Usage(), 0, 0
        asked: set[str] = set()
        while True:
            try:
                answer = await self.models.ask(prompt, seconds=situation.seconds / 3, emit=situation.emit, rung=self.rung)
            except ModelError as error:
                error.usage = usage + error.usage
                raise
            usage += answer.usage
            concluded = read_diagnosis(answer.text, f"model:{answer.model}")
            calls = () if concluded else read_calls(answer.text)
            used = usage.tokens_in + usage.tokens_out
            is_last = step >= steps or used >= TOKENS or prompt.tokens + 2_000 > room
            if concluded is not None:
                if (kept := _without_refuted(concluded, situation.refuted)) is not None:
                    return replace(kept, observed=tuple(self._observed[-OBSERVED:])), usage
                reply = "That cause is refuted: a change that addressed it failed. Conclude with another, or call a tool."
                malformed += 1
            elif calls and not is_last:
                step += 1
                reply = await self._answers(tools, calls, asked) + f"\n\n{_left(steps - step)}"
            else:
                reply = (
                    "Conclude now, with only the JSON object." if calls else "That was neither the JSON object nor a TOOL line."
                )
                malformed += 1
            if malformed > 1:
                raise ModelUnavailable("its diagnosis is not the requested JSON object", usage)
            prompt = prompt.then(answer.text[:KEPT] or "(nothing)", reply)

    async def _answers(self, tools: Toolbox, calls: Sequence[ToolCall], asked: set[str]) -> str:
        answers = []
        for call in calls:
            name = f"{call.name} {' '.join(call.arguments.values())}"
            printed = "This output was already shown." if name in asked else await tools.answer(call)
            if call.name in RUNNING and name not in asked:
                self._observed.append(f"{name[:LONGEST_CALL]}\n{printed[:LONGEST_OUTPUT]}")
            asked.add(name)
            answers.append(f"# {name.splitlines()[0][:120]}\n{fenced(printed, 'text')}")
        return "\n\n".join(answers)


def _left(steps: int) -> str:
    if steps == 0:
        return "No more tool calls are answered: conclude now, with only the JSON object."
    more = "one more message with tool calls is" if steps == 1 else f"{steps} more messages with tool calls are"
    return f"Conclude with the JSON object as soon as you are sure; at most {more} answered."


def _without_refuted(found: Diagnosis, refuted: Sequence[str]) -> Diagnosis | None:
    """The diagnosis with its likeliest cause that is not refuted; None if all are."""
    if not (causes := causes_left(found, refuted)):
        return None
    confidence = found.confidence if causes[0] == found.cause else min(found.confidence, UNSURE - 0.1)
    return replace(found, cause=causes[0], hypotheses=causes[1:], confidence=confidence)


def read_diagnosis(text: str, by: str) -> Diagnosis | None:
    """A validated diagnosis; None if the answer contains none."""
    found = read_object(text)
    cause = line(found.get("cause"), 600) if found else ""
    if found is None or not cause:
        return None
    category = str(found.get("category", "")).strip().lower()
    return Diagnosis(
        cause=cause,
        category=category if category in CATEGORIES else "other",
        confidence=fraction(found.get("confidence")),
        by=by,
        evidence=lines(found.get("evidence"), 4, 400),
        hypotheses=lines(found.get("hypotheses"), 3, 400),
        places=lines(found.get("where"), 4, 300),
    )
