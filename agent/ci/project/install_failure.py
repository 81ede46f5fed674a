"""An install step that is red: is the repository to blame for it, or the machine, its network and what it lacks? Pure.

The installer's own words are read as those of a job's log are (`logs`); what they do not say for sure counts as the machine's.
"""

from __future__ import annotations

import re

from agent.ci.logs.classification import read_log
from agent.ci.logs.model import Cause
from agent.contract.outcome import Outcome
from agent.contract.verdicts import Check, CheckRun, Failure, Verdict, VerdictId
from agent.guest.text import clean, one_line
from agent.report.endings import Ending
from agent.reproduce.flakiness import speaks_of_network
from sandbox.base import InstallFailed

CHECK = "install"
TAIL = 4000  # characters of what the installer said
# An index that is out of reach or switched off, a Python other than the wanted one, a compiler or a library that is missing.
_OURS = re.compile(
    r"Failed to fetch|error sending request|index lookups were disabled|Retrying \(Retry|HTTP status"
    r"|[Cc]onnection (?:refused|reset|timed out)|the current Python version|requires a different Python|Requires-Python"
    r"|fatal error: \S+\.h: No such file|failed: No such file or directory|pkg-config|_config executable"
)
_BUILD = re.compile(r"^(?:error: |ERROR: |\s*[×x] )?(?:The build backend returned an error|Failed to build )", re.MULTILINE)
_BECAUSE = re.compile(r"\bBecause\s.+?(?=\n\s*\n|\nhint:|\Z)", re.DOTALL)


def run_of(failed: InstallFailed) -> CheckRun | None:
    """The red run of the install step; None where the repository is not to blame for sure."""
    said = clean(failed.output, 50_000)
    reading = read_log(said)
    is_known = reading.cause is Cause.DEPENDENCY or (reading.cause is Cause.UNKNOWN and _BUILD.search(said) is not None)
    if not is_known or _OURS.search(said) or speaks_of_network(said):
        return None
    ids = [VerdictId(failure.id) for failure in reading.failures] or [VerdictId(CHECK)]
    message = in_words(failed)
    return CheckRun(
        CHECK,
        "finished",
        dict.fromkeys(ids, Verdict.ERROR),
        tuple(Failure(id_, message, clean(said, TAIL)) for id_ in ids),
        seconds=0.0,
        exit_code=1,
        output=clean(said, TAIL),
    )


def check(source: str) -> Check:
    """The install step as a check: `source` names where its packages were read."""
    return Check(CHECK, "the install step", "exit", source=source)


def in_words(failed: InstallFailed) -> str:
    """What the installer said, as one line: the sentence of a resolver says more than its first line."""
    because = _BECAUSE.search(failed.output)
    return one_line(" ".join(because.group().split()), 400) if because else one_line(failed.reason, 400).rstrip(".")


def unmet(failed: InstallFailed, *, was_met: bool) -> Ending:
    """For whoever repairs: a requirement that cannot be met is no matter for tests. `was_met`: CI got past it."""
    words = in_words(failed).rstrip(".")
    if was_met:
        return Ending(
            Outcome.NOT_REPRODUCED,
            f"What CI saw fail cannot be reached: its dependencies could be installed there, and not here: {words}.",
            "Pin what is named to the version that CI had, or make it known to the package index of this installation.",
        )
    return Ending(
        Outcome.GAVE_UP,
        f"The install step is red (class dependency): {words}. Selfheal repairs code, and none of it could be run.",
        "Mend the requirement that is named: its name, its version, or what it conflicts with; then push.",
    )


def out_of_reach(failed: InstallFailed) -> Ending:
    return Ending(
        Outcome.INFRASTRUCTURE,
        f"The dependencies could not be installed: {in_words(failed).rstrip('.')}.",
        "Make the package index, or what the installer misses, available to the sandbox, then try again.",
    )
