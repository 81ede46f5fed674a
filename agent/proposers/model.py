"""The rung of a language model: changes in several strategies, each with what the diagnosis and earlier rounds taught.

What a round costs decides how many strategies it has: a first round that has something to go by is one direct call; where that
failed the debugger looks first (`agent/debugger.py`), an unsure one has each of its hypotheses tried, a sure one is taken up in
several ways, each warmer than the last (best of N: every change is judged by running the checks).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from agent.alike import alike
from agent.contract.proposal import Candidate, Edits
from agent.contract.usage import Usage
from agent.diagnosis.evidence import BY_VERDICTS, UNSURE
from agent.edits.answers import Block, Change, WholeFunction, clean_path, parse
from agent.edits.changes import EditProblem, digest, read_text
from agent.edits.placement import resolve
from agent.models.router import Models
from agent.models.values import Answer, ModelError, Prompt, Truncated
from agent.prompts import diagnose as prompting
from agent.prompts import failures as failing
from agent.prompts.diagnose import Shown
from agent.proposer import Proposal, Situation
from agent.source.test_files import is_test

DIRECT, DIAGNOSED, TARGETED, MINIMAL = "direct", "diagnosed", "targeted", "minimal"
FUNCTION, ANOTHER, AFRESH = "function", "another", "afresh"
HYPOTHESIS = "hypothesis:"  # and its number
WARMTH = {MINIMAL: 0.2, FUNCTION: 0.4, ANOTHER: 0.4, AFRESH: 0.7}  # temperature that a strategy adds
WARMER = 0.15  # temperature that each further round adds, and twice as much each change that failed just as the one before
_FUNCTION = re.compile(r"::(?:\w+\.)*_*[a-z]\w*(?:\(\))?$")  # of a diagnosis' places those that are no class and no constant
_DEFINED = re.compile(r"\s*(?:async )?def (\w+)")
LONGEST_TITLE = 140  # characters
MOST_ABREAST = 3
SURE = 0.8  # confidence from which a diagnosis is taken up in one way first, and in a second one only where that failed


class ModelProposer:
    """One change a strategy; an answer that cannot be used is sent back once with what is wrong with it."""

    def __init__(self, models: Models, name: str = "") -> None:
        self._models, self._name = models, name or models.name

    @property
    def rung(self) -> str:
        return f"model:{self._name}"

    def can_help(self, situation: Situation) -> str | None:
        return None if failing.red(situation) else "there is no failing verdict to show to a model"

    def strategies(self, situation: Situation) -> tuple[str, ...]:
        """`DIAGNOSED` alone means that a diagnosis has to come first; then this is asked again."""
        known = situation.diagnosis
        if known is None:
            is_first = situation.round == 1 and not situation.refuted
            return (DIRECT,) if is_first and _stands_out(situation) else (DIAGNOSED,)
        causes = (known.cause, *(known.hypotheses if known.confidence < UNSURE else ()))
        left = [at for at, cause in enumerate(causes) if not any(alike(cause, each) for each in situation.refuted)]
        if len(causes) > 1 and left:
            ways = tuple(f"{HYPOTHESIS}{at}" for at in left)
        else:
            second = FUNCTION if any(map(_FUNCTION.search, known.places)) else ANOTHER
            ways = (AFRESH, second, TARGETED) if situation.stuck else (TARGETED, second, MINIMAL)
        return ways[: self._abreast(situation)]

    def _abreast(self, situation: Situation) -> int:
        """How many calls a round may make beside each other: a local model answers one at a time, and money has an end."""
        if self._models.settings("repair", self._name).is_local:
            wanted = 1
        elif situation.diagnosis is not None and situation.diagnosis.confidence < UNSURE:
            wanted = MOST_ABREAST
        else:
            is_sure = situation.diagnosis is not None and situation.diagnosis.confidence >= SURE
            wanted = min(MOST_ABREAST, max(1, situation.round - is_sure))
        return max(1, min(wanted, situation.calls // 2))

    async def propose(self, situation: Situation) -> Proposal:
        """Raises `ModelError`."""
        cause = _cause(situation)
        talk = _Talk(self._models, self._name, situation, cause)
        edits, answer = await talk.edits()
        if isinstance(edits, EditProblem):
            note = f"its answer could not be used, also when asked again: {edits.sentence}"
            return Proposal(usage=talk.usage, note=note, exhausted=False)
        said = _said(answer)
        candidate = Candidate(
            self.rung,
            edits,
            _title(answer, edits),
            reasoning=answer[:4000],
            hypothesis=cause or said.get("cause", ""),
        )
        again = "the same change as before" if digest(edits) in situation.tried else ""
        return Proposal((candidate,), tried=1, plausible=0, usage=talk.usage, note=again, exhausted=False)


def model_rungs(models: Models | None) -> tuple[ModelProposer, ...]:
    """A rung for each model that has one, cheapest first."""
    return tuple(ModelProposer(models, name) for name in models.rungs) if models else ()


@dataclass
class _Talk:
    """One asking for a change, and the second one where the first answer was of no use."""

    models: Models
    rung: str
    situation: Situation
    cause: str  # what the change shall mend, "" where nothing is known
    usage: Usage = Usage()

    async def edits(self) -> tuple[Edits | EditProblem, str]:
        """The change, and the answer that it is from. Raises `ModelError` with what both askings cost."""
        room = self.models.room("repair", self.rung)
        shown = await prompting.repair(self.situation, room, self.cause)
        try:
            answer = await self._ask(shown.prompt, 0.6)
        except Truncated:
            again = shown.prompt.then(
                "(an answer that was too long)",
                "That was cut because it was too long. Answer with the smallest block that does it, and without explanations.",
            )
        else:
            edits, changes = await _edits(answer.text, self.situation, shown.paths)
            is_useless = isinstance(edits, EditProblem)
            asked = prompting.asked_for(answer.text) if is_useless else []
            unseen = [] if asked else _unseen(changes, shown, is_useless)
            if self.situation.calls < 2 or not (asked or unseen or is_useless):
                return edits, answer.text
            if asked:
                shown = await prompting.repair(self.situation, room, self.cause, asked)
                again = shown.prompt
            else:
                more, paths = await prompting.more(self.situation, unseen)
                if not (more or isinstance(edits, EditProblem)):
                    return edits, answer.text
                problem = f"{more}\n\nYou were not shown this before. " if more else ""
                problem += f"That could not be used: {edits.sentence} " if isinstance(edits, EditProblem) else ""
                again = shown.prompt.then(
                    answer.text[:room] or "(nothing)", f"{problem}Answer again, in the form described, with a change."
                )
                shown = replace(shown, paths=tuple(dict.fromkeys((*shown.paths, *paths))))
        second = await self._ask(again, 0.4)
        return (await _edits(second.text, self.situation, shown.paths))[0], second.text

    async def _ask(self, prompt: Prompt, share: float) -> Answer:
        seconds, emit = self.situation.seconds * share, self.situation.emit
        try:
            answer = await self.models.ask(
                prompt, seconds=seconds, emit=emit, temperature=_temperature(self.situation), rung=self.rung
            )
        except ModelError as error:
            self.usage = error.usage = self.usage + error.usage
            raise
        self.usage += answer.usage
        return answer


def _stands_out(situation: Situation) -> bool:
    """Is there something to go by: a suspicious place, or a traceback that leaves the tests? Then a direct try is cheapest."""
    frames = (frame for failure in failing.red(situation) for frame in failure.frames)
    return bool(situation.suspects) or any(not is_test(frame.path) for frame in frames)


def _cause(situation: Situation) -> str:
    """What this change shall mend."""
    known, strategy = situation.diagnosis, situation.strategy
    if known is None or known.by == BY_VERDICTS or strategy == AFRESH:
        return ""  # the failing verdicts are shown anyhow
    if strategy.startswith(HYPOTHESIS):
        return (known.cause, *known.hypotheses)[int(strategy.removeprefix(HYPOTHESIS))]
    return known.cause


def _temperature(situation: Situation) -> float:
    later = WARMER * (situation.round - 1) + 2 * WARMER * situation.stuck
    return min(1.0, later + WARMTH.get(situation.strategy, 0.0))


async def _edits(text: str, situation: Situation, shown: tuple[str, ...]) -> tuple[Edits | EditProblem, tuple[Change, ...]]:
    """What an answer comes to, and the changes that could be read in it."""
    changes = parse(text)
    if isinstance(changes, EditProblem):
        return changes, ()
    sources = await _sources(changes, situation, shown)
    return (sources if isinstance(sources, EditProblem) else resolve(changes, sources, shown)), changes


def _unseen(changes: tuple[Change, ...], shown: Shown, is_useless: bool) -> list[str]:
    """The functions that are written anew without their code having been shown; of a SEARCH only where it fits nowhere."""
    unseen = []
    for change in changes:
        names = [change.name] if isinstance(change, WholeFunction) else []
        if isinstance(change, Block) and is_useless:
            names = [found[1] for line in change.search if (found := _DEFINED.match(line))][:1]
        path = clean_path(change.path) if change.path else None
        unseen += [f"{path}::{name}" for name in names if path and not shown.has(path, name)]
    return unseen[: prompting.MOST_SHOWN]


async def _sources(
    changes: tuple[Change, ...], situation: Situation, shown: tuple[str, ...]
) -> dict[str, str | None] | EditProblem:
    named = [path for change in changes if (path := clean_path(change.path)) is not None]  # `resolve` says so of others
    is_unnamed = any(not change.path for change in changes)
    sources: dict[str, str | None] = {}
    for path in (*named, *(shown if is_unnamed else ())):
        text = await read_text(situation.sandbox.base, path)
        if isinstance(text, EditProblem):
            return text
        sources[path] = text
    return sources


def _said(answer: str) -> dict[str, str]:
    """The sentences that an answer begins with, by their names in lower case: "cause", "change"."""
    found = re.finditer(r"^[\s*#>-]*(Cause|Change)[\s*]*:[\s*]*(.+)$", answer[:4000], re.MULTILINE | re.IGNORECASE)
    return {match[1].lower(): " ".join(match[2].split())[:600] for match in found}


def _title(answer: str, edits: Edits) -> str:
    """What the answer says it changes, else the sentence that it begins with, else the files."""
    if title := _said(answer).get("change"):
        return title[:LONGEST_TITLE]
    first = next((line.strip() for line in answer.splitlines() if line.strip()), "")
    paths = [edit.path for edit in edits]
    is_path = any(path in first for path in paths) and " " not in first
    if not first or is_path or first.startswith(("<", "```", "~~~", "#", "---", "FUNCTION")):
        return f"changes {', '.join(paths)}"
    return first.lstrip("*-> ")[:LONGEST_TITLE]
