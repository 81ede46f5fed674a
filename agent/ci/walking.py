"""Goes through the steps of one leg of a job, as the runner of GitHub Actions would, up to the one that fails.

What a step comes to here is decided in one place, for whoever only reads (no `perform`: what a step would print or export is
then not known) and for whoever runs each step on the way (`replay`). Starts nothing itself.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import replace

from agent.ci.expressions import ExpressionError, Unknown, condition
from agent.ci.expressions.scope import Files
from agent.ci.job.failing_step import Aim, Said, listen
from agent.ci.job.leg import Asked, End, Leg, Nothing, Perform, Performed, Walked
from agent.ci.job.renderer import Asks, Frame, Texts, unseen_outputs
from agent.ci.obstacles import Needs, Refused, in_doubt, in_the_way, invalid, named, needs_services, too_long
from agent.ci.project.detection import Project
from agent.ci.scripts import Scripts
from agent.ci.steps import Here, Installs, Meant, Opens, Prepares, Runs
from agent.ci.trail import Trail, Tried
from agent.ci.uses import Uses
from agent.ci.workflows.model import Step
from agent.report.endings import Ending, stopped_before

Stop = Tried | Ending | Nothing  # at the failing step, before it, or after all steps


async def walk(leg: Leg, project: Project, files: Files, perform: Perform | None = None, *, until: float = math.inf) -> Walked:
    """Never raises for what the files hold; `SandboxError` where `perform` does.

    After `until` (of `time.monotonic()`) no step is begun, and that is the ending.
    """
    walker = _Walker(project, Texts(leg, files, runs=perform is not None), perform, until)
    try:
        stop = await walker.job()
    except ExpressionError as error:
        stop = invalid(f"{leg.source}: {error}")
    except Refused as refused:
        stop = refused.ending
    return walker.walked(stop)


class _Walker:
    """Its methods give where the walk stops, or None where it goes on."""

    def __init__(self, project: Project, texts: Texts, perform: Perform | None, until: float) -> None:
        self.leg, self.texts, self.perform, self.until = texts.leg, texts, perform, until
        self.scripts = Scripts(project, texts)
        self.uses = Uses(project, texts, self.scripts)
        self.trail = Trail(texts.leg)
        self.said, self.aim = Said(), Aim.RED
        self.asks = ""  # what only a run can tell: steps are then read on for what they install
        self.missed: Ending | None = None  # why a step that may have been the failing one was left out
        self.doubts: dict[str, str] = {}  # number of a step → what decides whether it runs, and is not known
        self.is_first = True  # nothing was run yet
        self.together = False  # steps need more of those before them than the workspace keeps

    def walked(self, stop: Stop) -> Walked:
        """What only a run can tell counts for more than where reading on without it led."""
        return self.trail.walked(Asked(self.asks) if self.asks else self._end(stop), self.texts.notes)

    async def job(self) -> Stop:
        try:
            frame = self.texts.job()
        except Needs as needs:
            return in_the_way("defaults.run", needs.what)
        self.said = listen(self.leg, lambda template: self.texts.worded(template, frame))
        if self.said.failing is not None:
            self.aim = Aim.NAMED
        self.trail.notes += [self.said.note] if self.said.note else []
        stop = await self._steps(self.leg.job.steps, frame)
        if stop is not None:
            return stop
        if self.perform is None and self.aim is not Aim.NAMED and self.trail.tried:
            self.asks = "which step fails"
        return self._none_red(self.trail.tried)

    async def _steps(self, steps: Sequence[Step], frame: Frame) -> Stop | None:
        for step in steps:
            await asyncio.sleep(0)  # a job may have thousands that only install
            if time.monotonic() > self.until:
                return self._too_long()
            try:
                stop = await self._step(step, frame)
            except Asks as asks:
                self._ask(asks.what)
                continue
            if stop is not None:
                return stop
        return None

    async def _step(self, step: Step, outer: Frame) -> Stop | None:
        number = f"{outer.prefix}{step.number}"
        is_target = self.aim is Aim.NAMED and number == str(self.said.failing)
        frame, needs = outer, None
        try:
            frame = replace(outer, own=self.texts.own(step, outer))
        except Needs as stands:
            needs = stands  # in the way only where the step runs
        here = Here(step, frame, number, self.texts.title(step, frame), is_target)
        if not is_target and not self._runs(here):
            self.trail.tell(here, "skipped", "its condition does not hold")
            frame.conclude(step, {}, "skipped")
            return None
        try:
            if needs is not None:
                raise needs
            meant = self._meaning(here)
        except Needs as stands:
            return self._left_out(here, stands)
        return await self._follow(meant, here)

    def _runs(self, here: Here) -> bool:
        said = None if here.frame.prefix else self.said.runs(here.step.number)
        if said is not None:
            return said
        holds = condition(here.step.condition, self.texts.scope(here.frame))
        if not isinstance(holds, Unknown):
            return holds
        try:
            self.texts.ask_for(holds.what)
            self.doubts[here.number] = holds.what
            self.trail.notes.append(
                f"whether `{here.title}` runs depends on `{holds.what}`, which is not known here: it is run"
            )
        except Asks as asks:
            self._ask(asks.what)
        return True

    def _meaning(self, here: Here) -> Meant:
        """Raises `Needs`, `Asks`, `ExpressionError`."""
        python = self.trail.packages.python
        if here.step.uses:
            return self.uses.read(here.step.uses, here, python)
        return self.scripts.read(self.texts.text(here.step.run or "", here.frame), here, python)

    async def _follow(self, meant: Meant, here: Here) -> Stop | None:
        match meant:
            case Prepares():
                self.trail.gain(meant.gains)
                self.trail.tell(here, meant.does, meant.why)
                here.frame.conclude(here.step, dict(meant.outputs))
            case Installs():
                self.trail.gain(meant.gains)
                self.trail.tell(here, "installs", meant.text.strip())
                if here.is_target:
                    note = f"{self.leg.source}: the failing step only installs; the job's tests are run instead"
                    self.trail.notes.append(note)
                    self.aim = Aim.TESTS
                here.frame.conclude(here.step, {})
            case Opens():
                return await self._within(meant, here)
            case Runs():
                self.trail.gain(meant.gains)
                return await self._try(meant, here)
        return None

    async def _within(self, opens: Opens, here: Here) -> Stop | None:
        """The steps of an action of the repository."""
        before = len(self.trail.tried)
        if here.is_target:
            self.aim = Aim.WITHIN
        self.trail.tell(here, "runs", f"the steps of {opens.folder}")
        stop = await self._steps(opens.action.steps, opens.frame)
        if stop is not None:
            return stop
        if here.is_target and self.perform is not None:
            return self._none_red(self.trail.tried[before:])
        if here.is_target:
            self._ask("which step of the action fails")
            return None
        outputs = {name: self.texts.worded(text, opens.frame) for name, text in opens.action.outputs.items()}
        here.frame.conclude(here.step, outputs)
        return None

    async def _try(self, runs: Runs, here: Here) -> Stop | None:
        """A step that does something: the failing one, or it is run, or passed by."""
        tried = Tried(runs.check, runs.tool, here.number)
        if here.is_target or (self.aim is Aim.TESTS and runs.check.runs_tests):
            return self._fails(tried, here)
        tried = replace(tried, may_fail=self.texts.may_fail(here.step, here.frame))
        if self.perform is None:
            self.texts.pass_by(here.step, runs.text, here.frame, may_fail=tried.may_fail)
        else:
            done = await self._done(self.perform, tried, here)
            if done.run.ending == "timeout" and time.monotonic() > self.until:
                return self._too_long()
            if done.is_red and not tried.may_fail:
                if (doubt := self._doubt(here)) is not None:
                    self._passed_over(here, doubt)
                    return None
                if not self.aim.is_any_red:
                    return stopped_before(replace(done.run, stopped_at=done.run.stopped_at or here.title))
                return self._fails(replace(tried, seen=done.run), here)
            self.texts.exported |= done.env
            here.frame.conclude(here.step, done.outputs, outcome="failure" if done.is_red else "success")
        self.trail.tell(here, "runs", runs.check.command)
        self.trail.tried.append(tried)
        return None

    async def _done(self, perform: Perform, tried: Tried, here: Here) -> Performed:
        """By itself, which is quick; red counts only together with the steps before it, as it is reproduced later."""
        if not self.together:
            check = replace(tried.check, env={**self.texts.exported, **tried.check.env})
            was_first, self.is_first = self.is_first, False
            done = await perform(check, anew=False)
            if not done.is_red or tried.may_fail or was_first:
                return done
        done = await perform(self.trail.joined(tried), anew=True)
        if not self.together and not done.is_red:
            self.together = True
            self.trail.notes.append(
                f"step {here.number}, `{here.title}`, needs what the steps before it leave outside of the repository: from it "
                "on each step was run together with those before it"
            )
        return done

    def _doubt(self, here: Here) -> str | None:
        """What decides whether the step, or the action that it is of, runs; None where that is known."""
        parts = here.number.split(".")
        return next((found for end in range(len(parts)) if (found := self.doubts.get(".".join(parts[: end + 1])))), None)

    def _passed_over(self, here: Here, doubt: str) -> None:
        """A red step that CI may not have run is no failure of CI's."""
        self.missed = self.missed or in_doubt(here.title, doubt)
        self.trail.tell(here, "left out", f"it fails here, and whether it runs in CI depends on `{doubt}`")
        self.trail.notes.append(
            f"step {here.number}, `{here.title}`, fails here and is passed over: whether it runs in CI depends on `{doubt}`"
        )
        here.frame.conclude(here.step, unseen_outputs(here.step))

    def _fails(self, tried: Tried, here: Here) -> Stop:
        stop = self._served(tried)
        if stop is tried:
            self.trail.tell(here, "fails", tried.check.command)
        return stop

    def _none_red(self, tried: Sequence[Tried]) -> Stop:
        """Nothing fails here: what tests the most is asked again, unless what fails may have been left out."""
        if self.missed is not None or not tried:
            return self.missed or Nothing()
        return self._served(next((one for one in tried if one.check.runs_tests), tried[-1]))

    def _served(self, tried: Tried) -> Stop:
        """The step, if the job's servers that it may need can be had."""
        if tried.check.reader != "findings":
            if self.leg.needs:
                return in_the_way(self.leg.job.id, self.leg.needs, "service of the job")
            if self.leg.wanted.refusals:
                return needs_services(self.leg.wanted.sentence)
        return tried

    def _left_out(self, here: Here, needs: Needs) -> Stop | None:
        """A step that cannot be as in CI is in the way of the failing one, or it is passed over."""
        self.trail.notes += [needs.note] if needs.note else []
        ending = in_the_way(here.title, needs.what)
        if here.is_target:
            return ending
        if self.aim.is_any_red:
            self.missed = self.missed or ending
        self.trail.tell(here, "left out", f"it needs {named(needs.what)}")
        self.trail.notes.append(f"step {here.number}, `{here.title}`, is left out: it needs {named(needs.what)}")
        here.frame.conclude(here.step, unseen_outputs(here.step))
        return None

    def _end(self, stop: Stop) -> End:
        return self.trail.found(stop) if isinstance(stop, Tried) else stop

    def _too_long(self) -> Ending:
        return too_long(self.leg.source, len(self.trail.told), ran=self.perform is not None)

    def _ask(self, what: str) -> None:
        self.asks = self.asks or what  # what was asked first is what a run comes to first
