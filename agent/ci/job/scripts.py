"""Reads the script of a step: what it installs, and the check that remains. Runs nothing."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import replace

from agent.ci.job.contexts import default_variables, unknown_variables
from agent.ci.job.renderer import Renderer, as_bash, check_shell
from agent.ci.job.steps import Additions, CurrentStep, InstallStep, RunStep
from agent.ci.project import detection
from agent.ci.project.commands import read_command
from agent.ci.project.detection import Project
from agent.ci.project.install_commands import merge
from agent.ci.runners.context import Followed, Steps
from agent.ci.runners.dispatch import follow_script
from agent.ci.shell.words import in_one_line
from agent.contract.verdicts import Check
from sandbox.base import Packages


class ScriptReader:
    """Reads the scripts of one leg."""

    def __init__(self, project: Project, renderer: Renderer) -> None:
        self.project, self.renderer = project, renderer
        self.steps = Steps()  # budget for following runners, shared by all scripts of the leg

    def read(self, text: str, current: CurrentStep, python: str | None) -> InstallStep | RunStep:
        """`text` is rendered; `python` is the version requested so far. Raises `Needs`, `Asks`, `ExpressionError`."""
        renderer, frame, leg = self.renderer, current.frame, self.renderer.leg
        shell = check_shell(as_bash(renderer.render(current.step.shell or frame.shell, frame), text))
        cwd = renderer.relative_path(renderer.render(current.step.working_directory or frame.cwd, frame))
        outer = {**default_variables(leg.run), **frame.env}
        env = {**outer, **renderer.exported, **frame.own}
        found = Followed(text, Packages(), env, cwd)
        if shell.split()[0] in ("bash", "sh"):
            found = follow_script(text, self.project, env, cwd, python, steps=self.steps)
        missing = [f"{name} is unknown here and not set" for name in unknown_variables(text, env)]
        notes = tuple(f"step {current.number}: {note}" for note in (*missing, *found.notes))
        additions = Additions(found.packages, found.python, notes)
        if not found.command.strip():
            return InstallStep(text, additions)
        reading = read_command(found.command, self._script(found.cwd))
        if reading.tool in ("tox", "nox") and (detected := detection.detect_check(self.project)) is not None:
            # The tool would build its own environments from an index.
            tests = in_one_line(detected.command, 120)
            note = f"`{in_one_line(found.command, 80)}` is approximated by the detected tests, `{tests}`"
            packages = merge(found.packages, detection.detect_packages(self.project))
            additions = Additions(packages, found.python, (*notes, note))
            found = replace(found, command=detected.command, cwd=".", env={**found.env, **detected.env})
            reading = read_command(found.command, self._script("."))
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

    def _script(self, cwd: str) -> Callable[[str], str]:
        return lambda path: self.project.texts.get(posixpath.normpath(posixpath.join(cwd, path)), "")
