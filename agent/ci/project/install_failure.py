"""Classifies a failed install step: the repository's fault, or that of the machine and its network. Pure.

Reads the installer's output like a job's log (`logs`). If in doubt, the machine is to blame.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from agent.ci.logs import Cause, read_log
from agent.contract.outcome import Outcome
from agent.contract.verdicts import Check, CheckRun, Failure, Verdict, VerdictId
from agent.guest.text import clean, one_line
from agent.report.endings import Ending
from agent.reproduce.flakiness import mentions_network
from agent.source.distributions import normalised
from sandbox.base import InstallFailed
from sandbox.install.download import DownloadRefused
from sandbox.install.sources.fetch import SourcesUnavailable

CHECK = "install"
TAIL = 4000  # characters of the installer's output
# An index that is unreachable or disabled, a different Python than the requested one, a missing compiler or library.
_OURS = re.compile(
    r"Failed to fetch|error sending request|index lookups were disabled|Retrying \(Retry|HTTP status"
    r"|[Cc]onnection (?:refused|reset|timed out)|the current Python version|requires a different Python|Requires-Python"
    r"|fatal error: \S+\.h: No such file|failed: No such file or directory|pkg-config|_config executable"
)
_BUILD = re.compile(r"^(?:error: |ERROR: |[ \t]*+[×x] )?(?:The build backend returned an error|Failed to build )", re.MULTILINE)
_AWAY = re.compile(r"Failed to fetch|error sending request|index lookups were disabled|Retrying \(Retry|HTTP status")
_UNKNOWN = re.compile(r"was not found in the|there (?:is|are) no versions? of|No matching distribution found")
_NOT_BUILT = re.compile(
    r"(?:Failed to (?:download and )?build|Failed building wheel for|Failed to build) `?([\w.-]+?)(?:==|\s*@|[`\s]|$)"
)
_RAISED = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception)\b: |error: |fatal error: |Error: ")
_ERROR = re.compile(r"^(?:error|ERROR): .*", re.MULTILINE)
_HINT = re.compile(r"^hint: .* was included because .*", re.MULTILINE)
_QUOTED = re.compile(r"`([\w.-]+)")
_NAME = re.compile(r"[\w.-]*\w")
_BECAUSE = re.compile(r"\bBecause\s.+?(?=\n\s*\n|\nhint:|\Z)", re.DOTALL)


def run_of(failed: InstallFailed) -> CheckRun | None:
    """The failed run of the install step; None unless the repository is certainly to blame."""
    said = clean(failed.output, 50_000)
    reading = read_log(said)
    is_known = reading.cause is Cause.DEPENDENCY or (reading.cause is Cause.UNKNOWN and _BUILD.search(said) is not None)
    if not is_known or _OURS.search(said) or mentions_network(said):
        return None
    ids = [VerdictId(id_) for id_ in reading.ids] or [VerdictId(CHECK)]
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


def unavailable(failed: InstallFailed, optional: Collection[str], *, states: bool) -> str:
    """The optional distribution (a normalised name) without which the rest may be installed; "" if there is none.

    `states`: whether a job states what is installed. What no index has then fails in CI too.
    """
    said = clean(failed.output, 50_000)
    if _AWAY.search(said) or mentions_network(said):
        return ""
    if unbuilt := [normalised(found[1]) for found in _NOT_BUILT.finditer(said)]:
        wanted_by = [normalised(name) for hint in _HINT.findall(said) for name in _QUOTED.findall(hint)]
        return next((name for name in (*unbuilt, *wanted_by) if name in optional), "")
    if states and _UNKNOWN.search(said):
        return ""
    because = _BECAUSE.search(said)
    names = map(normalised, _NAME.findall(because.group() if because else "\n".join(_ERROR.findall(said))))
    return next((name for name in names if name in optional), "")


def check(source: str) -> Check:
    """The install step as a check: `source` names where its packages were read from."""
    return Check(CHECK, "the install step", "exit", source=source)


def in_words(failed: InstallFailed) -> str:
    """The installer's error as one line: a resolver's full sentences, or the first line with the last one of a build."""
    if because := _BECAUSE.search(failed.output):
        return one_line(" ".join(because.group().split()), 600)
    lines = [line.strip() for line in clean(failed.output, 50_000).splitlines() if line.strip()]
    cause = next((line for line in reversed(lines) if _RAISED.match(line)), "") if _NOT_BUILT.search(failed.output) else ""
    return one_line(failed.reason, 400).rstrip(".") + (f": {one_line(cause, 200)}" if cause else "")


def unmet(failed: InstallFailed, *, was_met: bool) -> Ending:
    """The ending if a requirement cannot be met. `was_met`: whether it was met in CI."""
    words = in_words(failed).rstrip(".")
    if was_met:
        return Ending(
            Outcome.NOT_REPRODUCED,
            f"The dependencies could be installed in CI, but not here: {words}.",
            "Pin the requirement to the version that CI installed, or add it to this installation's package index.",
        )
    return Ending(
        Outcome.GAVE_UP,
        f"The install step failed because of a dependency: {words}. Without it, the code could not run, so no "
        "repair was tried.",
        "Fix the name or version of the requirement, or resolve the conflict, then push.",
    )


def out_of_reach(failed: InstallFailed) -> Ending:
    what_now = "Make the package index, or the missing compiler or library, available to the sandbox, then try again."
    if isinstance(failed, SourcesUnavailable):
        what_now = failed.what_now
    if isinstance(failed, DownloadRefused):
        what_now = "Raise the limit, or require fewer or smaller packages, then try again."
    return Ending(Outcome.INFRASTRUCTURE, f"The dependencies could not be installed: {in_words(failed).rstrip('.')}.", what_now)
