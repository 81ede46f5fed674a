"""Traverses the steps of one leg of a job, as the runner of GitHub Actions would, up to the one that fails.

The same traversal reads steps (what they print or export is then unknown) and runs them: it is a generator that asks its caller
(`replay`) to run one step after the other. It never waits itself, but reading a step can take seconds if the files are hostile.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from agent.ci.expressions import ExpressionError, Unknown, condition
from agent.ci.expressions.values import Files
from agent.ci.job.lacks import Lack, lack_of, lacks_network
from agent.ci.job.leg import (
    End,
    Leg,
    NoCheck,
    Performed,
    ReportedSteps,
    RunRequest,
    RunRequired,
    Target,
    TraversalResult,
    match_steps,
)
from agent.ci.job.recorder import CheckStep, StepRecorder
from agent.ci.job.refusals import (
    JobRefused,
    Unavailable,
    condition_unknown,
    invalid_workflow,
    needs_services,
    out_of_time,
    quote_missing,
    step_lacks,
    step_unavailable,
)
from agent.ci.job.renderer import Renderer, RunNeeded, StepFrame, unknown_outputs
from agent.ci.job.steps import CompositeStep, CurrentStep, InstallStep, RunStep, SetupStep, StepMeaning, StepReader
from agent.ci.project.commands import ends_with_findings, names_tests, only_looks
from agent.ci.project.detection import Project
from agent.ci.workflows.model import WorkflowStep
from agent.contract.verdicts import Check, CheckRun, Verdict
from agent.report.endings import Ending, stopped_before

Stop = CheckStep | Ending | NoCheck  # the failing step, why it cannot be reached, or no check at all
T = TypeVar("T")
# Each request is answered by the run; None asks for answers to the project's open questions.
Running: TypeAlias = Generator[RunRequest | None, Performed | None, T]


def read_steps(leg: Leg, project: Project, files: Files, *, until: float = math.inf) -> TraversalResult:
    """What the steps show without being run. Never raises because of the files' content.

    After `until` (of `time.monotonic()`) no further step starts, and the traversal ends.
    """
    result = advance(traverse(leg, project, files, runs=False, until=until))
    assert isinstance(result, TraversalResult)  # it asks for no run
    return result


def advance(traversal: Running[TraversalResult], performed: Performed | None = None) -> RunRequest | TraversalResult | None:
    """The next request of a traversal, given the answer to the previous one; or its result."""
    try:
        return traversal.send(performed)
    except StopIteration as ended:
        result: TraversalResult = ended.value
        return result


def traverse(leg: Leg, project: Project, files: Files, *, runs: bool, until: float) -> Running[TraversalResult]:
    traversal = _Traversal(project, Renderer(leg, files, runs=runs), until)
    try:
        stop = yield from traversal.job()
    except ExpressionError as error:
        stop = invalid_workflow(f"{leg.source}: {error}")
    except JobRefused as refused:
        stop = refused.ending
    return traversal.result(stop)


class _Traversal:
    """Its methods return why the traversal stops, or None to continue."""

    def __init__(self, project: Project, renderer: Renderer, until: float) -> None:
        self.leg, self.renderer, self.runs, self.until = renderer.leg, renderer, renderer.runs, until
        self.reader = StepReader(project, renderer)
        self.recorder = StepRecorder(renderer.leg)
        self.reported, self.target = ReportedSteps(), Target.RED
        self.asks = ""  # what only a run can show; reading goes on for the packages that later steps install
        self.missed: Ending | None = None  # why a step that could be the failing one was left out
        self.doubts: dict[str, str] = {}  # number of a step → the unknown value that decides whether it runs
        self.is_first = True  # nothing has run yet
        # The first step of a linter that fails. What it finds can be a trace of what later tests show, such as a variable that
        # nobody reads any more, so these run first.
        self.finding: tuple[CheckStep, CurrentStep] | None = None
        self.together = False  # steps depend on state outside the workspace, so each runs together with the earlier ones

    def result(self, stop: Stop) -> TraversalResult:
        """If a run is needed, that takes precedence over what was found by reading on without it."""
        return self.recorder.result(RunRequired(self.asks) if self.asks else self._end(stop), self.renderer.notes)

    def job(self) -> Running[Stop]:
        try:
            frame = self.renderer.job_frame()
        except Unavailable as needs:
            return step_unavailable("defaults.run", needs.what)
        self.reported = match_steps(self.leg, lambda template: self.renderer.render_known(template, frame))
        if self.reported.failing is not None:
            self.target = Target.NAMED
        self.recorder.notes += [self.reported.note] if self.reported.note else []
        stop = yield from self._steps(self.leg.job.steps, frame)
        if stop is not None:
            return stop
        if not self.runs and self.target is not Target.NAMED and self.recorder.tried:
            self.asks = "which step fails"
        return self._stop_without_failure(self.recorder.tried)

    def _steps(self, steps: Sequence[WorkflowStep], frame: StepFrame) -> Running[Stop | None]:
        for step in steps:
            if time.monotonic() > self.until:
                return self._out_of_time()
            try:
                stop = yield from self._step(step, frame)
            except RunNeeded as asks:
                self._need_run(asks.what)
                continue
            if stop is not None:
                return stop
        return None

    def _step(self, step: WorkflowStep, outer: StepFrame) -> Running[Stop | None]:
        number = f"{outer.prefix}{step.number}"
        is_target = self.target is Target.NAMED and number == str(self.reported.failing)
        frame, needs, without = outer, None, dict[str, str]()
        try:
            own, without = self.renderer.step_env(step, outer, is_target=is_target)
            frame = replace(outer, own=own)
        except Unavailable as stands:
            needs = stands  # matters only if the step runs
        current = CurrentStep(step, frame, number, self.renderer.title(step, frame), is_target, without)
        if not is_target and not self._is_run(current):
            self.recorder.record(current, "skipped", "its condition is false")
            frame.conclude(step, {}, "skipped")
            return None
        try:
            if needs is not None:
                raise needs
            meaning = self.reader.read(current, self.recorder.packages.python)
            while self.runs and self.reader.project.answers.open:
                yield None
                meaning = self.reader.read(current, self.recorder.packages.python)
        except Unavailable as stands:
            return self._leave_out(current, stands)
        return (yield from self._apply(meaning, current))

    def _is_run(self, current: CurrentStep) -> bool:
        said = None if current.frame.prefix else self.reported.runs(current.step.number)
        if said is not None:
            return said
        holds = condition(current.step.condition, self.renderer.scope(current.frame))
        if not isinstance(holds, Unknown):
            return holds
        try:
            self.renderer.require_known(holds.what)
            self.doubts[current.number] = holds.what
            self.recorder.notes.append(
                f"whether `{current.title}` runs depends on `{holds.what}`, which is unknown here, so it is run"
            )
        except RunNeeded as asks:
            self._need_run(asks.what)
        return True

    def _apply(self, meaning: StepMeaning, current: CurrentStep) -> Running[Stop | None]:
        match meaning:
            case SetupStep():
                self.recorder.add(meaning.additions)
                self.recorder.record(current, meaning.does, meaning.why)
                current.frame.conclude(current.step, dict(meaning.outputs))
            case InstallStep():
                self.recorder.add(meaning.additions)
                self.recorder.record(current, "installs", meaning.text.strip())
                if current.is_target:
                    note = f"{self.leg.source}: the failing step only installs packages; the job's tests run instead"
                    self.recorder.notes.append(note)
                    self.target = Target.TESTS
                current.frame.conclude(current.step, {})
            case CompositeStep():
                return (yield from self._run_composite(meaning, current))
            case RunStep():
                self.recorder.add(meaning.additions)
                return (yield from self._check(meaning, current))
        return None

    def _run_composite(self, opens: CompositeStep, current: CurrentStep) -> Running[Stop | None]:
        """Traverse the steps of an action of the repository."""
        before = len(self.recorder.tried)
        if current.is_target:
            self.target = Target.WITHIN
        self.recorder.record(current, "runs", f"the steps of {opens.folder}")
        stop = yield from self._steps(opens.action.steps, opens.frame)
        if stop is not None:
            return stop
        if current.is_target and self.runs:
            return self._stop_without_failure(self.recorder.tried[before:])
        if current.is_target:
            self._need_run("which step of the action fails")
            return None
        outputs = {name: self.renderer.render_known(text, opens.frame) for name, text in opens.action.outputs.items()}
        current.frame.conclude(current.step, outputs)
        return None

    def _check(self, runs: RunStep, current: CurrentStep) -> Running[Stop | None]:
        """A step with a check: stop at the failing one, run it, or assume that it passes."""
        tried = CheckStep(runs.check, runs.tool, current.number, python=self.recorder.packages.python)
        if current.is_target or (self.target is Target.TESTS and runs.check.runs_tests):
            return self._fails(tried, current)
        tried = replace(tried, may_fail=self.renderer.may_fail(current.step, current.frame))
        if not self.runs:
            self.renderer.assume_passed(current.step, runs.text, current.frame, may_fail=tried.may_fail)
        else:
            done = yield from self._perform(tried, current)
            if done.run.ending == "timeout" and time.monotonic() > self.until:
                return self._out_of_time()
            is_ignored = done.is_red and tried.may_fail
            if not is_ignored:
                tried = replace(tried, seen=done.run)
            if done.is_red and not is_ignored:
                if (doubt := self._open_condition(current)) is not None:
                    self._leave_out_uncertain(current, doubt)
                    return None
                earlier, is_red = self.recorder.steps.values(), self.leg.is_red
                if self.target.is_any_red and (lack := lack_of(runs, done.run, current, earlier, is_red=is_red)):
                    self._leave_out_lacking(current, lack)
                    return None
                if not self.target.is_any_red:
                    return stopped_before(replace(done.run, stopped_at=done.run.stopped_at or current.title))
                if is_red or not _is_finding(tried.check, done.run):
                    return self._fails_first(tried, current)
                self.finding = self.finding or (tried, current)
                tried = replace(tried, may_fail=True)  # for the later steps that it runs before
            self.renderer.exported |= done.env
            current.frame.conclude(current.step, done.outputs, outcome="failure" if is_ignored else "success")
        self.recorder.record(current, "runs", runs.check.command)
        self.recorder.tried.append(tried)
        return None

    def _perform(self, tried: CheckStep, current: CurrentStep) -> Running[Performed]:
        """Run the step alone, which is quick. A failure counts only if the step also fails together with the earlier ones."""
        if not self.together:
            check = replace(tried.check, env={**self.renderer.exported, **tried.check.env})
            was_first, self.is_first = self.is_first, False
            done = yield RunRequest(check, is_fresh=False)
            assert done is not None
            if (
                not done.is_red
                or tried.may_fail
                or was_first
                or (self.target.is_any_red and lacks_network(tried.check, done.run))
            ):
                return done
        done = yield RunRequest(self.recorder.joined(tried), is_fresh=True)
        assert done is not None
        if not self.together and not done.is_red:
            self.together = True
            self.recorder.notes.append(
                f"step {current.number}, `{current.title}`, needs what earlier steps leave outside the repository: "
                "from this step on, each run repeated all steps before it"
            )
        return done

    def _open_condition(self, current: CurrentStep) -> str | None:
        """The unknown value that decides whether the step, or the action around it, runs."""
        parts = current.number.split(".")
        return next((found for end in range(len(parts)) if (found := self.doubts.get(".".join(parts[: end + 1])))), None)

    def _leave_out_uncertain(self, current: CurrentStep, doubt: str) -> None:
        """A failing step that CI may not have run is not CI's failure."""
        self.missed = self.missed or condition_unknown(current.title, doubt)
        self.recorder.record(current, "left out", f"it fails here, but whether CI runs it depends on `{doubt}`")
        self.recorder.notes.append(
            f"step {current.number}, `{current.title}`, fails here but is left out: whether CI runs it depends on `{doubt}`"
        )
        current.frame.conclude(current.step, unknown_outputs(current.step))

    def _leave_out_lacking(self, current: CurrentStep, lack: Lack) -> None:
        self.missed = self.missed or (
            step_unavailable(current.title, lack.secret)
            if lack.secret
            else step_lacks(current.title, lack.what, is_program=bool(lack.program))
        )
        self.recorder.absent_program = self.recorder.absent_program or lack.program
        self.recorder.record(current, "left out", f"it fails here without {lack.what}")
        self.recorder.notes.append(
            f"step {current.number}, `{current.title}`, fails here without {lack.what}, so it is left out"
        )
        current.frame.conclude(current.step, unknown_outputs(current.step))

    def _fails_first(self, tried: CheckStep, current: CurrentStep) -> Stop:
        """The failing step, or the linter's that failed before it, unless tests fail in this one.

        Tests that cannot even start may need what a script would have made after its linter.
        """
        if self.finding is None:
            return self._fails(tried, current)
        linter, before = self.finding
        has_failed = tried.seen is not None and Verdict.FAILED in tried.seen.verdicts.values()
        if not tried.check.runs_tests or (linter.check.reader == "exit" and not has_failed):
            return self._fails(linter, before)
        self.recorder.notes.append(f"step {before.number}, `{before.title}`, fails too, but the tests are repaired first")
        return self._fails(tried, current)

    def _fails(self, tried: CheckStep, current: CurrentStep) -> Stop:
        stop = self._require_services(tried)
        if stop is tried:
            self.recorder.record(current, "fails", tried.check.command)
        return stop

    def _stop_without_failure(self, tried: Sequence[CheckStep]) -> Stop:
        """Nothing but a linter failed: else take the first step with tests. If CI reports a failure, a step that was left out
        may show it."""
        if self.finding is not None:
            return self._fails(*self.finding)
        tests = next((one for one in tried if one.check.runs_tests or names_tests(one.check.command)), None)
        if self.missed is not None and (self.leg.is_red or tests is None):
            return self.missed
        return self._require_services(tests or tried[-1]) if tried else NoCheck()

    def _require_services(self, tried: CheckStep) -> Stop:
        """The step, or why the servers that it may need are not available."""
        if tried.check.reader != "findings":
            if self.leg.needs:
                return step_unavailable(self.leg.job.id, self.leg.needs, "service of the job")
            if self.leg.wanted.refusals:
                return needs_services(self.leg.wanted.sentence)
        return tried

    def _leave_out(self, current: CurrentStep, needs: Unavailable) -> Stop | None:
        """End the traversal if CI reports that this step failed; otherwise leave the step out."""
        self.recorder.notes += [needs.note] if needs.note else []
        ending = step_unavailable(current.title, needs.what)
        if current.is_target:
            return ending
        if self.target.is_any_red:
            self.missed = self.missed or ending
        self.recorder.record(current, "left out", f"it needs {quote_missing(needs.what)}")
        self.recorder.notes.append(
            f"step {current.number}, `{current.title}`, is left out: it needs {quote_missing(needs.what)}"
        )
        current.frame.conclude(current.step, unknown_outputs(current.step))
        return None

    def _end(self, stop: Stop) -> End:
        return self.recorder.found(stop) if isinstance(stop, CheckStep) else stop

    def _out_of_time(self) -> Stop:
        if self.finding is not None:
            return self._fails(*self.finding)
        return out_of_time(self.leg.source, len(self.recorder.steps), ran=self.runs)

    def _need_run(self, what: str) -> None:
        self.asks = self.asks or what  # the first need is the first one that a run reaches


def _is_finding(check: Check, run: CheckRun) -> bool:
    """Whether a failing step only reports what linters found, so that the later steps run as well without it."""
    if check.reader == "findings":
        return only_looks(check.command)
    return check.reader == "exit" and not names_tests(check.command) and ends_with_findings(run.output)
