"""The texts of steps as their runner would see them: templates filled in from the leg, the steps before, and what they export.

What only GitHub knows is never made up: a text that needs it is refused (`Needs`), and what running the earlier steps would
tell is asked for (`Asks`).
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent.ci.expressions import ExpressionError, Scope, Unknown, Value, render, value_of
from agent.ci.expressions.scope import Files
from agent.ci.job.contexts import Seen, scope_of, with_an_empty_token
from agent.ci.job.leg import Leg
from agent.ci.job.services import ports_context
from agent.ci.obstacles import Needs, named
from agent.ci.workflows.model import Step
from agent.ci.workflows.step_names import title_of
from agent.guest.text import one_line

SHELL = "bash -e {0}"  # of a step that names none
POWERSHELL = "pwsh, unnamed"  # the same on Windows
# Of shell text that says something else to bash than to PowerShell: variables, blocks, cmdlets, paths.
_OTHERWISE = re.compile(r"[$`{}@%\\]|(?:^|[;|&(]\s*)[A-Z][a-z]+-[A-Z]\w+|(?:^|\s)-(?:eq|ne|Path|Force|Recurse)\b", re.MULTILINE)
MINUTES = (10.0, 60.0)  # of a step that names none; at most


_SECRETS = re.compile(r"\bsecrets\s*(?:\.\s*([\w-]+)|\[\s*'([^']*)'\s*\])", re.IGNORECASE)
_CONTEXT = re.compile(r"\bsecrets\b", re.IGNORECASE)
_TOKEN = re.compile(r"\bsecrets\s*(?:\.\s*|\[\s*')GITHUB_TOKEN(?![\w-])", re.IGNORECASE)


class Asks(Exception):
    """Only a run of the steps so far can tell `what`."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


@dataclass(frozen=True, slots=True)
class Frame:
    """Steps that share their defaults and outputs: the job's own, or those of one action of the repository."""

    env: Mapping[str, str]
    inputs: Mapping[str, Value]
    cwd: str
    shell: str
    action: str = ""  # folder of the action
    prefix: str = ""
    depth: int = 0
    steps: dict[str, Value] = field(default_factory=dict)  # the context of that name
    own: Mapping[str, str] = field(default_factory=dict)  # variables of the one step that is looked at

    def conclude(self, step: Step, outputs: Value, conclusion: str = "success", *, outcome: Value = None) -> None:
        """What later steps see of one. `outcome` is from before `continue-on-error`; the same where none is given."""
        if step.id is not None:
            outcome = conclusion if outcome is None else outcome
            self.steps[step.id] = {"outputs": outputs, "outcome": outcome, "conclusion": conclusion}


