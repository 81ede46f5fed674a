"""Reads a step: the action that it uses, or its script. Runs nothing; the traversal acts on what a step does here."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from agent.ci.expressions import Unknown
from agent.ci.job.actions import is_checkout, meaning_of, python_version
from agent.ci.job.contexts import default_variables, unknown_variables
from agent.ci.job.refusals import JobRefused, Unavailable, checkout_elsewhere
from agent.ci.job.renderer import SHELL, Renderer, StepFrame, as_bash, check_shell
from agent.ci.project import detection
from agent.ci.project.commands import read_command
from agent.ci.project.detection import Project
from agent.ci.project.install_commands import merge
from agent.ci.runners.context import Followed, Steps
from agent.ci.runners.dispatch import follow_script
from agent.ci.shell.words import in_one_line
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.model import Action, WorkflowStep
from agent.ci.workflows.workflow_file import read_action
from agent.contract.verdicts import Check
from agent.guest.text import one_line
from sandbox.base import Packages

DEPTH = 10  # nested actions, as on GitHub


@dataclass(frozen=True, slots=True)
class CurrentStep:
    """The step that the traversal has reached."""

    step: WorkflowStep
    frame: StepFrame  # with the step's own variables
    number: str  # "3", or "3.1" within an action of the repository
    title: str  # as GitHub shows it
    is_target: bool  # CI reports that it failed
    without: Mapping[str, str] = field(default_factory=dict)  # its variables that are left out: "secrets.TOKEN" each


@dataclass(frozen=True, slots=True)
class Additions:
    """What reading a step adds to the requirements of the job and to its notes."""

    packages: Packages = field(default_factory=Packages)
    python: str | None = None  # the version from here on
    notes: tuple[str, ...] = ()
    runtime: tuple[str, str] | None = None  # another language: its name, and the version from here on


@dataclass(frozen=True, slots=True)
class SetupStep:
    """A known action that sets something up, or does nothing here."""

    does: Literal["sets up", "nothing"]
    why: str
    outputs: Mapping[str, str]
    additions: Additions


@dataclass(frozen=True, slots=True)
class InstallStep:
    """A script that only installs what the prepared sandbox already has."""

    text: str
    additions: Additions


@dataclass(frozen=True, slots=True)
class RunStep:
    """A script with a check."""

    text: str  # as in the workflow, rendered
    check: Check  # the script without its installs
    tool: str  # the program whose output decides the check
    additions: Additions


@dataclass(frozen=True, slots=True)
class CompositeStep:
    """An action of the repository, with its own steps."""

    action: Action
    frame: StepFrame  # of its steps
    folder: str


StepMeaning = SetupStep | InstallStep | RunStep | CompositeStep


class StepReader:
    """Reads the steps of one leg, in their order."""

    def __init__(self, project: Project, renderer: Renderer) -> None:
        self.project, self.renderer = project, renderer
        self.is_there = False  # whether the repository is checked out at the root
        self.steps = Steps()  # budget for following runners, shared by all scripts of the leg

    def read(self, current: CurrentStep, python: str | None) -> StepMeaning:
        """`python` is the version requested so far. Raises `Unavailable`, `JobRefused`, `RunNeeded`, `ExpressionError`."""
        uses = current.step.uses
        if not uses:
            return self._script(self.renderer.render(current.step.run or "", current.frame), current, python)
        if uses.startswith("./"):
            return self._own_action(uses, current)
        rendered = {name: self.renderer.render_known(text, current.frame) for name, text in current.step.inputs.items()}
        # An unknown input of a known action counts as empty, because it rarely matters.
        inputs = {name: "" if isinstance(text, Unknown) else text for name, text in rendered.items()}
        meaning = meaning_of(uses, inputs)
        if meaning.kind == "runs":
            # `defaults.run` applies only to `run` steps.
            return self._script(meaning.command, replace(current, frame=replace(current.frame, cwd=".", shell=SHELL)), python)
        if meaning.folder and not self.is_there:
            raise JobRefused(checkout_elsewhere(current.title, one_line(meaning.folder, 100)))
        self.is_there = self.is_there or (is_checkout(uses) and meaning.kind == "nothing")
        if meaning.kind == "unknown" and meaning.note:
            raise Unavailable(_named(uses), f"step {current.number}: {meaning.note}")
        if meaning.kind == "unknown" or current.is_target:  # it can only have failed in what it does on GitHub
            raise Unavailable(_named(uses))
        version = meaning.python
        if version is None and "python-version-file" in inputs:
            version = python_version(self.project.texts.get(inputs["python-version-file"].removeprefix("./"), ""))
        notes = (f"step {current.number}: {meaning.note}",) if meaning.note else ()
        additions = Additions(python=version, notes=notes, runtime=meaning.runtime)
        return SetupStep("sets up" if meaning.kind == "sets_up" else "nothing", meaning.why, meaning.outputs, additions)

    def _own_action(self, uses: str, current: CurrentStep) -> CompositeStep:
        folder = posixpath.normpath(uses.removeprefix("./"))
        paths = (posixpath.normpath(posixpath.join(folder, name)) for name in ("action.yml", "action.yaml"))
        text = next((self.project.texts[path] for path in paths if path in self.project.texts), None)
        if text is None:
            raise Unavailable(_named(uses), f"{uses}: the action is not in the repository")
        action = read_action(text)
        if isinstance(action, WorkflowProblem):
            raise Unavailable(_named(uses), f"{uses}: {action}")
        frame, renderer = current.frame, self.renderer
        if action.using != "composite" or frame.depth >= DEPTH:
            raise Unavailable(f"{_named(uses)}, which is a program, not a list of steps")
        # Inputs and outputs of an action are always text.
        given = {name.lower(): renderer.render_known(text, frame) for name, text in current.step.inputs.items()}
        defaults = {one.id: renderer.render_known(str(one.default or ""), frame) for one in action.inputs}
        inputs = {name: given.get(name.lower(), default) for name, default in defaults.items()}
        env = {**frame.env, **frame.own, "GITHUB_ACTION_PATH": posixpath.join(renderer.leg.run.root, folder)}
        return CompositeStep(action, StepFrame(env, inputs, ".", SHELL, folder, f"{current.number}.", frame.depth + 1), folder)

    def _script(self, text: str, current: CurrentStep, python: str | None) -> InstallStep | RunStep:
        """`text` is already rendered."""
        renderer, frame, leg = self.renderer, current.frame, self.renderer.leg
        shell = check_shell(as_bash(renderer.render(current.step.shell or frame.shell, frame), text))
        cwd = renderer.relative_path(renderer.render(current.step.working_directory or frame.cwd, frame))
        outer = {**default_variables(leg.run), **frame.env}
        env = {**outer, **renderer.exported, **frame.own}
        found = Followed(text, Packages(), env, cwd)
        if shell.split()[0] in ("bash", "sh"):
            found = follow_script(text, self.project, env, cwd, python, steps=self.steps)
        missing = [f"the value of {name} is not known here, so it is not set" for name in unknown_variables(text, env)]
        notes = tuple(f"step {current.number}: {note}" for note in (*missing, *found.notes))
        additions = Additions(found.packages, found.python, notes)
        if not found.command.strip():
            return InstallStep(text, additions)
        reading = read_command(found.command, self._file(found.cwd))
        if reading.tool in ("tox", "nox") and (detected := detection.detect_check(self.project)) is not None:
            # The tool would build its own environments from a package index.
            tests = in_one_line(detected.command, 120)
            note = f"`{in_one_line(found.command, 80)}` is approximated by the detected tests, `{tests}`"
            packages = merge(found.packages, detection.detect_packages(self.project))
            additions = Additions(packages, found.python, (*notes, note, *detection.contradictions(self.project)))
            found = replace(found, command=detected.command, cwd=".", env={**found.env, **detected.env})
            reading = read_command(found.command, self._file("."))
        check = Check(
            current.title,
            found.command,
            reading.reader,
            renderer.timeout(current.step, frame),
            found.cwd,
            # A runner's variables belong to the step; earlier steps export theirs again in every run.
            {name: value for name, value in found.env.items() if name in frame.own or env.get(name) != value},
            f"{leg.source}, step {current.number}",
            shell,
            services=() if reading.reader == "findings" else leg.wanted.services,
            outer=outer,
        )
        return RunStep(text, check, reading.tool, additions)

    def _file(self, cwd: str) -> Callable[[str], str]:
        return lambda path: self.project.texts.get(posixpath.normpath(posixpath.join(cwd, path)), "")


def _named(uses: str) -> str:
    return f"the action {one_line(uses, 100)}"
