"""The first answers: a rung that writes the missing code, instead of repairing code that is there.

N candidates are written independently (best of N); the checks and the gate judge them like every other change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent.contract.budget import Usage
from agent.contract.events import Degraded, Emit
from agent.contract.proposal import Candidate, Edits, FileChange
from agent.contract.words import capitalized, uncapitalized
from agent.edits.changes import EditProblem
from agent.models.router import Models
from agent.models.values import ModelError, Prompt, Truncated
from agent.prompts import render
from agent.proposer import Proposal, Situation
from agent.proposers.model import DIRECT
from agent.solving import code
from agent.solving.draft import Draft, head_of, main_of, packaged, without_model
from agent.solving.options import Decode
from agent.solving.specification import Specification, is_said

_ONE_FUNCTION = "The code must define one function whose name has no leading underscore"


@dataclass(frozen=True, slots=True)
class Writing:
    """How first answers are written."""

    candidates: int
    decode: Decode  # of the first candidate; further ones are always samples
    temperature: float  # of samples
    hint: str = ""  # of the user, for this try
    again: bool = False  # a blind retry: the model is told that earlier answers were wrong, but not how


@dataclass
class Writer:
    """Proposes each answer once. `written` are the answers of this process, by their titles."""

    models: Models
    spec: Specification
    draft: Draft
    writing: Writing
    written: dict[str, Edits] = field(default_factory=dict)
    problem: str = ""  # why the last answer was unusable, or did not come
    notes: list[str] = field(default_factory=list)  # what is to be said of usable answers, in sentences
    names: bool = False  # the first answer chooses the function's name
    known: code.Files = field(default_factory=dict)  # that first answer

    @property
    def rung(self) -> str:
        return f"model:{self.models.name}"

    def can_help(self, situation: Situation) -> str | None:
        return None if situation.round == 1 else "each first answer was judged"

    def strategies(self, situation: Situation) -> tuple[str, ...]:
        return (DIRECT, *(f"{DIRECT}:{number}" for number in range(2, self.writing.candidates + 1)))

    async def propose(self, situation: Situation) -> Proposal:
        """Raises `ModelError`."""
        number = _number(situation)
        files: code.Files | EditProblem
        if self.knows(situation):
            files, usage = self._finished(self.known), Usage()
        else:
            files, usage = await self._answer(number, situation.seconds, situation.emit)
        if isinstance(files, EditProblem):
            self.problem = code.for_people(files.sentence)
            return Proposal(usage=usage, note=f"no usable answer: {files.sentence}")
        edits, title = edits_of(self.draft.files, files), self._title(number)
        self.written[title] = edits
        return Proposal((Candidate(self.rung, edits, title),), tried=1, usage=usage)

    def knows(self, situation: Situation) -> bool:
        """Is the answer there already, so that no model is asked?"""
        return _number(situation) == 1 and bool(self.known)

    async def name_it(self, seconds: float, emit: Emit) -> Draft:
        """Writes the first answer already, because nothing but it names the function, or the files of a package.

        Raises `ModelError`; if no answer can be used, it is no outage.
        """
        files, usage = await self._answer(1, seconds, emit)
        if isinstance(files, EditProblem):
            way = "Say more in the specification, give examples, or use a stronger model"
            if files.sentence.startswith(_ONE_FUNCTION):
                way = "Name the function (`--fn`, or `name` over HTTP)"
            raise ModelError(f"the model's answers could not be used. {code.for_people(files.sentence)} {way}", usage)
        path = self.draft.path
        self.known, self.names = files, False
        if path in files:
            (name,) = code.public(files[path])
            self.draft = without_model(replace(self.spec, name=name, signature=head_of(files[path], name)))
        else:
            self.draft = packaged(files, self.spec)
        return self.draft

    def _title(self, number: int) -> str:
        return f"answer {number}" if self.writing.candidates > 1 else "the first answer"

    async def _answer(self, number: int, seconds: float, emit: Emit) -> tuple[code.Files | EditProblem, Usage]:
        """An answer, with one more try if it is unusable. Raises `ModelError`."""
        is_sample = self.writing.decode == "sample" or number > 1
        temperature = self.writing.temperature if is_sample else 0.0
        first = asked = self._prompt()
        usage = Usage()
        files: dict[str, str] | EditProblem = EditProblem("")
        for _ in range(2):
            try:
                answer = await self.models.ask(asked, seconds=seconds * 0.5, emit=emit, temperature=temperature)
            except Truncated as error:
                usage += error.usage
                files = EditProblem("Your answer was cut off: it was too long.")
                said, how = "(an answer that was too long)", "Write shorter code, without comments."
            except ModelError as error:
                error.usage = usage + error.usage
                self.problem = f"{capitalized(str(error)).rstrip('.')}."
                raise
            else:
                usage += answer.usage
                files = await asyncio.to_thread(self._files, answer.text)
                if not isinstance(files, EditProblem):
                    if name := code.defined_twice(answer.text, self.draft.path, self.draft.name):
                        twice = (
                            f"{capitalized(self._title(number))} defines `{name}` in different ways; the last one was taken."
                        )
                        self.notes.append(twice)
                    break
                said, how = answer.text[:20_000] or "(nothing)", "Write the whole file again."
                if code.is_open(answer.text):
                    files, how = code.CUT, "Write shorter code, without comments."
            if asked is first:
                why = uncapitalized(code.for_people(files.sentence, "It"))
                text = f"The model is asked once more, as its answer could not be used: {why}"
                await emit(Degraded(text=text, step="write", why=why))
            asked = first.then(said, f"{files.sentence} {how}")
        return files, usage

    def _prompt(self) -> Prompt:
        stub = "\n".join(self.draft.files.values())
        return render(
            "write",
            specification="" if is_said(self.spec.text, stub) else self.spec.text,
            files=tuple(self.draft.files.items()),
            tests=self.spec.tests,
            hint=self.writing.hint,
            again=self.writing.again,
            names=self.names,
        )

    def _files(self, answer: str) -> dict[str, str] | EditProblem:
        """The files of an answer, complete and with what it leaves out of the stub's imports."""
        found = code.files_in(answer, self.draft.path)
        return found if isinstance(found, EditProblem) else self._finished(found)

    def _finished(self, found: code.Files) -> dict[str, str] | EditProblem:
        if self.names and len(found) == 1:  # wherever the model puts it
            found = dict.fromkeys(self.draft.files, *found.values())
        found = {path: code.completed(text, self.draft.files.get(path, "")) for path, text in found.items()}
        if self.names and not self.spec.tests and self.draft.path not in found:  # a package; tests would import this path
            return code.problem_in(found, main_of(found, self.spec, self.draft.path), "", "") or found
        if (problem := code.problem_in(found, self.draft.path, self.draft.name, self.draft.signature)) is not None:
            return problem
        if self.names and len(several := code.public(found[self.draft.path])) != 1:
            what = f"{len(several)}: {', '.join(several[:5])}" if several else "none"
            return EditProblem(f"{_ONE_FUNCTION}; it defines {what}.")
        found[self.draft.path] = code.signed(found[self.draft.path], self.draft.name, self.draft.signature)
        missing = [path for path in self.draft.files if path not in found]
        return EditProblem(f"Your answer has no file {missing[0]}.") if missing else found


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """Proposes one answer that is known already, so that it is judged by other tests than before."""

    rung: str
    edits: Edits
    title: str
    problem: str = ""

    notes: tuple[str, ...] = ()

    @property
    def written(self) -> Mapping[str, Edits]:
        return {self.title: self.edits}

    def can_help(self, situation: Situation) -> str | None:
        return None if situation.round == 1 else "it was judged"

    def strategies(self, situation: Situation) -> tuple[str, ...]:
        return (DIRECT,)

    async def propose(self, situation: Situation) -> Proposal:
        return Proposal((Candidate(self.rung, self.edits, self.title),), tried=1)


def _number(situation: Situation) -> int:
    """Of the answer that is wanted, from 1."""
    return int(situation.strategy.partition(":")[2] or 1)


def edits_of(before: code.Files, after: code.Files) -> Edits:
    """The change from the files to others; files that `after` lacks stay."""
    return tuple(FileChange(path, before.get(path), text) for path, text in sorted(after.items()) if before.get(path) != text)
