"""Goes through the steps of one leg of a job, as the runner of GitHub Actions would, up to the one that fails.

What a step comes to here is decided in one place, for whoever only reads (no `perform`: what a step would print or export is
then not known) and for whoever runs each step on the way (`replay`). Starts nothing itself.
"""

from __future__ import annotations

import asyncio
import math
import posixpath
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from agent.ci import detect
from agent.ci.actions import meaning_of, python_version
from agent.ci.commands import only_looks, read_command, tools_of
from agent.ci.contexts import variables
from agent.ci.detect import Project
from agent.ci.expressions import ExpressionError, Unknown, Value, condition, render
from agent.ci.expressions.scope import Files
from agent.ci.installing import merge
from agent.ci.leg import Does, Leg, Perform, Told, Walked
from agent.ci.obstacles import Needs, in_the_way, invalid, named, needs_services, too_long
from agent.ci.runners.follow import follow_script
from agent.ci.runners.followed import Followed, Steps
from agent.ci.texts import SHELL, Asks, Frame, Texts, program_of
from agent.ci.workflows.composite import read_action
from agent.ci.workflows.document import Problem
from agent.ci.workflows.model import Step
from agent.ci.workflows.step_names import align, find_step, title_of
from agent.endings import Ending, stopped_before
from agent.guest.text import one_line
from agent.verdicts import Check
from agent.verdicts import Step as Before
from sandbox.base import Packages

DEPTH = 10  # actions within actions, as at GitHub


class _Over(Exception):
    """The walk has come to its end."""


class _Here(NamedTuple):
    """The step that the walk has come to. `number` is "3", or "3.1" within an action."""

    step: Step
    frame: Frame
    number: str
    title: str  # as GitHub shows it
    is_target: bool  # CI tells that it fails


class _Kept(NamedTuple):
    """A step that ran, and the program that tells how it went."""

    check: Check
    tool: str
    number: str
    may_fail: bool  # `continue-on-error`


async def walk(leg: Leg, project: Project, files: Files, perform: Perform | None = None, *, until: float = math.inf) -> Walked:
    """Never raises for what the files hold; `SandboxError` where `perform` does.

    After `until` (of `time.monotonic()`) no step is begun, and that is the ending.
    """
    walker = _Walker(leg, project, files, perform, until)
    try:
        await walker.job()
    except _Over:
        pass
    except Needs as needs:
        walker.ending = in_the_way(leg.job.id, needs.what, "job")
    except ExpressionError as error:
        walker.ending = invalid(f"{leg.source}: {error}")
    return walker.walked()


