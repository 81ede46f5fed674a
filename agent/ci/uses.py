"""What a step that uses an action comes to: a known one its meaning, one of the repository its own steps. Runs nothing."""

from __future__ import annotations

import posixpath
from dataclasses import replace

from agent.ci.job.actions import is_checkout, meaning_of, python_version
from agent.ci.job.renderer import SHELL, Frame, Texts
from agent.ci.obstacles import Needs, Refused, elsewhere
from agent.ci.project.detection import Project
from agent.ci.scripts import Scripts
from agent.ci.steps import Gains, Here, Installs, Opens, Prepares, Runs
from agent.ci.workflows.action_file import read_action
from agent.ci.workflows.document import Problem
from agent.ci.workflows.model import Action
from agent.guest.text import one_line

DEPTH = 10  # actions within actions, as at GitHub


class Uses:
    """Those of one leg."""

    def __init__(self, project: Project, texts: Texts, scripts: Scripts) -> None:
        self.project, self.texts, self.scripts = project, texts, scripts
        self.is_there = False  # the repository, at the root of the workspace

    def read(self, uses: str, here: Here, python: str | None) -> Prepares | Installs | Runs | Opens:
        """`python` is the version that is wanted so far. Raises `Needs`, `Refused`, `Asks`, `ExpressionError`."""
        if uses.startswith("./"):
            return self._own(uses, here)
        inputs = {name: self.texts.known(text, here.frame) for name, text in here.step.inputs.items()}
        meaning = meaning_of(uses, inputs)
        if meaning.kind == "runs":
            # `defaults.run` are those of `run` steps alone.
            return self.scripts.read(meaning.command, replace(here, frame=replace(here.frame, cwd=".", shell=SHELL)), python)
        if meaning.folder and not self.is_there:
            raise Refused(elsewhere(here.title, one_line(meaning.folder, 100)))
        self.is_there = self.is_there or (is_checkout(uses) and meaning.kind == "nothing")
        if meaning.kind == "unknown" and meaning.note:
            raise Needs(_named(uses), f"step {here.number}: {meaning.note}")
        if meaning.kind == "unknown" or here.is_target:  # only what it does at GitHub can have failed
            raise Needs(_named(uses))
        version = meaning.python
        if version is None and "python-version-file" in inputs:
            version = python_version(self.project.texts.get(inputs["python-version-file"].removeprefix("./"), ""))
        notes = (f"step {here.number}: {meaning.note}",) if meaning.note else ()
        gains = Gains(python=version, notes=notes, runtime=meaning.runtime)
        return Prepares("sets up" if meaning.kind == "sets_up" else "nothing", meaning.why, meaning.outputs or {}, gains)

    def _own(self, uses: str, here: Here) -> Opens:
        folder = posixpath.normpath(uses.removeprefix("./"))
        action = self._action(folder)
        if isinstance(action, Problem):
            raise Needs(_named(uses), f"{uses}: {action}")
        frame, texts = here.frame, self.texts
        if action.using != "composite" or frame.depth >= DEPTH:
            raise Needs(f"{_named(uses)}, which is a program of its own")
        # Inputs and outputs of an action are text, whatever they were.
        given = {name.lower(): texts.worded(text, frame) for name, text in here.step.inputs.items()}
        defaults = {one.id: texts.worded(str(one.default or ""), frame) for one in action.inputs}
        inputs = {name: given.get(name.lower(), default) for name, default in defaults.items()}
        env = {**frame.env, **frame.own, "GITHUB_ACTION_PATH": posixpath.join(texts.leg.run.root, folder)}
        return Opens(action, Frame(env, inputs, ".", SHELL, folder, f"{here.number}.", frame.depth + 1), folder)

    def _action(self, folder: str) -> Action | Problem:
        for name in ("action.yml", "action.yaml"):
            text = self.project.texts.get(posixpath.normpath(posixpath.join(folder, name)))
            if text is not None:
                return read_action(text)
        return Problem("there is no such action in the repository")


def _named(uses: str) -> str:
    return f"the action {one_line(uses, 100)}"
