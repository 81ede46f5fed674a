"""Renders the templates of steps from the leg, the earlier steps and their exports.

No value is invented: if only GitHub knows it, `Unavailable` is raised; if an earlier step must produce it, `RunNeeded`.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from agent.ci.expressions import ExpressionError, Scope, Unknown, Value, render, value_of
from agent.ci.expressions.values import Files, is_primitive, unknown_in
from agent.ci.expressions.values import text as text_of
from agent.ci.job.contexts import build_scope, with_empty_token
from agent.ci.job.leg import Leg
from agent.ci.job.refusals import Unavailable, quote_missing
from agent.ci.workflows.model import Variables, WorkflowStep
from agent.ci.workflows.shown_names import title_of
from agent.guest.text import one_line

T = TypeVar("T")
SHELL = "bash -e {0}"  # the default
POWERSHELL = "pwsh, unnamed"  # the default on Windows
# Script text that bash and PowerShell read differently: variables, blocks, cmdlets, paths.
_OTHERWISE = re.compile(r"[$`{}@%\\]|(?:^|[;|&(]\s*)[A-Z][a-z]+-[A-Z]\w+|(?:^|\s)-(?:eq|ne|Path|Force|Recurse)\b", re.MULTILINE)
MINUTES = (10.0, 60.0)  # default and maximum of a step's timeout


_SECRETS = re.compile(r"\bsecrets\s*(?:\.\s*([\w-]+)|\[\s*'([^']*)'\s*\])", re.IGNORECASE)
_CONTEXT = re.compile(r"\bsecrets\b", re.IGNORECASE)
_TOKEN = re.compile(r"\bsecrets\s*(?:\.\s*|\[\s*')GITHUB_TOKEN(?![\w-])", re.IGNORECASE)


class RunNeeded(Exception):
    """Only running the steps so far can show `what`."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


@dataclass(frozen=True, slots=True)
class StepFrame:
    """The defaults and outputs that steps share: the job's own, or those of one action of the repository."""

    env: Mapping[str, str]
    inputs: Mapping[str, Value]
    cwd: str
    shell: str
    action: str = ""  # folder of the action
    prefix: str = ""
    depth: int = 0
    steps: dict[str, Value] = field(default_factory=dict)  # the `steps` context
    own: Mapping[str, str] = field(default_factory=dict)  # variables of the current step

    def conclude(self, step: WorkflowStep, outputs: Value, conclusion: str = "success", *, outcome: Value = None) -> None:
        """Set what later steps see of this one. `outcome` is the result before `continue-on-error`."""
        if step.id is not None:
            outcome = conclusion if outcome is None else outcome
            self.steps[step.id] = {"outputs": outputs, "outcome": outcome, "conclusion": conclusion}


