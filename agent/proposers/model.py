"""The language model's rung: asks for changes with several strategies, using the diagnosis and the lessons of earlier rounds.

The first two rounds are one direct call each if there is a suspect or a useful traceback; the second one sees how the first
change failed. If both fail, the debugger runs first (`agent/debugger`). If the diagnosis is unsure, each of its hypotheses is
tried. If it is confident, several strategies are tried, each at a higher temperature than the last (best of N: running the
checks judges every change).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from agent.contract.budget import Usage
from agent.contract.proposal import Candidate, Edits
from agent.diagnosis.evidence import BY_VERDICTS, UNSURE, is_similar
from agent.edits.answers import Block, Change, WholeFunction, clean_path, parse
from agent.edits.changes import EditProblem, digest, read_text
from agent.edits.placement import resolve
from agent.models.router import Models
from agent.models.values import Answer, ModelError, Prompt, Truncated
from agent.prompts import diagnose, failures
from agent.prompts.diagnose import Shown
from agent.proposer import Proposal, Situation
from agent.source.test_files import is_test

DIRECT, DIAGNOSED, TARGETED, MINIMAL = "direct", "diagnosed", "targeted", "minimal"
FUNCTION, ANOTHER, AFRESH = "function", "another", "afresh"
# "direct:2" is a further direct attempt in the same round.
HYPOTHESIS = "hypothesis:"  # followed by its index
WARMTH = {MINIMAL: 0.2, FUNCTION: 0.4, ANOTHER: 0.4, AFRESH: 0.7}  # added to the temperature, by strategy
WARMEST = 1.0
WARMER = 0.15  # added to the temperature per further round; twice that per change that failed exactly like its predecessor
_FUNCTION = re.compile(r"::(?:\w+\.)*_*[a-z]\w*(?:\(\))?$")  # a diagnosed location that is neither a class nor a constant
_DEFINED = re.compile(r"\s*(?:async )?def (\w+)")
LONGEST_TITLE = 140  # characters
MAX_PARALLEL = 3
SHARES = (0.5, 0.3, 0.2)  # of the time, for each answer in one request for a change: two may ask to see more code
SHORTER = "Your answer was cut: it was too long. Answer with the smallest sufficient block, and no explanations."
DIRECT_ROUNDS = 2  # before a diagnosis: it costs a call that repeats most of the prompt
SURE = 0.8  # a diagnosis of at least this confidence starts with one strategy; others follow only if it fails


class ModelProposer:
    """Proposes one change per strategy. If an answer is unusable, the model gets the reason and one more try; it may ask to see
    code twice."""

    def __init__(self, models: Models, name: str = "") -> None:
        self._models, self._name = models, name or models.name

    @property
    def rung(self) -> str:
        return f"model:{self._name}"

    def can_help(self, situation: Situation) -> str | None:
        return None if failures.red(situation) else "there is no failure to show to a model"

    def strategies(self, situation: Situation) -> tuple[str, ...]:
        """`DIAGNOSED` alone means that a diagnosis is needed first; the engine then calls this again."""
        known = situation.diagnosis
        if known is None:
            is_early = situation.round <= DIRECT_ROUNDS
            return (DIRECT,) if is_early and _stands_out(situation) else (DIAGNOSED,)
        causes = (known.cause, *(known.hypotheses if known.confidence < UNSURE else ()))
        left = [at for at, cause in enumerate(causes) if not any(is_similar(cause, each) for each in situation.refuted)]
        if len(causes) > 1 and left:
            ways = tuple(f"{HYPOTHESIS}{at}" for at in left)
        else:
            second = FUNCTION if any(map(_FUNCTION.search, known.places)) else ANOTHER
            ways = (AFRESH, second, TARGETED) if situation.stuck else (TARGETED, second, MINIMAL)
        return ways[: self._parallel_calls(situation)]

    def _parallel_calls(self, situation: Situation) -> int:
        """How many calls a round makes in parallel. A local model answers one at a time; the budget limits other models."""
        if situation.policy.strategies is not None:
            wanted = situation.policy.strategies
        elif self._models.settings("repair", self._name).is_local:
            wanted = 1
        elif situation.diagnosis is not None and situation.diagnosis.confidence < UNSURE:
            wanted = MAX_PARALLEL
        else:
            is_sure = situation.diagnosis is not None and situation.diagnosis.confidence >= SURE
            wanted = min(MAX_PARALLEL, max(1, situation.round - is_sure))
        return max(1, min(wanted, situation.calls // len(SHARES)))

    async def propose(self, situation: Situation) -> Proposal:
        """Raises `ModelError`."""
        cause = _cause(situation)
        exchange = _Exchange(self._models, self._name, situation, cause)
        edits, answer = await exchange.edits()
        if isinstance(edits, EditProblem):
            note = f"no usable answer: {edits.sentence}"
            return Proposal(usage=exchange.usage, note=note, lesson=note, exhausted=False)
        labelled = _labelled(answer)
        candidate = Candidate(
            self.rung,
            edits,
            _title(answer, edits),
            reasoning=answer[:4000],
            hypothesis=cause or labelled.get("cause", ""),
        )
        is_same = digest(edits) in situation.tried
        again = "the model repeated an earlier change" if is_same else ""
        return Proposal((candidate,), tried=1, plausible=0, usage=exchange.usage, note=again, exhausted=False)


def model_rungs(models: Models | None) -> tuple[ModelProposer, ...]:
    """One rung per configured model, cheapest first."""
    return tuple(ModelProposer(models, name) for name in models.rungs) if models else ()


@dataclass
class _Exchange:
    """One request for a change, in up to three turns."""

    models: Models
    rung: str
    situation: Situation
    cause: str  # what the change has to fix; "" if unknown
    usage: Usage = Usage()

    async def edits(self) -> tuple[Edits | EditProblem, str]:
        """The change, and the answer that it comes from. Raises `ModelError` with the usage of all calls."""
        room = self.models.room("repair", self.rung)
        shown = await diagnose.repair(self.situation, room, self.cause)
        prompt, left, is_corrected = shown.prompt, min(len(SHARES), self.situation.calls), False
        for share in SHARES:
            left -= 1
            try:
                answer = await self._ask(prompt, share)
            except Truncated:
                if prompt is not shown.prompt:
                    raise
                prompt, is_corrected = shown.prompt.then("(an answer that was too long)", SHORTER), True
                continue
            edits, changes = await _edits(answer.text, self.situation, shown.paths)
            is_useless = isinstance(edits, EditProblem)
            asked = diagnose.asked_for(answer.text) if is_useless else []
            unseen = [] if asked or is_corrected else _unseen(changes, shown, is_useless)
            if left < 1 or not (asked or unseen or (is_useless and not is_corrected)):
                break
            is_corrected = is_corrected or not asked
            more, paths = await diagnose.more(self.situation, asked or unseen, room)
            if not (more or is_useless):
                break
            if asked:
                problem = f"{more or 'There is no such code.'}\n\n"
            else:
                problem = f"{more}\n\nYou had not seen this code yet. " if more else ""
                problem += f"Your answer could not be used: {edits.sentence} " if isinstance(edits, EditProblem) else ""
            again, further = "" if asked else "again ", ", or ask for more code" if asked and left > 1 else ""
            wanted = f"{problem}Answer {again}with a change, in the described form{further}."
            prompt = prompt.then(answer.text[:room] or "(nothing)", wanted)
            shown = replace(shown, paths=tuple(dict.fromkeys((*shown.paths, *paths))))
        return edits, answer.text

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
    """Is there a suspect or a traceback into non-test code? Then a direct attempt is cheapest."""
    frames = (frame for failure in failures.red(situation) for frame in failure.frames)
    return bool(situation.suspects) or any(not is_test(frame.path) for frame in frames)


def _cause(situation: Situation) -> str:
    """The cause that this change has to fix; "" if it is unknown or deliberately left out."""
    known, strategy = situation.diagnosis, situation.strategy
    if known is None or known.by == BY_VERDICTS or strategy == AFRESH:
        return ""  # the prompt shows the failures anyway
    if strategy.startswith(HYPOTHESIS):
        return (known.cause, *known.hypotheses)[int(strategy.removeprefix(HYPOTHESIS))]
    return known.cause


def _temperature(situation: Situation) -> float:
    later = WARMER * (situation.round - 1) + 2 * WARMER * situation.stuck
    return min(WARMEST, later + WARMTH.get(situation.strategy, 0.0))


async def _edits(text: str, situation: Situation, shown: tuple[str, ...]) -> tuple[Edits | EditProblem, tuple[Change, ...]]:
    """The edits that result from an answer, and the changes parsed from it."""
    changes = parse(text)
    if isinstance(changes, EditProblem):
        return changes, ()
    sources = await _sources(changes, situation, shown)
    return (sources if isinstance(sources, EditProblem) else resolve(changes, sources, shown)), changes


def _unseen(changes: tuple[Change, ...], shown: Shown, is_useless: bool) -> list[str]:
    """Functions that an answer rewrites without having seen them; those in SEARCH blocks only if the answer is unusable."""
    unseen = []
    for change in changes:
        names = [change.name] if isinstance(change, WholeFunction) else []
        if isinstance(change, Block) and is_useless:
            names = [found[1] for line in change.search if (found := _DEFINED.match(line))][:1]
        path = clean_path(change.path) if change.path else None
        unseen += [f"{path}::{name}" for name in names if path and not shown.has(path, name)]
    return unseen[: diagnose.MOST_SHOWN]


async def _sources(
    changes: tuple[Change, ...], situation: Situation, shown: tuple[str, ...]
) -> dict[str, str | None] | EditProblem:
    """The texts of the files that the changes name; also of those shown, if a change has no path or one of no file."""
    named = [clean_path(change.path) if change.path else None for change in changes]  # `resolve` reports the invalid ones
    sources: dict[str, str | None] = {}
    for path in (*named, *shown):
        is_enough = all(each is not None and (each not in sources or sources[each] is not None) for each in named)
        if path is None or path in sources or (path not in named and is_enough):
            continue
        text = await read_text(situation.sandbox.base, path)
        if isinstance(text, EditProblem):
            return text
        sources[path] = text
    return sources


def _labelled(answer: str) -> dict[str, str]:
    """The labelled sentences of an answer, by their labels in lower case: "cause", "change"."""
    found = re.finditer(r"^[ \t*#>-]*+(Cause|Change)[ \t*]*+:[\s*]*+(.+)$", answer[:4000], re.MULTILINE | re.IGNORECASE)
    return {match[1].lower(): " ".join(match[2].split())[:600] for match in found}


def _title(answer: str, edits: Edits) -> str:
    """The answer's own description of the change, else its first sentence, else the files."""
    if title := _labelled(answer).get("change"):
        return title[:LONGEST_TITLE]
    first = next((line.strip() for line in answer.splitlines() if line.strip()), "")
    paths = [edit.path for edit in edits]
    is_path = any(path in first for path in paths) and " " not in first
    if not first or is_path or first.startswith(("<", "```", "~~~", "#", "---", "FUNCTION")):
        return f"changes {', '.join(paths)}"
    return first.lstrip("*-> ")[:LONGEST_TITLE]