class _Walker:
    def __init__(self, leg: Leg, project: Project, files: Files, perform: Perform | None, until: float) -> None:
        self.leg, self.project, self.perform, self.until = leg, project, perform, until
        self.texts = Texts(leg, files, runs=perform is not None)
        # Which step is the failing one: CI's word (of an action of the repository one of its steps), the first that tests where
        # CI's only installs, the first red one where CI says nothing.
        self.wants: Literal["target", "inner", "tests", "red"] = "red"
        self.target: int | None = None
        self.concluded: dict[int, str] = {}  # what CI says of the job's steps
        self.told: list[Told] = []
        self.notes: list[str] = list(leg.notes)
        self.packages = Packages(python=leg.python)
        self.steps = Steps()  # of the runners that are followed
        self.kept: list[_Kept] = []
        self.check: Check | None = None
        self.tool = ""
        self.ending: Ending | None = None
        self.missed: Ending | None = None  # why a step that may have been the failing one was left out
        self.asks = ""

    def walked(self) -> Walked:
        check, told = self.check, self.told
        packages = self.packages
        if self.asks:
            check = None
            for kept in self.kept:
                packages = merge(packages, tools_of(kept.check, kept.tool))
        if check is not None:
            # Whoever only looks leaves nothing for the check, save what another tool reports on.
            before = [kept for kept in self.kept if kept.check is not check]
            left_out = {kept.number for kept in before if only_looks(kept.check.command) and _spares(kept.check, check)}
            check = replace(check, before=tuple(_before(kept) for kept in before if kept.number not in left_out))
            told = [replace(one, does="left out") if one.number in left_out else one for one in told]
        reached = {one.number.partition(".")[0] for one in told}
        rest = [
            Told(str(step.number), title_of(step), "not reached")
            for step in self.leg.job.steps
            if str(step.number) not in reached
        ]
        if check is None and self.ending is None and not self.asks:
            self.ending = self.missed
        notes = tuple(dict.fromkeys([*self.notes, *self.texts.notes]))
        return Walked((*told, *rest), packages, check, self.tool, self.ending, self.asks, notes)

    async def job(self) -> None:
        leg = self.leg
        env: dict[str, str] = {}
        for templates in (leg.job.container.env if leg.job.container else {}, leg.workflow.env, leg.job.env):
            env = self.texts.outer(env, templates)
        job, outer = leg.job.defaults, leg.workflow.defaults
        frame = Frame(env, leg.inputs, ".", SHELL)
        try:
            frame.shell = self.texts.text(job.shell or outer.shell or SHELL, frame)
            frame.cwd = self.texts.text(job.working_directory or outer.working_directory or ".", frame)
        except Needs as needs:
            self.ending = in_the_way("defaults.run", needs.what)
            return
        self._listen(frame)
        await self._steps(leg.job.steps, frame)
        if self.wants != "target" and self.perform is None and self.kept:
            self.asks = "which step fails"
        elif self.missed is None and not self.asks:
            self._all_green(self.kept)

    def _listen(self, frame: Frame) -> None:
        """What CI says of the job's steps."""
        leg = self.leg

        def render_here(template: str) -> str | Unknown:
            return render(template, self.texts.scope(frame))

        names = [name for name, _ in leg.conclusions]
        self.concluded = {number: leg.conclusions[at][1] for number, at in align(leg.job, names, render_here).items()}
        if leg.failed_step is None:
            return
        red = [number for number, conclusion in self.concluded.items() if conclusion in ("failure", "timed_out")]
        found = find_step(leg.job, leg.failed_step, render_here)
        if red:
            self.wants, self.target = "target", red[0]
        elif isinstance(found, Problem):
            self.notes.append(f"{leg.source}: {str(found).rstrip('.')}; each step is tried")
        else:
            self.wants, self.target = "target", found.number

    def _all_green(self, kept: Sequence[_Kept]) -> None:
        """Nothing fails here: what tests the most is asked again."""
        if kept:
            best = next((one for one in kept if one.check.runs_tests), kept[-1])
            self.kept = self.kept[: self.kept.index(best)]
            self._found(best, "runs")

    async def _steps(self, steps: tuple[Step, ...], frame: Frame) -> None:
        for step in steps:
            await asyncio.sleep(0)  # a job may have thousands that only install
            if time.monotonic() > self.until:
                self.ending = too_long(self.leg.source, len(self.told), ran=self.perform is not None)
                raise _Over
            try:
                await self._step(step, frame)
            except Asks as asks:
                # Reading goes on, for what the later steps install.
                self.asks = self.asks or asks.what

    async def _step(self, step: Step, outer: Frame) -> None:
        number = f"{outer.prefix}{step.number}"
        is_target = self.wants == "target" and number == str(self.target)
        own: dict[str, str] = {}
        needs: Needs | None = None
        try:
            own = self.texts.own(step, outer)
        except Needs as stands:
            needs = stands  # in the way only where the step runs
        frame = replace(outer, own=own)
        here = _Here(step, frame, number, self.texts.title(step, frame), is_target)
        try:
            if not is_target and not self._runs(here):
                self._tell(here, "skipped", "its condition does not hold")
                outer.steps |= _context(step, {}, "skipped")
                return
            if needs is not None:
                raise needs
            if step.uses:
                await self._use(here)
            else:
                await self._run(self.texts.text(step.run or "", frame), here)
        except Needs as stands:
            self._left_out(here, stands.what)

    def _runs(self, here: _Here) -> bool:
        if not here.frame.prefix and here.step.number in self.concluded:
            return self.concluded[here.step.number] != "skipped"
        holds = condition(here.step.condition, self.texts.scope(here.frame))
        if not isinstance(holds, Unknown):
            return holds
        try:
            self.texts.ask_for(holds.what)
            self.notes.append(f"whether `{here.title}` runs depends on `{holds.what}`, which is not known here: it is run")
        except Asks as asks:
            self.asks = self.asks or asks.what
        return True

    async def _use(self, here: _Here) -> None:
        uses = here.step.uses or ""
        if uses.startswith("./"):
            await self._action(here)
            return
        inputs = {name: self.texts.known(text, here.frame) for name, text in here.step.inputs.items()}
        meaning = meaning_of(uses, inputs)
        if meaning.kind == "runs":
            # `defaults.run` are those of `run` steps alone.
            plain = replace(here.frame, cwd=".", shell=SHELL)
            await self._run(meaning.command, here._replace(frame=plain))
            return
        if meaning.kind == "unknown" or here.is_target:
            raise Needs(f"the action {one_line(uses, 100)}")
        self.notes += [f"step {here.number}: {meaning.note}"] if meaning.note else []
        if meaning.python is not None:
            self.packages = replace(self.packages, python=meaning.python)
        elif "python-version-file" in inputs:
            text = self.project.texts.get(inputs["python-version-file"].removeprefix("./"), "")
            self.packages = replace(self.packages, python=python_version(text) or self.packages.python)
        self._tell(here, "sets up" if meaning.kind == "sets_up" else "nothing", meaning.why)
        here.frame.steps |= _context(here.step, dict(meaning.outputs or {}))

    async def _action(self, here: _Here) -> None:
        """An action of the repository itself: its own steps."""
        step, frame = here.step, here.frame
        folder = posixpath.normpath((step.uses or "").removeprefix("./"))
        texts = (
            self.project.texts.get(posixpath.normpath(posixpath.join(folder, name))) for name in ("action.yml", "action.yaml")
        )
        text = next((text for text in texts if text is not None), None)
        action = read_action(text) if text is not None else Problem("there is no such action in the repository")
        if isinstance(action, Problem):
            self.notes.append(f"{step.uses}: {action}")
            raise Needs(f"the action {one_line(step.uses or '', 100)}")
        if action.using != "composite" or frame.depth >= DEPTH:
            raise Needs(f"the action {one_line(step.uses or '', 100)}, which is a program of its own")
        # Inputs and outputs of an action are text, whatever they were.
        given = {name.lower(): self.texts.worded(text, frame) for name, text in step.inputs.items()}
        defaults = {one.id: self.texts.worded(str(one.default or ""), frame) for one in action.inputs}
        inputs = {name: given.get(name.lower(), default) for name, default in defaults.items()}
        env = {**frame.env, **frame.own, "GITHUB_ACTION_PATH": posixpath.join(self.leg.run.root, folder)}
        inner = Frame(env, inputs, ".", SHELL, folder, f"{here.number}.", frame.depth + 1)
        before = len(self.kept)
        if here.is_target:
            self.wants = "inner"
        self._tell(here, "runs", f"the steps of {folder}")
        await self._steps(action.steps, inner)
        if here.is_target:
            if self.perform is None:
                raise Asks("which step of the action fails")
            if self.missed is None:
                self._all_green(self.kept[before:])
            raise _Over
        outputs = {name: self.texts.worded(text, inner) for name, text in action.outputs.items()}
        frame.steps |= _context(step, outputs)

    async def _run(self, text: str, here: _Here) -> None:
        check, tool = self._read(text, here)
        if check is None:
            self._tell(here, "installs", text.strip())
            if here.is_target:
                self.notes.append(f"{self.leg.source}: the failing step only installs; the job's tests are run instead")
                self.wants = "tests"
            here.frame.steps |= _context(here.step, {})
            return
        if here.is_target or (self.wants == "tests" and check.runs_tests):
            self._found(_Kept(check, tool, here.number, may_fail=False))
        kept = _Kept(check, tool, here.number, self.texts.may_fail(here.step, here.frame))
        if self.perform is None:
            self.texts.unseen |= {(here.step.id or "").lower(), *(("env",) if "GITHUB_ENV" in text else ())}
            outcome: Value = Unknown(f"steps.{here.step.id}.outcome") if kept.may_fail else "success"
            context = _context(here.step, Unknown(f"steps.{here.step.id}.outputs"), outcome=outcome)
        else:
            done = await self.perform(replace(check, env={**self.texts.exported, **check.env}))
            if done.run.ending == "timeout" and time.monotonic() > self.until:
                self.ending = too_long(self.leg.source, len(self.told), ran=True)
                raise _Over
            if done.is_red and not kept.may_fail:
                if self.wants not in ("red", "inner"):
                    self.ending = stopped_before(replace(done.run, stopped_at=here.title))
                    raise _Over
                self._found(kept)
            self.texts.exported |= done.env
            context = _context(here.step, done.outputs, outcome="failure" if done.is_red else "success")
        self._tell(here, "runs", check.command)
        self.kept.append(kept)
        here.frame.steps |= context

    def _read(self, text: str, here: _Here) -> tuple[Check | None, str]:
        """What a step's text comes to, without what it installs, and the program that tells."""
        step, frame, texts = here.step, here.frame, self.texts
        shell = program_of(texts.text(step.shell or frame.shell, frame))
        cwd = texts.path(texts.text(step.working_directory or frame.cwd, frame))
        outer = {**variables(self.leg.run), **frame.env}
        env = {**outer, **texts.exported, **frame.own}
        found = Followed(text, Packages(), env, cwd)
        if shell.split()[0] in ("bash", "sh"):
            found = follow_script(text, self.project, env, cwd, self.packages.python, steps=self.steps)
        self.packages = merge(self.packages, found.packages)
        self.packages = replace(self.packages, python=found.python or self.packages.python)
        self.notes += [f"step {here.number}: {note}" for note in found.notes]
        if not found.command.strip():
            return None, ""
        reading = read_command(found.command, self._script(found.cwd))
        if reading.tool in ("tox", "nox") and (detected := detect.detect_check(self.project)) is not None:
            # It would make environments of its own, from an index; why it is not followed is said.
            self.notes.append(f"`{one_line(found.command, 80)}` is approximated by `{detected.command}`, which was detected")
            self.packages = merge(self.packages, detect.detect_packages(self.project))
            found = replace(found, command=detected.command, cwd=".", env={**found.env, **detected.env})
            reading = read_command(found.command, self._script("."))
        source = f"{self.leg.source}, step {here.number}"
        seconds = texts.seconds(step, frame)
        # What a runner sets beside them is the step's own; what earlier steps exported they export anew in every run.
        own = {name: value for name, value in found.env.items() if name in frame.own or env.get(name) != value}
        check = Check(here.title, found.command, reading.reader, seconds, found.cwd, own, source, shell, outer=outer)
        return check if check.reader == "findings" else replace(check, services=self.leg.wanted.services), reading.tool

    def _found(self, kept: _Kept, does: Does = "fails") -> None:
        if kept.check.reader != "findings":
            if self.leg.needs:
                self.ending = in_the_way(self.leg.job.id, self.leg.needs, "service of the job")
                raise _Over
            if self.leg.wanted.refusals:
                self.ending = needs_services(self.leg.wanted.sentence)
                raise _Over
        self.check, self.tool = kept.check, kept.tool
        self.told = [one for one in self.told if one.number != kept.number]
        self.told.append(Told(kept.number, kept.check.name, does, kept.check.command))
        raise _Over

    def _left_out(self, here: _Here, what: str) -> None:
        """A step that cannot be as in CI is in the way of the failing one, or it is passed over."""
        ending = in_the_way(here.title, what)
        if here.is_target:
            self.ending = ending
            raise _Over
        if self.wants in ("red", "inner"):
            self.missed = self.missed or ending
        self._tell(here, "left out", f"it needs {named(what)}")
        self.notes.append(f"step {here.number}, `{here.title}`, is left out: it needs {named(what)}")
        here.frame.steps |= _context(here.step, Unknown(f"steps.{here.step.id}.outputs"))

    def _tell(self, here: _Here, does: Does, detail: str) -> None:
        self.told.append(Told(here.number, here.title, does, detail))

    def _script(self, cwd: str) -> Callable[[str], str]:
        return lambda path: self.project.texts.get(posixpath.normpath(posixpath.join(cwd, path)), "")


def _spares(earlier: Check, check: Check) -> bool:
    """Whether a check can do without the tests or findings of a step before it: what another tool reports on is needed."""
    return earlier.reader == "findings" or check.runs_tests


def _before(kept: _Kept) -> Before:
    check = kept.check
    return Before(
        check.name, check.command, check.shell, check.cwd, check.env, check.timeout, outer=check.outer, may_fail=kept.may_fail
    )


def _context(step: Step, outputs: Value, conclusion: str = "success", *, outcome: Value = None) -> dict[str, Value]:
    """`outcome` is from before `continue-on-error`; the same where none is given."""
    if step.id is None:
        return {}
    return {step.id: {"outputs": outputs, "outcome": conclusion if outcome is None else outcome, "conclusion": conclusion}}