class Renderer:
    """Renders the templates of one leg. `runs`: whether the steps are run, not only read."""

    def __init__(self, leg: Leg, files: Files, *, runs: bool) -> None:
        self.leg, self.files, self.runs = leg, files, runs
        self.exported: dict[str, str] = {}
        self.unseen: set[str] = set()  # ids of steps whose outputs only a run shows; also "env"
        self.notes: list[str] = []

    def render(self, template: str, frame: StepFrame) -> str:
        """Raises `Unavailable` for values that only GitHub knows, and `RunNeeded` for values that only a run shows."""
        return self._available(render(template, self._scope_for(template, frame)))

    def _available(self, value: T | Unknown) -> T:
        if isinstance(value, Unknown):
            self.require_known(value.what)
            raise Unavailable(value.what)
        return value

    def _scope_for(self, template: str, frame: StepFrame) -> Scope:
        if "env" in self.unseen and "env." in template:
            self.require_known("env")
        scope = self.scope(frame)
        if _TOKEN.search(template) and len(_SECRETS.findall(template)) == len(_CONTEXT.findall(template)):
            self.notes.append("`GITHUB_TOKEN` is empty here")
            scope = with_empty_token(scope, [one or other for one, other in _SECRETS.findall(template)])
        return scope

    def render_known(self, template: str, frame: StepFrame) -> str | Unknown:
        """The text, or the unknown value that it needs."""
        return render(template, self.scope(frame))

    def job_frame(self) -> StepFrame:
        """The frame of the job's own steps. Raises `Unavailable`."""
        leg, env = self.leg, dict[str, str]()
        for templates in (leg.job.container.env if leg.job.container else {}, leg.workflow.env, leg.job.env):
            env = self._outer(env, templates)
        own, outer = leg.job.defaults, leg.workflow.defaults
        frame = StepFrame(env, leg.inputs, ".", SHELL)
        shell = self.render(own.shell or outer.shell or (POWERSHELL if leg.is_windows else SHELL), frame)
        return replace(frame, shell=shell, cwd=self.render(own.working_directory or outer.working_directory or ".", frame))

    def step_env(self, step: WorkflowStep, frame: StepFrame, *, is_target: bool) -> tuple[dict[str, str], dict[str, str]]:
        """The step's own variables, and those left out with what they need ("secrets.TOKEN"). Raises as `render`.

        As in a pull request from a fork, a step runs without its secrets, unless CI reports that this job failed.
        """
        found, left_out = dict[str, str](), dict[str, str]()
        if isinstance(step.env, str):
            return self._available(self._all(step.env, frame)), left_out
        for name, text in step.env.items():
            try:
                found[name] = self.render(text, frame)
            except Unavailable as needs:
                if is_target or self.leg.is_red or not needs.is_secret:
                    raise
                left_out[name] = needs.what
                self.notes.append(f"the variable {one_line(name, 60)} is left out: it needs {quote_missing(needs.what)}")
        return found, left_out

    def _all(self, template: str, frame: StepFrame) -> dict[str, str] | Unknown:
        """The variables of `env: ${{ matrix.env }}`, or the unknown value that they need. Raises as `render`."""
        value = value_of(template, self._scope_for(template, frame))
        if (unknown := next(unknown_in(value, 1), None)) is not None:
            return unknown
        if value is None or value == "":
            return {}
        if not isinstance(value, Mapping) or not all(map(is_primitive, value.values())):
            raise ExpressionError(f"{one_line(template, 60)!r} is not a mapping of variables")
        return {name: text_of(each) for name, each in value.items() if not isinstance(each, Unknown)}

    def require_known(self, what: str) -> None:
        """Raises `RunNeeded` if running the steps so far would show `what`."""
        context, _, rest = what.lower().partition(".")
        if not self.runs and (what == "env" or (context == "steps" and rest.partition(".")[0] in self.unseen)):
            raise RunNeeded(what)

    def assume_passed(self, step: WorkflowStep, text: str, frame: StepFrame, *, may_fail: bool) -> None:
        """Record a step that is only read: its outputs and exports stay unknown."""
        self.unseen |= {(step.id or "").lower(), *(("env",) if "GITHUB_ENV" in text else ())}
        outcome: Value = Unknown(f"steps.{step.id}.outcome") if may_fail else "success"
        frame.conclude(step, unknown_outputs(step), outcome=outcome)

    def scope(self, frame: StepFrame) -> Scope:
        path = posixpath.join(self.leg.run.root, frame.action) if frame.action else ""
        return build_scope(
            self.leg.run,
            self.files,
            action_path=path,
            env={**frame.env, **self.exported, **frame.own},
            matrix=self.leg.matrix,
            steps=frame.steps,
            inputs=frame.inputs,
            services=self.leg.wanted.ports,
        )

    def title(self, step: WorkflowStep, frame: StepFrame) -> str:
        template = title_of(step)
        try:
            text = self.render_known(template, frame)
        except ExpressionError:
            text = template
        return " ".join((template if isinstance(text, Unknown) else text).split())

    def timeout(self, step: WorkflowStep, frame: StepFrame) -> float:
        minutes = _number(step.timeout_minutes, self.scope(frame))
        known = minutes is not None and math.isfinite(minutes) and minutes > 0
        return 60.0 * (min(minutes or 0.0, MINUTES[1]) if known else MINUTES[0])

    def may_fail(self, step: WorkflowStep, frame: StepFrame) -> bool:
        flag = step.continue_on_error
        return flag if isinstance(flag, bool) else value_of(flag, self.scope(frame)) is True

    def relative_path(self, cwd: str) -> str:
        """`cwd` relative to the repository's root."""
        if cwd.startswith(self.leg.run.root + "/") or cwd == self.leg.run.root:
            cwd = cwd[len(self.leg.run.root) :].lstrip("/")
        return posixpath.normpath(cwd or ".")

    def _outer(self, env: Mapping[str, str], templates: Variables) -> dict[str, str]:
        """Add the variables of a workflow or a job; an unknown one is left out, because most steps do not need it."""
        found = dict(env)
        if isinstance(templates, str):
            known = self._all(templates, StepFrame(found, self.leg.inputs, ".", SHELL))
            if isinstance(known, Unknown):
                self.notes.append(f"the job's variables are left out: they need {quote_missing(known.what)}")
            return found if isinstance(known, Unknown) else found | known
        for name, template in templates.items():
            text = self.render_known(template, StepFrame(found, self.leg.inputs, ".", SHELL))
            if isinstance(text, Unknown):
                self.notes.append(f"the variable {one_line(name, 60)} is left out: it needs {quote_missing(text.what)}")
            else:
                found[name] = text
        return found


def unknown_outputs(step: WorkflowStep) -> Unknown:
    return Unknown(f"steps.{step.id}.outputs")


def check_shell(shell: str) -> str:
    """`shell` as the step names it, if Linux runners and the sandbox have it. Raises `Unavailable`, `ExpressionError`.

    https://docs.github.com/actions/reference/workflow-syntax-for-github-actions#jobsjob_idstepsshell
    """
    words = shell.split()
    if shell in ("pwsh", "powershell", "cmd"):
        raise Unavailable(f"the shell {shell}")
    if shell == POWERSHELL:
        raise Unavailable("the shell pwsh", "steps without `shell` run in PowerShell on Windows")
    if not words or (len(words) == 1 and words[0] not in ("bash", "sh", "python")) or ("{0}" not in shell and len(words) > 1):
        raise ExpressionError(
            f"{one_line(shell, 60)!r} is not a supported shell: use bash, sh, python or a template with {{0}}"
        )
    return shell


def as_bash(shell: str, text: str) -> str:
    """The shell that runs `text` here: bash instead of default PowerShell, if the text means the same in both."""
    return SHELL if shell == POWERSHELL and not _OTHERWISE.search(text) else shell


def _number(value: float | str | None, scope: Scope) -> float | None:
    if isinstance(value, str):
        found = value_of(value, scope)
        try:
            return float(found) if isinstance(found, (str, int, float)) else None
        except ValueError:
            return None
    return value
