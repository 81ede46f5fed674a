"""Asks a tool in the sandbox what it would run (`make -n`); holds the questions about a project, and their answers.

The tool runs the repository's code, so each round of questions has a workspace of its own, without network. An answer is as
untrusted as the repository. Knows no tool.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from sandbox.base import KIB, Command, DeadlinePassed, InstallFailed, LimitExceeded, Packages, Sandbox, Workspace

_QUESTIONS = 40  # maximum for one project
_SECONDS = 30.0  # for one answer
_ALL_SECONDS = 120.0  # for all answers of one project
_OUTPUT = 512 * KIB


@dataclass(frozen=True, slots=True)
class ToolQuestion:
    """One command line; `needs` are the requirements of the environment whose "python" it names."""

    argv: tuple[str, ...]
    cwd: str = "."
    env: tuple[tuple[str, str], ...] = ()
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What the tool printed. `missing` is a clause that says why there is no answer."""

    text: str = ""
    errors: str = ""
    exit_code: int = 0
    missing: str = ""


@dataclass(slots=True)
class Answers:
    """The known answers, and the questions that are still open."""

    known: dict[ToolQuestion, ToolAnswer] = field(default_factory=dict)
    open: list[ToolQuestion] = field(default_factory=list)
    seconds: float = _ALL_SECONDS  # the time left

    def to(self, question: ToolQuestion) -> ToolAnswer:
        if (found := self.known.get(question)) is not None:
            return found
        if question not in self.open:
            if len(self.known) + len(self.open) >= _QUESTIONS:
                return ToolAnswer(missing="its files call too many tools")
            self.open.append(question)
        return ToolAnswer(missing="the tool was not asked what it runs")


async def ask(answers: Answers, sandbox: Sandbox) -> bool:
    """ToolAnswer the open questions; False if there are none. Raises `SandboxError` if the sandbox itself fails."""
    questions, answers.open = answers.open, []
    if not questions:
        return False
    needs = tuple(dict.fromkeys(need for question in questions for need in question.needs))
    async with sandbox.candidate() as workspace:
        missing = await _install(workspace, needs) if needs else ""
        for question in questions:
            answers.known[question] = (
                ToolAnswer(missing=missing) if missing and question.needs else await _answer(workspace, question, answers)
            )
    return True


async def _install(workspace: Workspace, needs: tuple[str, ...]) -> str:
    try:
        await workspace.install(Packages(requirements=needs))
    except InstallFailed as failed:
        return f"{needs[0]} could not be installed: {failed.reason}"
    except LimitExceeded as exceeded:
        return f"installing {needs[0]} reached the {exceeded.which} limit of the sandbox"
    return ""


async def _answer(workspace: Workspace, question: ToolQuestion, answers: Answers) -> ToolAnswer:
    argv = tuple(workspace.python if question.needs and word == "python" else word for word in question.argv)
    seconds = min(_SECONDS, answers.seconds)
    if seconds <= 0:
        return ToolAnswer(missing="its files take too long to read")
    began = time.monotonic()
    try:
        done = await workspace.run(Command(argv, seconds, question.cwd, dict(question.env), output_limit=_OUTPUT))
    except DeadlinePassed:
        return ToolAnswer(missing=f"it did not report within {seconds:.0f} s what it runs")
    except LimitExceeded as exceeded:
        return ToolAnswer(missing=f"it reached the {exceeded.which} limit of the sandbox")
    finally:
        answers.seconds -= time.monotonic() - began
    if done.truncated:
        return ToolAnswer(missing="the commands that it runs are too long")
    return ToolAnswer(done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), done.exit_code)
