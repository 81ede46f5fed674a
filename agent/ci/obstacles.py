"""What stands between a step in CI and the same step here, in words for the person who reads the ending. Pure."""

from __future__ import annotations

from agent.contract.outcome import Outcome
from agent.report.endings import Ending


class Needs(Exception):
    """A step cannot be as in CI: it needs `what`, "secrets.TOKEN" or whatever else only GitHub has. `note` says more of it."""

    def __init__(self, what: str, note: str = "") -> None:
        super().__init__(what)
        self.what, self.note = what, note


class Refused(Exception):
    """A step that all later ones build on cannot be had here."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason)
        self.ending = ending


def elsewhere(title: str, folder: str) -> Ending:
    """The repository stands in a folder of the workspace in CI."""
    return Ending(
        Outcome.REFUSED,
        f"The step `{title}` puts the repository into the folder `{folder}` (`path` of actions/checkout), and here it stands "
        "at the root: the steps after it would not find it.",
        "Check it out without `path`, or name the command that shows the failure under `test:` in `.github/selfheal.yml`.",
    )


def named(what: str) -> str:
    return f"the secret `{what.partition('.')[2] or 'of a name that is not known'}`" if _is_secret(what) else f"`{what}`"


def _is_secret(what: str) -> bool:
    return what.lower().partition(".")[0] == "secrets"


def in_the_way(title: str, what: str, kind: str = "step") -> Ending:
    if _is_secret(what):
        return Ending(
            Outcome.NEEDS_SECRET,
            f"The {kind} `{title}` needs {named(what)}, and no secret ever enters the sandbox.",
            "Make the tests run without it (skip what needs it), or name a command that does under `test:` in "
            "`.github/selfheal.yml`.",
        )
    return Ending(
        Outcome.NOT_REPRODUCED,
        f"The {kind} `{title}` cannot be run as in CI: {named(what)} stands in the way.",
        "Name the command that shows the failure under `test:` in `.github/selfheal.yml`.",
    )


def in_doubt(title: str, what: str) -> Ending:
    """Of a step that is red here, where nothing else is."""
    return Ending(
        Outcome.NOT_REPRODUCED,
        f"Only the step `{title}` fails here, and whether it runs in CI depends on `{what}`, which is not known here.",
        "Name the step that is red with `--step`, or its command under `test:` in `.github/selfheal.yml`.",
    )


def needs_services(sentence: str) -> Ending:
    return Ending(
        Outcome.NEEDS_SERVICES,
        sentence,
        "Install the servers on the machine (or in the image) of the sandbox, or name a command that does without them under "
        "`test:` in `.github/selfheal.yml`.",
    )


def invalid(why: str) -> Ending:
    return Ending(Outcome.REFUSED, f"The workflow cannot be followed. {why}.", "Mend the workflow file, and push.")


def unreadable(problem: str) -> Ending:
    """The only workflow that may hold the tests. `problem` names the file, the line and why."""
    return Ending(
        Outcome.REFUSED,
        f"The workflow cannot be read: {problem.rstrip('.')}.",
        "Mend the workflow file, or name the command that shows the failure with `--test`.",
    )


def too_long(source: str, steps: int, *, ran: bool) -> Ending:
    return Ending(
        Outcome.OUT_OF_BUDGET,
        f"{source[:1].upper()}{source[1:]}: {'running' if ran else 'reading'} its steps took too long; after {steps} of them "
        "the failing one was not reached.",
        "Name the command that shows the failure under `test:` in `.github/selfheal.yml`.",
    )
