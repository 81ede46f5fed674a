"""One run of `solve`: the answers, the phases of the graph that judge and repair them, and the budget over all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from agent.case import Case
from agent.challenge.generated_tests import Brief, ask, read_tests
from agent.ci.project.configuration import Configuration, Install, TestCommand
from agent.contract import words
from agent.contract.blobs import MemoryBlobs
from agent.contract.budget import Meter
from agent.contract.events import AnyEvent, Degraded, Emit, Guarded, Proposed, Reflected, StepDone, StepStarted, Verified
from agent.contract.outcome import ConfirmedFailure, Iteration, NoRepair, Outcome, Repair
from agent.contract.proposal import Candidate, Edits
from agent.contract.question import Waiting
from agent.contract.verdicts import Check, CheckRun, Failure, Oracle, VerdictId
from agent.engine import Engine
from agent.gate.confidence import ASKED
from agent.guard.rules import refusal
from agent.models.router import Models
from agent.models.values import Misconfigured, ModelError
from agent.prompts import render
from agent.proposer import Proposer
from agent.proposers.ladder import built_in_ladder
from agent.proposers.model import ModelProposer, model_rungs
from agent.report.endings import MORE_TIME
from agent.solving import contract, dispute, failures
from agent.solving.code import Files, reaches, together, unasked
from agent.solving.draft import Draft, without_example
from agent.solving.output import formed
from agent.solving.rungs import Counted, Signed
from agent.solving.solution import Keep, Options, Progress, Solution
from agent.solving.specification import Example, Specification, is_said
from agent.solving.writer import KnownAnswer, Writer, Writing, edits_of
from agent.source.archive import File, packed

TESTS_SECONDS = 15.0  # one run of all tests; code may never return
CONFIGURATION = Configuration(
    test=(TestCommand(run="python -m pytest -q", kind="pytest", timeout=TESTS_SECONDS),),
    install=Install(requirements=("pytest",)),
)
HUNG_SHARE = 1 / 3  # of those seconds, in which a run shows again what hung
MOST_LINES = 2_000  # that an answer may have
HEAD_START = 2.0  # seconds of search for a small slip in an answer, before the model is asked again
UNTESTED, NO_IDEA = "there is no example and no test, so only the syntax was checked", 0.5
UNCOUNTED = 3  # rounds of the graph in which no model is asked: an answer that is known, a search, and its result
ALLOW_MORE = (
    "Allow more with --iters, --budget, --max-tokens or --max-cost, give more examples, or use a stronger model with --model."
)
_REACH_IT = "Check that its server runs, and its address and key (`selfheal doctor` asks it), or name another one with --model."


def reach(models: Models | None) -> str:
    """The next step if a model could not be asked; a script has said itself what it lacks."""
    return "" if models is None or all(each.is_scripted for each in models.all_settings) else _REACH_IT


@dataclass
class Run:
    """One specification on its way."""

    spec: Specification
    engine: Engine
    models: Models
    emit: Emit
    options: Options
    keep: Keep
    id: str
    draft: Draft
    meter: Meter
    tests: dict[str, str] = field(default_factory=dict)
    # In which a model was asked for code, by phase and iteration; each as it is shown if its answer could not be used.
    rounds: dict[tuple[int, int], Iteration] = field(default_factory=dict)
    iterations: list[Iteration] = field(default_factory=list)
    bases: list[Files] = field(default_factory=list)
    hint: str = ""
    lessons: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    failing: tuple[str, ...] = ()
    ids: frozenset[VerdictId] = frozenset()  # of the tests that ran when the failures were confirmed last
    first: Files = field(default_factory=dict)
    is_refused: bool = False  # a rule refuses the best first answer
    hung: str = ""  # how that answer hung, with the id of the test
    phases: int = 0
    drafted: dict[str, Example] = field(default_factory=dict)  # examples that are only claims, by the paths of their tests
    is_contradictory: bool = False  # the model finds that the user's tests contradict the words
    wrong_examples: list[Example] = field(default_factory=list)
    ran: Files = field(default_factory=dict)  # the files and tests whose failures were confirmed last
    writer: Writer | None = None  # which has written the first answer already, as that names the function
    seen: tuple[CheckRun, ...] = ()  # how they ran: a hanging answer need not hang again before it is repaired

    async def to_the_end(self, answer: Files | None = None) -> Solution:
        """An `answer` of an earlier run is judged and repaired in place of a first one."""
        writer: Writer | KnownAnswer = self.writer or Writer(self.models, self.spec, self.draft, self._writing())
        if answer is not None and (edits := edits_of(self.draft.files, answer)):  # none: its round had no usable answer
            writer = KnownAnswer(f"model:{self.models.name}", edits, "the earlier answer")
        found, best = await self._first_answers(writer)
        first_passed = isinstance(found, Repair)
        if not first_passed and best:
            found, best = await self._repaired(best, found)
        if self.options.retry and self._is_retried(found):
            await self._say("retry", "Writing it once more from the beginning")
            again = Writer(self.models, self.spec, self.draft, replace(self._writing(), again=True, decode="sample"))
            other, rest = await self._first_answers(again)
            if isinstance(other, Repair) and not (isinstance(found, Repair) and found.confidence >= other.confidence):
                found, best, first_passed = other, rest, False
        if isinstance(found, Repair) and self.options.adversarial:
            found, best = await self._attacked(found, best)
        return self._solution(found, best, first_passed=first_passed, problem=writer.problem)

    async def write_blind_tests(self) -> None:
        """Adds the tests that a model writes before there is any code. Raises `Misconfigured`."""
        started = time.monotonic()
        await self.emit(StepStarted(step="blind_tests", text="Writing tests from the specification"))
        name = self.draft.name or contract.module_of(self.draft.path)
        known = "\n\n".join(text for path, text in self.tests.items() if path in contract.CONTRACTS)
        example = f"from {contract.module_of(self.draft.path)} import {self.draft.name}" if self.draft.name else ""
        brief = Brief((name,), self._words(), known or f"{example}\n")
        try:
            written, _ = await ask(self.models, brief, seconds=dispute.SECONDS, emit=self.emit)
        except ModelError as error:
            if isinstance(error, Misconfigured) and not self.models.name.startswith("scripted:"):  # a file may lack a role
                raise  # it would not write code either
            await self._degraded("blind_tests", f"No tests were written from the specification: {error}")
            return
        self.tests |= {contract.BLIND.format(at): test for at, test in enumerate(written, 1)}
        text = f"{words.counted(len(written), 'test')} written from the specification, before any code"
        await self.emit(StepDone(step="blind_tests", text=text, seconds=time.monotonic() - started))

    def _writing(self) -> Writing:
        chosen = self.options
        return Writing(chosen.candidates, chosen.decode, chosen.temperature, self.hint)

    def with_some_test(self) -> None:
        """Without any example or test, only that the code can be imported is checked."""
        if not self.tests:
            self.tests = {contract.EXAMPLES: contract.is_written(self.draft)}
            self.doubts.append(UNTESTED)

    def _is_retried(self, found: Repair | NoRepair) -> bool:
        if self._bound() is not None:
            return False
        return found.confidence <= ASKED if isinstance(found, Repair) else found.outcome is Outcome.GAVE_UP

    async def _first_answers(self, writer: Writer | KnownAnswer) -> tuple[Repair | NoRepair, Files]:
        """Written, judged, and the files of the best: the accepted one, else the one that fails least."""
        left: dict[str, int] = {}
        hung: dict[str, str] = {}
        refused: set[str] = set()

        async def emit(event: AnyEvent) -> None:
            if isinstance(event, Verified) and not event.passed:
                left[event.title] = len(event.still_red) + len(event.newly_red) or 1_000
                hung[event.title] = event.text if words.HUNG in event.text else ""
            elif isinstance(event, Guarded):
                refused.add(event.title)
            await self.emit(event)

        found = await self._phase(self.draft.files, (writer,), emit)
        self.notes += writer.notes
        if not self.first and writer.written:
            self.first = _with(self.draft.files, next(iter(writer.written.values())))
        if isinstance(found, Repair):
            return found, _with(self.draft.files, found.edits)
        if not writer.written:
            return found, {}
        title = min(writer.written, key=lambda title: left.get(title, 2_000))
        self.hung = hung.get(title, "")
        written = {one for one in refused if one in writer.written}
        self.is_refused = any(writer.written[one] == writer.written[title] for one in written)  # equal ones are judged once
        return found, _with(self.draft.files, writer.written[title])

    async def _repaired(self, files: Files, before: Repair | NoRepair) -> tuple[Repair | NoRepair, Files]:
        """Repair an answer whose tests fail, after the tests were judged that may be wrong themselves."""
        failing = None if self.is_refused else await self._confirmed(files)
        if failing:
            failing = await self._settled(failing, files)
            files = self._cleared(files)
        if failing == []:  # the tests were wrong, or a second opinion objected: then the model is told why
            return await self._from_the_draft(files)
        self.failing = self._lines(failing or [], files)
        if self._bound() is not None:
            return before, files
        if failing is None:  # a rule refuses it, or it stops the tests: no base for a repair
            return await self._from_the_draft(files)
        ladder = model_rungs(self.models) if self.is_contradictory else built_in_ladder(self.models)
        return await self._accepted(await self._phase(files, ladder, self.emit), files)

    async def _accepted(self, found: Repair | NoRepair, files: Files) -> tuple[Repair | NoRepair, Files]:
        """Accepts a repair of these files, unless a rule refuses all of the code: the last step may be its smallest part."""
        if not isinstance(found, Repair):
            return found, files
        self.failing, files = (), _with(files, found.edits)
        check = Check("tests", CONFIGURATION.test[0].run, "pytest")
        # Seen from the draft, every test fails: which of them there are makes no difference to the rules.
        oracle = Oracle((check,), {check.name: frozenset({VerdictId("every test")})}, {check.name: frozenset()})
        whole = Candidate(f"model:{self.models.name}", edits_of(self.draft.files, files), "the whole answer")
        refused = await asyncio.to_thread(refusal, whole, self._engine().policy, oracle, "\n".join(self.tests.values()))
        if refused is None:
            return found, files
        self.notes.append(f"The repaired answer was refused as a whole: {refused.sentence}")
        await self.emit(Guarded(text=self.notes[-1], title=whole.title, rule=refused.rule))
        return await self._from_the_draft(files)

    async def _from_the_draft(self, files: Files) -> tuple[Repair | NoRepair, Files]:
        """Judge these files as one change of the draft, and let a model that is told what is wrong write other ones."""
        known = KnownAnswer(f"model:{self.models.name}", edits_of(self.draft.files, files), "the earlier answer")
        found = await self._phase(self.draft.files, (known, *model_rungs(self.models)), self.emit)
        return found, _with(self.draft.files, found.edits) if isinstance(found, Repair) else files

    async def _attacked(self, found: Repair, files: Files) -> tuple[Repair | NoRepair, Files]:
        """Tests that try to break the accepted code. If one does and is right, the code is repaired, or it is not solved."""
        text = together(files)
        if (bound := self._bound()) is not None:
            await self._degraded("attack", f"No adversarial tests were written: {bound}")
            return found, files
        await self._say("attack", "Writing tests that try to break the code")
        specification = "" if is_said(self.spec.text, text) else self._words()
        prompt = render("attack", specification=specification, code=text, module=contract.module_of(self.draft.path))
        try:
            answer = await self.models.ask(prompt, seconds=dispute.SECONDS, emit=self.emit)
        except ModelError as error:
            await self._degraded("attack", f"No adversarial tests were written: {error}")
            return found, files
        written = read_tests(answer.text)
        known = self.tests
        self.tests = known | {contract.ADVERSARIAL.format(at): test for at, test in enumerate(written, 1)}
        if not written:
            return found, files
        self.hung = ""
        failing = await self._confirmed(files)
        if failing is None:
            self.tests = known
            await self._degraded(
                "attack", f"The adversarial tests were not run to the end: {self._bound() or 'they cannot start'}"
            )
        if failing:
            failing = await self._settled(failing, files)
            files = self._cleared(files)
        if not failing:
            return found, files
        self.failing = self._lines(failing, files)
        return await self._accepted(await self._phase(files, built_in_ladder(self.models), self.emit), files)

    async def _settled(self, failing: list[Failure], files: Files) -> list[Failure]:
        """The failures that count. Tests that the specification does not support are dropped, unless the user gave them."""
        failed = {path: each for each in failing if (path := _file(each.id)) in self.tests}
        said = dict(zip(failed, self._lines(list(failed.values()), files), strict=True))
        disputed = [dispute.Dispute(path, self.tests[path], result) for path, result in said.items()]
        if not disputed:
            return failing
        await self._say("dispute", f"Asking who is right about {words.counted(len(disputed), 'test')}: the code or the test")
        try:
            decided = await dispute.decide(self._words(), disputed, self.models, self.emit)
        except ModelError as error:
            await self._degraded("dispute", f"Nobody decided about the failing tests: {error}")
            return failing
        for path, decision in decided.items():
            if decision.right == "test":
                continue
            if path in contract.CONTRACTS:  # never dropped, but code that is bent to fit it may be wrong
                self.is_contradictory = True
                self.doubts.append(f"the model doubts your test or example: {said[path]}. {decision.why}".rstrip(". "))
                continue
            if (example := self.drafted.get(path)) is not None:
                self.draft = replace(self.draft, files=without_example(self.draft.files, example))
                self.wrong_examples.append(example)
            stated = words.code(failures.assertion(self.tests.pop(path)), 120)
            how = "contradicts it" if decision.right == "code" else "leaves it open"
            self.notes.append(f"A test was dropped, because the specification {how}: {stated}. {decision.why}".strip())
            if decision.right == "open":
                self.doubts.append(f"the specification leaves open whether {stated}")
        self.with_some_test()
        return [each for each in failing if _file(each.id) in self.tests]

    def _lines(self, failing: Sequence[Failure], files: Files) -> tuple[str, ...]:
        code = {path: text for path, text in files.items() if path not in self.tests}
        return tuple(failures.line(each, self.tests.get(_file(each.id), ""), code) for each in failing)

    def _cleared(self, files: Files) -> Files:
        """The files without the examples that turned out to be wrong."""
        for example in self.wrong_examples:
            files = without_example(files, example)
        return files

    async def _confirmed(self, files: Files) -> list[Failure] | None:
        """The failures of these files; none if everything passes. None if that could not be found out in the time left.

        What hung when it was judged is not waited for as long again, if the same test hangs.
        """
        await self._say("confirm", "Running the tests on the best answer")
        for share in (HUNG_SHARE, 1) if self.hung else (1,):
            if self.meter.left().seconds <= 0:
                return None
            case = replace(self._case(files), configuration=_configuration(share))
            result = (await replace(self._engine(), budget=self.meter.left()).reproduce(case, emit=_silent)).result
            if self.meter.left().seconds <= 0:  # the end of the budget may have stopped a test
                return None
            if isinstance(result, ConfirmedFailure) and (share == 1 or any(f"`{id_}`" in self.hung for id_ in result.failing)):
                is_steady = {id_ for run in result.base for id_ in run.red} <= set(result.failing)  # nothing came and went
                self.ran, self.seen = {**files, **self.tests}, result.base if is_steady else ()
                self.ids = frozenset(id_ for run in result.base for id_ in run.verdicts)
                return [each for run in result.base for each in run.failures if each.id in result.failing]
        is_green = not isinstance(result, ConfirmedFailure) and result.outcome in (
            Outcome.NOTHING_FAILED,
            Outcome.NOT_REPRODUCED,
        )
        return [] if is_green else None

    async def _phase(self, files: Files, ladder: tuple[Proposer, ...], emit: Emit) -> Repair | NoRepair:
        """One run of the repair graph."""
        rungs = tuple(self._kept(each) for each in ladder)
        budget = replace(self.meter.left(), iterations=self._rounds_left() + UNCOUNTED)
        engine = replace(self._engine(), ladder=lambda _: rungs, budget=budget)
        judged: list[Iteration] = []
        proposed: dict[str, Proposed] = {}

        async def watch(event: AnyEvent) -> None:
            if isinstance(event, Proposed):
                proposed[event.title] = event
            elif isinstance(event, Reflected) and (failed := proposed.get(event.title)) is not None:
                judged.append(Iteration(failed.iteration, failed.rung, failed.title, failed.diff, event.result, event.advice))
                self.keep(self.progress(judged, files))
            await emit(event)

        found = await self._healed(engine, files, watch)
        self.lessons = found.log.lessons or self.lessons
        known = self.progress(found.log.iterations, files)
        self.iterations, self.bases = list(known.iterations), list(known.bases)
        self.keep(known)
        if isinstance(found, Repair):
            # A first answer that hung is told by its round, and the advice of that note is for repositories.
            self.notes += [note for note in found.log.notes if note not in self.notes and MORE_TIME not in note]
        elif found.log.outage:
            reason = f"{words.capitalized(found.log.outage).rstrip('.')}."
            return replace(
                found,
                outcome=Outcome.INFRASTRUCTURE,
                reason=reason,
                next_step=reach(engine.models),
            )
        return found

    def progress(self, judged: Sequence[Iteration] = (), files: Files = MappingProxyType({})) -> Progress:
        """With the iterations of a phase that started from these files, which are numbered from 1 there.

        Here, their numbers are those of the rounds in which a model was asked for code, which the budget bounds: what a search
        finds, or is judged again, is of the last such round. A fork begins with round 0, the earlier answer.
        """
        numbers = {each.number for each in judged}
        unusable = [
            replace(each, number=at)
            for (phase, at), each in self.rounds.items()
            if phase == self.phases and at not in numbers and each.result
        ]
        new = [
            replace(each, number=sum(asked <= (self.phases, each.number) for asked in self.rounds))
            for each in sorted((*judged, *unusable), key=lambda each: each.number)
        ]
        bases = (*self.bases, *[files] * len(new))
        return Progress(self.draft, dict(self.tests), (*self.iterations, *new), bases, self.lessons, self.meter.usage)

    def _kept(self, rung: Proposer) -> Proposer:
        """The rung with the signature kept, and a model's rounds counted."""
        if isinstance(rung, KnownAnswer):
            return rung
        if isinstance(rung, Writer | ModelProposer):
            return Counted(rung, self.draft, self._bound, self._asked)
        return Signed(rung, self.draft)

    def _asked(self, rung: str, iteration: int, why: str) -> None:
        self.rounds[self.phases, iteration] = Iteration(iteration, rung, "no usable answer", "", why)

    async def _healed(self, engine: Engine, files: Files, emit: Emit) -> Repair | NoRepair:
        """What the graph ends with, after `decide` answered its questions."""
        case, blobs, reply = self._case(files), MemoryBlobs(), None
        memory = self.options.lessons if self.options.memory else None
        while True:
            found = await engine.heal(case, blobs=blobs, emit=emit, memory=memory, reply=reply)
            if not isinstance(found, Waiting):
                return found
            asked, decide = time.monotonic(), self.options.decide
            assert decide is not None, "the options demand it"
            reply = await decide(found.question)
            self.meter.began += time.monotonic() - asked
            case = replace(case, archive=self._archive(files))  # the sandbox is opened again

    def _engine(self) -> Engine:
        policy = replace(
            self.engine.policy,
            rungs=("patterns", "model"),
            allow_evaluation=True,
            refuses=("special-case", "emptied", "weakened"),
            min_model_confidence=0.0,  # a model's answer is shown with its doubts; a mutation must be sure
            max_changed_lines=MOST_LINES,
            autonomy=self.options.autonomy,
            publishes=False,
            debugger=self.options.debugger,
            strategies=self.options.strategies,
            critic=self.options.critic,
            writes_tests=False,  # they were written before there was any code
            head_start=min(self.engine.policy.head_start, HEAD_START),
        )
        checkpointer = None
        if self.options.autonomy != "full":  # an answer resumes what waits for it
            from langgraph.checkpoint.memory import InMemorySaver

            checkpointer = InMemorySaver()
        return replace(self.engine, policy=policy, models=self.models, checkpointer=checkpointer)

    def _rounds_left(self) -> int:
        return max(0, self.meter.budget.iterations - len(self.rounds))

    def _bound(self) -> str | None:
        """Which bound of the whole budget is reached, as a clause; None if another round fits."""
        if self._rounds_left() == 0:
            most = self.meter.budget.iterations
            return f"all {most} rounds are used up" if most > 1 else "the only round is used up"
        ledger = self.meter.ledger()
        return ledger.spent_up() or ledger.model_spent_up()

    def _case(self, files: Files) -> Case:
        self.phases += 1
        return Case(
            f"{self.id}-{self.phases}",
            self.draft.name or "solve",
            self._archive(files),
            configuration=_configuration(),
            hints=(self.hint,) if self.hint else (),
            seen=self.seen if {**files, **self.tests} == self.ran else (),
        )

    def _archive(self, files: Files) -> AsyncIterator[bytes]:
        texts = {**files, **self.tests}
        return packed({path: File(text.encode("utf-8", "replace")) for path, text in texts.items()})

    def _words(self) -> str:
        """The specification as the test writers see it: the words, and the drafted files without code."""
        stub = together(self.draft.files)
        return stub if is_said(self.spec.text, stub) else f"{self.spec.text}\n\n{stub}"

    def _solution(self, found: Repair | NoRepair, files: Files, *, first_passed: bool, problem: str) -> Solution:
        ended = found if isinstance(found, NoRepair) else None
        is_own = ended is not None and ended.outcome not in (Outcome.INFRASTRUCTURE, Outcome.CANCELLED)
        if ended is not None and is_own and self._bound() is not None:
            ended = replace(ended, outcome=Outcome.OUT_OF_BUDGET)
        reason, next_step = "", ""
        if ended is not None:
            reason = self._why_not(ended, f"The model's answers could not be used. {problem}" if problem and not files else "")
            next_step = "Say more in the specification, give examples, or use a stronger model with --model."
            if ended.outcome is Outcome.OUT_OF_BUDGET:
                next_step = ALLOW_MORE
            elif ended.outcome is Outcome.INFRASTRUCTURE:
                next_step = ended.next_step
        confidence = found.confidence if isinstance(found, Repair) else None
        if confidence is not None and UNTESTED in self.doubts:
            confidence = min(confidence, NO_IDEA)
        if isinstance(found, Repair):
            self.doubts += reaches(files)
            asked = "\n".join((self.spec.text, self.spec.tests, *self.draft.files.values()))
            if more := unasked({path: self._formed(text) for path, text in files.items()}, asked):
                self.notes.append(f"The code defines {words.named(more)} too, which nothing asks for or calls.")
        doubts = (*(found.doubts if isinstance(found, Repair) else ()), *self.doubts)
        return Solution(
            solved=ended is None,
            name=self.draft.name,
            path=self.draft.path,
            files=dict(files),
            answer={path: self._formed(text) for path, text in files.items() if path not in self.tests},
            tests=dict(self.tests),
            draft=self.draft,
            first=dict(self.first),
            first_passed=first_passed,
            outcome=ended.outcome if ended is not None else Outcome.HEALED,
            reason=reason,
            next_step=next_step,
            outage=ended.log.outage if ended is not None else "",
            confidence=confidence,
            doubts=tuple(dict.fromkeys(doubts)),
            usage=self.meter.usage,
            iterations=tuple(self.iterations),
            bases=tuple(self.bases),
            lessons=self.lessons,
            notes=tuple(dict.fromkeys(self.notes)),
            failing=self.failing if ended is not None else (),
            seconds=round(self.meter.seconds, 3),
        )

    def _formed(self, text: str) -> str:
        return formed(text, self.draft.name, self.options.form, clean_doc=self.options.clean_doc)

    def _why_not(self, ended: NoRepair, unusable: str) -> str:
        """What is wrong with the last answer, and why it was the last."""
        if ended.outcome is Outcome.INFRASTRUCTURE:
            return ended.reason
        if unusable:
            return unusable
        last = next((each.result for each in reversed(self.iterations) if each.diff), "")
        if self.failing:
            count, all_ = len(self.failing), sum(_file(id_) in self.tests for id_ in self.ids)
            some = f"{count} of {words.counted(all_, 'test')}" if count < all_ else words.counted(count, "test")
            last = f"{some} {'fails' if count == 1 else 'fail, the first'}: {self.failing[0]}"
        bound = self._bound() if ended.outcome is Outcome.OUT_OF_BUDGET else None
        if not last:
            return f"There is no code: {bound}." if bound else ended.reason
        why = f"{words.capitalized(bound)}, and the" if bound else "The"
        return f"{why} best answer was not accepted: {last.rstrip('.')}."

    async def _say(self, step: str, text: str) -> None:
        await self.emit(StepStarted(step=step, text=text))

    async def _degraded(self, step: str, why: str) -> None:
        self.notes.append(why)
        await self.emit(Degraded(text=why, step=step, why=why))


def _with(files: Files, edits: Edits) -> Files:
    changed = {change.path: change.after for change in edits}
    return {path: text for path, text in {**files, **changed}.items() if text is not None}


def _file(id_: VerdictId) -> str:
    """The file of a test."""
    return id_.partition("::")[0]


def _configuration(share: float = 1) -> Configuration:
    """Of each run's time limit, this share."""
    test = [each.model_copy(update={"timeout": each.timeout * share}) for each in CONFIGURATION.test]
    return CONFIGURATION.model_copy(update={"test": tuple(test)})


async def _silent(_: AnyEvent) -> None:
    """The runs that only ask what fails are not shown."""
