"""Reads a step that uses an action: the meaning of a known one, or the steps of one in the repository. Runs nothing."""

from __future__ import annotations

import posixpath
from dataclasses import replace

from agent.ci.job.actions import is_checkout, meaning_of, python_version
from agent.ci.job.refusals import JobRefused, Unavailable, checkout_elsewhere
from agent.ci.job.renderer import SHELL, Renderer, StepFrame
from agent.ci.job.scripts import ScriptReader
from agent.ci.job.steps import Additions, CompositeStep, CurrentStep, InstallStep, RunStep, SetupStep
from agent.ci.project.detection import Project
from agent.ci.workflows.document import WorkflowProblem
from agent.ci.workflows.model import Action
from agent.ci.workflows.workflow_file import read_action
from agent.guest.text import one_line

DEPTH = 10  # actions within actions, as at GitHub


class ActionReader:
    """Reads the actions of one leg."""

    def __init__(self, project: Project, renderer: Renderer, scripts: ScriptReader) -> None:
        self.project, self.renderer, self.scripts = project, renderer, scripts
        self.is_there = False  # the repository, checked out at the root

    def read(self, uses: str, current: CurrentStep, python: str | None) -> SetupStep | InstallStep | RunStep | CompositeStep:
        """`python` is the version requested so far. Raises `Unavailable`, `JobRefused`, `Asks`, `ExpressionError`."""
        if uses.startswith("./"):
            return self._own(uses, current)
        inputs = {name: self.renderer.render_input(text, current.frame) for name, text in current.step.inputs.items()}
        meaning = meaning_of(uses, inputs)
        if meaning.kind == "runs":
            # `defaults.run` applies to `run` steps alone.
            return self.scripts.read(
                meaning.command, replace(current, frame=replace(current.frame, cwd=".", shell=SHELL)), python
            )
        if meaning.folder and not self.is_there:
            raise JobRefused(checkout_elsewhere(current.title, one_line(meaning.folder, 100)))
        self.is_there = self.is_there or (is_checkout(uses) and meaning.kind == "nothing")
        if meaning.kind == "unknown" and meaning.note:
            raise Unavailable(_named(uses), f"step {current.number}: {meaning.note}")
        if meaning.kind == "unknown" or current.is_target:  # only what it does at GitHub can fail
            raise Unavailable(_named(uses))
        version = meaning.python
        if version is None and "python-version-file" in inputs:
            version = python_version(self.project.texts.get(inputs["python-version-file"].removeprefix("./"), ""))
        notes = (f"step {current.number}: {meaning.note}",) if meaning.note else ()
        additions = Additions(python=version, notes=notes, runtime=meaning.runtime)
        return SetupStep("sets up" if meaning.kind == "sets_up" else "nothing", meaning.why, meaning.outputs or {}, additions)

    def _own(self, uses: str, current: CurrentStep) -> CompositeStep:
        folder = posixpath.normpath(uses.removeprefix("./"))
        action = self._action(folder)
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

    def _action(self, folder: str) -> Action | WorkflowProblem:
        for name in ("action.yml", "action.yaml"):
            text = self.project.texts.get(posixpath.normpath(posixpath.join(folder, name)))
            if text is not None:
                return read_action(text)
        return WorkflowProblem("there is no such action in the repository")


def _named(uses: str) -> str:
    return f"the action {one_line(uses, 100)}"
