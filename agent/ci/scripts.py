"""What the shell text of a step comes to: what it installs, and the check that is left of it. Runs nothing."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import replace

from agent.ci.job.contexts import unknown_in, variables
from agent.ci.job.renderer import Texts, program_of, same_in_bash
from agent.ci.project import detection as detect
from agent.ci.project.commands import read_command
from agent.ci.project.detection import Project
from agent.ci.project.install_commands import merge
from agent.ci.runners.context import Followed, Steps
from agent.ci.runners.follow import follow_script
from agent.ci.shell.words import in_one_line
from agent.ci.steps import Gains, Here, Installs, Runs
from agent.contract.verdicts import Check
from sandbox.base import Packages


class Scripts:
    """Those of one leg."""

    def __init__(self, project: Project, texts: Texts) -> None:
        self.project, self.texts = project, texts
        self.steps = Steps()  # of the runners that are followed, in all of its texts together

    def read(self, text: str, here: Here, python: str | None) -> Installs | Runs:
        """`text` is filled in; `python` is the version that is wanted so far. Raises `Needs`, `Asks`, `ExpressionError`."""
        texts, frame, leg = self.texts, here.frame, self.texts.leg
        shell = program_of(same_in_bash(texts.text(here.step.shell or frame.shell, frame), text))
        cwd = texts.path(texts.text(here.step.working_directory or frame.cwd, frame))
        outer = {**variables(leg.run), **frame.env}
        env = {**outer, **texts.exported, **frame.own}
        found = Followed(text, Packages(), env, cwd)
        if shell.split()[0] in ("bash", "sh"):
            found = follow_script(text, self.project, env, cwd, python, steps=self.steps)
        missing = [f"{name} is not known here, and not set" for name in unknown_in(text, env)]
        notes = tuple(f"step {here.number}: {note}" for note in (*missing, *found.notes))
        gains = Gains(found.packages, found.python, notes)
        if not found.command.strip():
            return Installs(text, gains)
        reading = read_command(found.command, self._script(found.cwd))
        if reading.tool in ("tox", "nox") and (detected := detect.detect_check(self.project)) is not None:
            # It would make environments of its own, from an index; why it is not followed is said.
            tests = in_one_line(detected.command, 120)
            note = f"`{in_one_line(found.command, 80)}` is approximated by `{tests}`, which was detected"
            packages = merge(found.packages, detect.detect_packages(self.project))
            gains = Gains(packages, found.python, (*notes, note))
            found = replace(found, command=detected.command, cwd=".", env={**found.env, **detected.env})
            reading = read_command(found.command, self._script("."))
        check = Check(
            here.title,
            found.command,
            reading.reader,
            texts.seconds(here.step, frame),
            found.cwd,
            # What a runner sets beside them is the step's own; what earlier steps exported they export anew in every run.
            {name: value for name, value in found.env.items() if name in frame.own or env.get(name) != value},
            f"{leg.source}, step {here.number}",
            shell,
            services=() if reading.reader == "findings" else leg.wanted.services,
            outer=outer,
        )
        return Runs(text, check, reading.tool, gains)

    def _script(self, cwd: str) -> Callable[[str], str]:
        return lambda path: self.project.texts.get(posixpath.normpath(posixpath.join(cwd, path)), "")
