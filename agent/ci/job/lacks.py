"""What a failing step lacks here that it has in CI, by its output. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agent.ci.job.leg import StepOutcome
from agent.ci.job.steps import CurrentStep, RunStep
from agent.ci.logs.machine_signs import NETWORK, by_sandbox, lacks_a_file
from agent.ci.project.commands import names_tests
from agent.contract.verdicts import Check, CheckRun

_LEFT_OUT = re.compile(r"` sets up the machine and is left out$").search


def lack_of(runs: RunStep, run: CheckRun, current: CurrentStep, earlier: Iterable[StepOutcome]) -> str:
    """What a failing set-up step lacks here but not in CI; "" if the step checks something, or may show the failure."""
    if secret := next((secret for name, secret in current.without.items() if name in run.output), ""):
        return secret
    if not _sets_up(runs.check):
        return ""
    lines = run.output.splitlines()
    if (sign := by_sandbox(lines, run.exit_code)) or not lacks_a_file(lines):
        return sign
    left = next((step for step in earlier if step.does == "left out"), None)
    if left is not None:
        return f"a file that step {left.number}, `{left.title}`, may provide"
    return "a file that its commands which are left out may provide" if any(map(_LEFT_OUT, runs.additions.notes)) else ""


def lacks_network(check: Check, run: CheckRun) -> bool:
    """Whether a set-up step fails for want of the network, which the steps before it cannot change."""
    return _sets_up(check) and by_sandbox(run.output.splitlines(), None) == NETWORK


def _sets_up(check: Check) -> bool:
    return check.reader == "exit" and not names_tests(check.command)
