"""The rung of a language model: a diagnosis first, then a change a round, each with what earlier rounds taught."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from agent import excerpts
from agent.answer import Change, clean_path, parse, resolve
from agent.diagnosis import CATEGORIES
from agent.edits import EditProblem, digest, read_text
from agent.model import Answer, Message, ModelError, Models, Unavailable
from agent.prompts import render
from agent.proposers.base import Proposal, Situation
from agent.task import Candidate, Diagnosis, Edits, Usage

LONGEST_TITLE = 140  # characters
LONGEST_HINTS = 1_500  # characters of the failing job's log
WARMER = 0.15  # temperature that each further round adds, up to one


class ModelProposer:
    """Proposes one change a round; a malformed answer is sent back once with what is wrong with it."""

    def __init__(self, models: Models) -> None:
        self._models = models

    @property
    def rung(self) -> str:
        return f"model:{self._models.name}"

    def can_help(self, situation: Situation) -> str | None:
        return None if excerpts.red(situation) else "there is no failing verdict to show to a model"

    async def propose(self, situation: Situation) -> Proposal:
        """Raises `ModelError`."""
        messages = await _messages("repair", self._models, situation)
        temperature = min(1.0, WARMER * (situation.iteration - 1))
        answer = await self._ask(messages, situation, situation.seconds * 0.6, temperature)
        usage = answer.usage
        edits = await _edits(answer.text, situation)
        if isinstance(edits, EditProblem):
            shown = answer.text[: self._models.room] or "(nothing)"
            again: list[Message] = [
                *messages,
                {"role": "assistant", "content": shown},
                {"role": "user", "content": f"That could not be used: {edits.sentence} Answer again, in the form described."},
            ]
            try:
                second = await self._ask(again, situation, situation.seconds * 0.4, temperature)
            except ModelError as error:
                error.usage = usage + error.usage
                raise
            usage, answer = usage + second.usage, second
            edits = await _edits(answer.text, situation)
        if isinstance(edits, EditProblem):
            note = f"its answer could not be used, also when asked again: {edits.sentence}"
            return Proposal(usage=usage, note=note, exhausted=False)
        candidate = Candidate(self.rung, edits, _title(answer.text, edits), answer.text[:4000], prior=0.5)
        again_note = "the same change as before" if digest(edits) in situation.tried else ""
        return Proposal((candidate,), tried=1, plausible=0, usage=usage, note=again_note, exhausted=False)

    async def _ask(self, messages: Sequence[Message], situation: Situation, seconds: float, temperature: float) -> Answer:
        return await self._models.ask("repair", messages, seconds=seconds, emit=situation.emit, temperature=temperature)


async def diagnosis_by(models: Models, situation: Situation) -> tuple[Diagnosis, Usage]:
    """What a model believes to be wrong. Raises `ModelError`, also when its answer holds no diagnosis (`Unavailable`)."""
    messages = await _messages("diagnose", models, situation)
    answer = await models.ask("diagnose", messages, seconds=situation.seconds / 3, emit=situation.emit)
    diagnosis = read_diagnosis(answer.text, f"model:{models.name}")
    if diagnosis is None:
        raise Unavailable("its diagnosis is not the JSON object that was asked for", answer.usage)
    return diagnosis, answer.usage


def read_diagnosis(text: str, by: str) -> Diagnosis | None:
    """Validated and coerced; salvaged once, from the widest braces, when the answer is more than the object."""
    for candidate in (text.strip(), _braces(text[:100_000])):
        try:
            told = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict) and isinstance(told.get("cause"), str) and told["cause"].strip():
            category = str(told.get("category", "")).strip().lower()
            cause = " ".join(told["cause"].split())[:600]
            return Diagnosis(cause, category if category in CATEGORIES else "other", _fraction(told.get("confidence")), by)
    return None


def _braces(text: str) -> str:
    first, last = text.find("{"), text.rfind("}")
    return text[first : last + 1] if 0 <= first < last else ""


def _fraction(value: object) -> float:
    """A confidence as models write it: 0.8, "80%", 80."""
    try:
        number = float(str(value).strip().removesuffix("%"))
    except ValueError:
        return 0.5
    if not math.isfinite(number):
        return 0.5
    return min(1.0, max(0.0, number / 100 if number > 1 else number))


async def _messages(role: str, models: Models, situation: Situation) -> list[Message]:
    """A role's prompt, within the room that the model has."""
    room = models.room - 900  # the templates themselves, and the second asking
    found = excerpts.red(situation)
    # The failures are told already; of the log only its end may say more.
    hints = "\n\n".join(situation.hints)[-LONGEST_HINTS:]
    values: dict[str, object] = {
        "failures": excerpts.told(found, max(100, room // 4)),
        "excerpts": await excerpts.excerpts(situation, max(100, room // 2)),
        "hints": hints,
    }
    if role == "diagnose":
        return render(role, **values, categories=", ".join(CATEGORIES))
    known = situation.diagnosis
    cause = f"{known.cause} ({known.category}, confidence {known.confidence:.2f})" if known else ""
    return render(role, **values, diagnosis=cause, lessons="\n".join(f"- {lesson}" for lesson in situation.lessons))


async def _edits(text: str, situation: Situation) -> Edits | EditProblem:
    changes = parse(text)
    if isinstance(changes, EditProblem):
        return changes
    sources = await _sources(changes, situation)
    return sources if isinstance(sources, EditProblem) else resolve(changes, sources)


async def _sources(changes: tuple[Change, ...], situation: Situation) -> dict[str, str | None] | EditProblem:
    sources: dict[str, str | None] = {}
    for change in changes:
        if (path := clean_path(change.path)) is None:
            continue  # `resolve` says so
        text = await read_text(situation.sandbox.base, path)
        if isinstance(text, EditProblem):
            return text
        sources[path] = text
    return sources


def _title(text: str, edits: Edits) -> str:
    """The sentence that the answer begins with, or the files."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    paths = [edit.path for edit in edits]
    if (
        not first
        or (any(path in first for path in paths) and " " not in first)
        or first.startswith(("<", "```", "~~~", "#", "FUNCTION"))
    ):
        return f"changes {', '.join(paths)}"
    return first.lstrip("*-> ")[:LONGEST_TITLE]
