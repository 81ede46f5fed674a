"""A debugger that thinks: a model looks for the cause, with tools that run in the sandbox, and concludes within a few steps.

One conversation: the model either concludes (a JSON object) or asks for tools (`agent/debugger_calls.py`) and is shown what
they print, quoted as data. A cause that was refuted is not taken again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.contract.outcome import Iteration
from agent.contract.proposal import Diagnosis
from agent.contract.usage import Usage
from agent.debugger.calls import Call, read_calls
from agent.debugger.tools import Toolbox
from agent.diagnosis.evidence import CATEGORIES, UNSURE
from agent.models.decisions import fraction, line, lines, read_object
from agent.models.router import Models
from agent.models.values import ModelError, Unavailable
from agent.prompts import diagnose as prompting
from agent.proposer import Situation
from agent.refuting import causes_left
from agent.report.reflection import fenced

STEPS = 6  # messages with tool calls that are answered
TOKENS = 24_000  # of one diagnosis; the conversation grows with every step
KEPT = 1_500  # characters of the model's own words that stay in the conversation


@dataclass(frozen=True, slots=True)
class Debugger:
    models: Models
    rung: str  # name of the model whose rung comes next
    situation: Situation
    history: Sequence[Iteration] = ()

    async def conclude(self) -> tuple[Diagnosis, Usage]:
        """What the model believes to be wrong.

        Raises `ModelError` (`Unavailable` when no conclusion can be had), `SandboxError` when the sandbox is lost.
        """
        situation = self.situation
        room = self.models.room("diagnose", self.rung)
        steps = max(0, min(STEPS, situation.calls - 1))
        prompt = await prompting.diagnose(situation, room, has_history=bool(self.history), steps=steps)
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
                    return kept, usage
                reply = "That cause was refuted: a change made for it failed. Conclude with another one, or look further."
                malformed += 1
            elif calls and not is_last:
                step += 1
                reply = await self._answers(tools, calls, asked) + f"\n\n{_left(steps - step)}"
            else:
                reply = (
                    "Conclude now, with the JSON object alone." if calls else "That is neither the JSON object nor a TOOL line."
                )
                malformed += 1
            if malformed > 1:
                raise Unavailable("its diagnosis is not the JSON object that was asked for", usage)
            prompt = prompt.then(answer.text[:KEPT] or "(nothing)", reply)

    async def _answers(self, tools: Toolbox, calls: Sequence[Call], asked: set[str]) -> str:
        said = []
        for call in calls:
            name = f"{call.name} {' '.join(call.arguments.values())}"
            printed = "You were shown this before." if name in asked else await tools.answer(call)
            asked.add(name)
            said.append(f"# {name.splitlines()[0][:120]}\n{fenced(printed, 'text')}")
        return "\n\n".join(said)


def _left(steps: int) -> str:
    if steps == 0:
        return "That was the last tool call: conclude now, with the JSON object alone."
    return f"Conclude with the JSON object as soon as you are sure; {steps} more messages with tool calls are answered."


def _without_refuted(found: Diagnosis, refuted: Sequence[str]) -> Diagnosis | None:
    """The likeliest of its causes that no failed change has refuted."""
    if not (causes := causes_left(found, refuted)):
        return None
    confidence = found.confidence if causes[0] == found.cause else min(found.confidence, UNSURE - 0.1)
    return replace(found, cause=causes[0], hypotheses=causes[1:], confidence=confidence)


def read_diagnosis(text: str, by: str) -> Diagnosis | None:
    """Validated and coerced; None where the answer holds no diagnosis."""
    told = read_object(text)
    cause = line(told.get("cause"), 600) if told else ""
    if told is None or not cause:
        return None
    category = str(told.get("category", "")).strip().lower()
    return Diagnosis(
        cause=cause,
        category=category if category in CATEGORIES else "other",
        confidence=fraction(told.get("confidence")),
        by=by,
        evidence=lines(told.get("evidence"), 4, 400),
        hypotheses=lines(told.get("hypotheses"), 3, 400),
        places=lines(told.get("where"), 4, 300),
    )
