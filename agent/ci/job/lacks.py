"""What a failing step lacks here that it has in CI, by its output. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.checks.runner import NO_TESTS
from agent.ci.job.leg import StepOutcome
from agent.ci.job.refusals import quote_missing
from agent.ci.job.steps import CurrentStep, RunStep
from agent.ci.logs.machine_signs import NETWORK, absent_program, by_sandbox, lacks_a_file
from agent.ci.project.commands import names_tests
from agent.contract.verdicts import EXIT, Check, CheckRun, Failure
from agent.reproduce.sandbox_limits import LOCALE, MADE_UP, NO_BROWSER, limit_behind

# How programs say that a variable is missing. An assertion may only compare its name.
_MISSING = re.compile(
    r"(?i)^(?!.*\bassert).*(?:error|exception|missing|required?\b|must\b|\bset\b|unset|unbound|undefined|\bno\b)"
)
_UNCAUGHT = re.compile(r"(?:[\w.]+\.)?(?!Assertion)\w*(?:Error|Exception): ")
_LEFT_OUT = re.compile(r"` sets up the machine and is left out$").search


@dataclass(frozen=True, slots=True)
class Lack:
    """What a step lacks, for people, after "without"; the program or the secret ("secrets.TOKEN") if it is one."""

    what: str
    program: str = ""
    secret: str = ""


def lack_of(runs: RunStep, run: CheckRun, current: CurrentStep, earlier: Iterable[StepOutcome], *, is_red: bool) -> Lack | None:
    """What a failing step lacks here but not in CI; None if it may show the failure. `is_red`: CI says that its job failed.

    A step that tests cannot have failed without the program that it calls; anything else may be what it tests.
    """
    if secret := next((secret for name, secret in current.without.items() if _fails_for_want_of(name, runs.check, run)), ""):
        return Lack(quote_missing(secret), secret=secret)
    if run.exit_code == NO_TESTS and not run.verdicts and runs.check.runs_tests:
        return Lack("a test that it selects")  # a plugin that only the step's own environment has may provide these
    lines = run.output.splitlines()
    if set(run.verdicts) <= {EXIT} and (program := absent_program(lines, run.exit_code)):
        return Lack(f"the program {program}", program)
    if runs.check.reader != "exit":
        found = {failure.id for failure in run.failures if _wants_a_locale(failure, run, runs.check)}
        is_all = bool(found) and found == run.red and run.ending == "finished"
        return Lack("a locale that its tests set") if is_all and not is_red else None
    if NO_BROWSER.search(run.output):
        return Lack("a browser")
    if not is_red and _ended_for_want_of_network(lines):
        return Lack(NETWORK)
    if not _sets_up(runs.check):
        return None
    if (sign := by_sandbox(lines, run.exit_code)) or not lacks_a_file(lines):
        return Lack(sign) if sign else None
    left = next((step for step in earlier if step.does == "left out"), None)
    if left is not None:
        return Lack(f"a file that step {left.number}, `{left.title}`, may provide")
    is_left_out = any(map(_LEFT_OUT, runs.additions.notes))
    return Lack("a file that its commands which are left out may provide") if is_left_out else None


def _fails_for_want_of(name: str, check: Check, run: CheckRun) -> bool:
    """Whether an error says that the variable is missing; of tests, whether the error of each failing one does."""
    texts = [run.output] if check.reader == "exit" else [failure.message for failure in run.failures]
    is_named = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])").search
    found = [[line for line in text.splitlines() if _MISSING.search(line) and is_named(line)] for text in texts]
    return bool(found) and all(found)


def lacks_network(check: Check, run: CheckRun) -> bool:
    """Whether a set-up step fails for want of the network, which the steps before it cannot change."""
    return _sets_up(check) and by_sandbox(run.output.splitlines(), None) == NETWORK


def _ended_for_want_of_network(lines: Sequence[str]) -> bool:
    """Whether its last words are an uncaught error of the network. A runner of tests would end with a summary."""
    last = [line for line in lines if line.strip()][-1:]
    is_uncaught = any(map(_UNCAUGHT.match, last)) and not any(map(MADE_UP.search, lines))
    return is_uncaught and by_sandbox(last, None) == NETWORK


def _wants_a_locale(failure: Failure, run: CheckRun, check: Check) -> bool:
    lack = limit_behind(failure, run, check)
    return lack is not None and lack.what == LOCALE


def _sets_up(check: Check) -> bool:
    return check.reader == "exit" and not names_tests(check.command)