class Texts:
    """The texts of one leg. `runs` says whether steps are run on the way."""

    def __init__(self, leg: Leg, files: Files, *, runs: bool) -> None:
        self.leg, self.files, self.runs = leg, files, runs
        self.exported: dict[str, str] = {}
        self.unseen: set[str] = set()  # ids of steps whose outputs a run would tell; "env"
        self.notes: list[str] = []

    def text(self, template: str, frame: Frame) -> str:
        """Raises `Needs` for what only GitHub knows, and `Asks` for what a run would tell."""
        if "env" in self.unseen and "env." in template:
            self.ask_for("env")
        scope = self.scope(frame)
        if _TOKEN.search(template) and len(_SECRETS.findall(template)) == len(_CONTEXT.findall(template)):
            self.notes.append("the token that GitHub gives each run is empty here")
            scope = with_an_empty_token(scope, [one or other for one, other in _SECRETS.findall(template)])
        text = render(template, scope)
        if isinstance(text, Unknown):
            self.ask_for(text.what)
            raise Needs(text.what)
        return text

    def worded(self, template: str, frame: Frame) -> str | Unknown:
        """As text, where it is known."""
        return render(template, self.scope(frame))

    def value(self, template: str, frame: Frame) -> Value:
        return value_of(template, self.scope(frame))

    def known(self, template: str, frame: Frame) -> str:
        """An input of a known action; what is not known here is rarely what matters of it."""
        text = self.worded(template, frame)
        return "" if isinstance(text, Unknown) else text

    def job(self) -> Frame:
        """Where the job's own steps are. Raises `Needs`."""
        leg, env = self.leg, dict[str, str]()
        for templates in (leg.job.container.env if leg.job.container else {}, leg.workflow.env, leg.job.env):
            env = self._outer(env, templates)
        own, outer = leg.job.defaults, leg.workflow.defaults
        frame = Frame(env, leg.inputs, ".", SHELL)
        shell = self.text(own.shell or outer.shell or (POWERSHELL if leg.is_windows else SHELL), frame)
        return replace(frame, shell=shell, cwd=self.text(own.working_directory or outer.working_directory or ".", frame))

    def own(self, step: Step, frame: Frame) -> dict[str, str]:
        """The step's own variables; a step needs what they need."""
        return {name: self.text(text, frame) for name, text in step.env.items()}

    def ask_for(self, what: str) -> None:
        """Ends the walk where running the steps so far would tell it."""
        context, _, rest = what.lower().partition(".")
        if not self.runs and (what == "env" or (context == "steps" and rest.partition(".")[0] in self.unseen)):
            raise Asks(what)

    def pass_by(self, step: Step, text: str, frame: Frame, *, may_fail: bool) -> None:
        """One that would run `text`, and is not run here: what it would print, export and come to only a run tells."""
        self.unseen |= {(step.id or "").lower(), *(("env",) if "GITHUB_ENV" in text else ())}
        outcome: Value = Unknown(f"steps.{step.id}.outcome") if may_fail else "success"
        frame.conclude(step, unseen_outputs(step), outcome=outcome)

    def scope(self, frame: Frame) -> Scope:
        path = posixpath.join(self.leg.run.root, frame.action) if frame.action else ""
        seen = Seen({**frame.env, **self.exported, **frame.own}, frame.steps, frame.inputs, path)
        return scope_of(self.leg.run, self.leg.matrix, seen, self.files, ports_context(self.leg.wanted))

    def title(self, step: Step, frame: Frame) -> str:
        template = title_of(step)
        try:
            text = self.worded(template, frame)
        except ExpressionError:
            text = template
        return " ".join((template if isinstance(text, Unknown) else text).split())

    def seconds(self, step: Step, frame: Frame) -> float:
        minutes = _number(step.timeout_minutes, self.scope(frame))
        known = minutes is not None and math.isfinite(minutes) and minutes > 0
        return 60.0 * (min(minutes or 0.0, MINUTES[1]) if known else MINUTES[0])

    def may_fail(self, step: Step, frame: Frame) -> bool:
        flag = step.continue_on_error
        return flag if isinstance(flag, bool) else self.value(flag, frame) is True

    def path(self, cwd: str) -> str:
        """Relative to the repository's root, wherever that stands."""
        if cwd.startswith(self.leg.run.root + "/") or cwd == self.leg.run.root:
            cwd = cwd[len(self.leg.run.root) :].lstrip("/")
        return posixpath.normpath(cwd or ".")

    def _outer(self, env: Mapping[str, str], templates: Mapping[str, str]) -> dict[str, str]:
        """Those of a workflow or a job: steps mostly do without one that is not known here."""
        found = dict(env)
        for name, template in templates.items():
            text = self.worded(template, Frame(found, self.leg.inputs, ".", SHELL))
            if isinstance(text, Unknown):
                self.notes.append(f"the variable {one_line(name, 60)} is left out: it needs {named(text.what)}")
            else:
                found[name] = text
        return found


def unseen_outputs(step: Step) -> Unknown:
    return Unknown(f"steps.{step.id}.outputs")


def program_of(shell: str) -> str:
    """`shell` as a step names it, if it is one that Linux runners and the sandbox have. Raises `Needs`, `ExpressionError`.

    https://docs.github.com/actions/reference/workflow-syntax-for-github-actions#jobsjob_idstepsshell
    """
    words = shell.split()
    if shell in ("pwsh", "powershell", "cmd"):
        raise Needs(f"the shell {shell}")
    if shell == POWERSHELL:
        raise Needs("the shell pwsh", "a step that names no shell is run by PowerShell on Windows")
    if not words or (len(words) == 1 and words[0] not in ("bash", "sh", "python")) or ("{0}" not in shell and len(words) > 1):
        raise ExpressionError(f"{one_line(shell, 60)!r} is no shell: it is neither bash, sh nor python, and has no {{0}}")
    return shell


def same_in_bash(shell: str, text: str) -> str:
    """The shell that runs `text` here: bash where PowerShell would run, because no shell is named, and would do the same."""
    return SHELL if shell == POWERSHELL and not _OTHERWISE.search(text) else shell


def _number(value: float | str | None, scope: Scope) -> float | None:
    if isinstance(value, str):
        found = value_of(value, scope)
        try:
            return float(found) if isinstance(found, (str, int, float)) else None
        except ValueError:
            return None
    return value
