"""Endings that tell people why a step or a job cannot run here as in CI. Pure."""

from __future__ import annotations

from agent.contract import words
from agent.contract.outcome import Outcome
from agent.report.endings import ASK, ON_COMMAND_LINE, TEST_OPTION, Ending


class Unavailable(Exception):
    """A step needs `what` ("secrets.TOKEN", or anything else that only GitHub has). `note` adds details."""

    def __init__(self, what: str, note: str = "") -> None:
        super().__init__(what)
        self.what, self.note = what, note

    @property
    def is_secret(self) -> bool:
        return _is_secret(self.what)


class JobRefused(Exception):
    """A step that all later steps build on cannot run here."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason)
        self.ending = ending


def checkout_elsewhere(title: str, folder: str) -> Ending:
    """CI checks the repository out into a folder of the workspace."""
    return Ending(
        Outcome.REFUSED,
        f"The step `{title}` checks the repository out into the folder `{folder}` (`path` of actions/checkout). The sandbox "
        "has it at the root, so later steps would not find it.",
        "Check it out without `path`, or name the command that shows the failure under `test:` in `.github/selfheal.yml`.",
    )


def quote_missing(what: str) -> str:
    if not _is_secret(what):
        return f"`{what}`"
    name = what.partition(".")[2]
    return f"the secret `{name}`" if name else "a secret whose name is unknown"


def _is_secret(what: str) -> bool:
    return what.lower().partition(".")[0] == "secrets"


def step_unavailable(title: str, what: str, kind: str = "step") -> Ending:
    if _is_secret(what):
        return Ending(
            Outcome.NEEDS_SECRET,
            f"The {kind} `{title}` needs {quote_missing(what)}, but secrets never enter the sandbox.",
            "Make the tests run without it (skip those that need it), or set `test:` in `.github/selfheal.yml` to a command "
            "that does not need it.",
        )
    return Ending(
        Outcome.NOT_REPRODUCED,
        f"The {kind} `{title}` cannot run as in CI: {quote_missing(what)} is not available here.",
        "Name the command that shows the failure under `test:` in `.github/selfheal.yml`.",
    )


def step_lacks(title: str, lacks: str, *, is_program: bool) -> Ending:
    """`lacks`: "the network", "the program tsc"."""
    other = "set `test:` in `.github/selfheal.yml` to a command that does not need it."
    return Ending(
        Outcome.NOT_REPRODUCED,
        f"The step `{title}` fails here without {lacks}, which CI has.",
        f"{words.capitalized(ASK)} to install {lacks} for the sandbox, or {other}" if is_program else words.capitalized(other),
    )


def condition_unknown(title: str, what: str) -> Ending:
    """Only this step fails here, but CI may not run it."""
    return Ending(
        Outcome.NOT_REPRODUCED,
        f"Only the step `{title}` fails here, but whether CI runs it depends on `{what}`, which is unknown here.",
        f"Name its command under `test:` in `.github/selfheal.yml`. {ON_COMMAND_LINE} `--step` names the failing step.",
    )


def needs_services(sentence: str) -> Ending:
    return Ending(
        Outcome.NEEDS_SERVICES,
        sentence,
        f"{words.capitalized(ASK)} to install the servers for the sandbox, or set `test:` in "
        "`.github/selfheal.yml` to a command that does not need them.",
    )


def invalid_workflow(why: str) -> Ending:
    return Ending(Outcome.REFUSED, f"The workflow is invalid. {why}.", "Fix the workflow file and push.")


def unreadable_workflow(problem: str) -> Ending:
    """The only workflow that could contain the tests cannot be read. `problem` names the file, the line and the reason."""
    return Ending(
        Outcome.REFUSED,
        f"The workflow cannot be read: {problem.rstrip('.')}.",
        "Fix the workflow file, or name the command that shows the failure under `test:` in `.github/selfheal.yml`. "
        f"{TEST_OPTION}",
    )


def out_of_time(source: str, steps: int, *, ran: bool) -> Ending:
    return Ending(
        Outcome.OUT_OF_BUDGET,
        f"{source[:1].upper()}{source[1:]}: {'running' if ran else 'reading'} its steps took too long. The failing step was "
        f"not reached after {steps} steps.",
        "Name the command that shows the failure under `test:` in `.github/selfheal.yml`.",
    )
