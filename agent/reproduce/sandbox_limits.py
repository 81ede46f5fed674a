"""Recognizes failures caused by the sandbox: a limit was reached, or there is no network, browser or locale. Pure.

Reads the system's own error messages. A faked error (a mock that raises `gaierror`) is about the code, and so is Python's own
`MemoryError`: a list that grows without end is a common fault.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agent.checks.oracle import failures
from agent.contract.verdicts import EXIT, Check, CheckRun, Failure, VerdictId
from agent.reproduce.flakiness import mentions_network

NETWORK = "network"
BROWSER = "browser"
LOCALE = "locale"
_NEAR = 12  # last lines of a step's output, which show why it ended
_EXITS = {"file size": (153, -25), "processor time": (152, -24)}  # SIGXFSZ, SIGXCPU
_LIMITS = {
    "file size": re.compile(r"\[Errno 27\]|\bEFBIG\b|\bFile too large\b|\b[Ff]ile size limit exceeded\b"),
    "processor time": re.compile(r"\bCPU time limit exceeded\b"),
    "disk": re.compile(r"\[Errno 28\]|\bENOSPC\b|\bNo space left on device\b"),
    "processes": re.compile(
        r"can't start new thread|\bfork: (?:retry: )?(?:Resource temporarily unavailable|Cannot allocate)|\b[Cc]annot fork\b|"
        r"fork_exec(?:.|\n){0,400}Resource temporarily unavailable|\bspawn \S+ EAGAIN\b|pthread_create failed"
    ),
    "memory": re.compile(
        r"\bUnable to allocate [\d.]+ [KMGTP]iB\b|\bCannot allocate memory\b|JavaScript heap out of memory|std::bad_alloc|"
        r"java\.lang\.OutOfMemoryError|memory allocation of \d+ bytes failed|runtime: out of memory"
    ),
    LOCALE: re.compile(r"\blocale\.Error: unsupported locale setting\b"),
}
# What drivers say of a browser that was not downloaded.
NO_BROWSER = re.compile(
    r"Executable doesn't exist at \S*(?:playwright|chrom|firefox|webkit)\S*"
    r"|Please run the following command to download new browsers"
    r"|Could not find (?:Chrome|Chromium|Firefox) \(ver\. [^)\n]{1,40}\)|[Tt]he Cypress binary is missing"
    r"|No binary for \w+ browser|[Cc]annot find (?:Chrome|Firefox) binary|Expected browser binary location"
)
# Tracebacks in which the repository's code, or its mocks, raise the error themselves.
MADE_UP = re.compile(
    r"unittest/mock\.py|_execute_mock_call|\bgaierror\(|\b(?:OSError|IOError|ConnectionError)\((?:errno\.|[\d\"'-])"
)
# Calls to a resolver or a remote host, as tracebacks show them.
_REACHES_OUT = re.compile(
    r"^(?:socket\.)?gaierror: \[Errno|\bgetaddrinfo\b|\bcreate_connection\b|\.connect\(|\burllib3?\b|\bhttpcore\b|\baiohttp\b|"
    r"\bfatal: unable to access '|GetAddrInfoReqWrap|\bdial (?:tcp|udp)\b|java\.net\.|failed to lookup address"
)


@dataclass(frozen=True, slots=True)
class SandboxLimit:
    """What the sandbox lacked, and the text that shows it."""

    what: str  # "network", "browser", "locale", or a limit: "file size", "processes", "disk", "memory", "processor time"
    sign: str


def limit_behind(failure: Failure, run: CheckRun, check: Check) -> SandboxLimit | None:
    """The limit that explains the failure, if any."""
    if failure.id == EXIT:
        return _of_a_step(run)
    text = f"{failure.message}\n{failure.details}"
    if MADE_UP.search(text):
        return None
    if missing := NO_BROWSER.search(text):
        return SandboxLimit(BROWSER, missing.group())
    if sign := mentions_network(text):
        return SandboxLimit(NETWORK, sign) if not check.is_python or _REACHES_OUT.search(text) else None
    return _limit(text)


def limits_behind(
    checks: Sequence[Check], runs: Sequence[CheckRun], ids: Collection[VerdictId]
) -> list[tuple[VerdictId, SandboxLimit | None]]:
    """For each failure of these ids, in one run of each check, the limit that explains it."""
    return [
        (failure.id, limit_behind(failure, run, check))
        for check, run in zip(checks, runs, strict=True)
        for failure in failures([run], ids)
    ]


def is_in_log(lack: SandboxLimit, hints: Sequence[str]) -> bool:
    """Does CI's log show the same problem?"""
    text = "\n".join(hints)
    if lack.what == NETWORK:
        return bool(mentions_network(text))
    if lack.what == BROWSER:
        return NO_BROWSER.search(text) is not None
    found = _LIMITS[lack.what].search(text)
    return found is not None


def _of_a_step(run: CheckRun) -> SandboxLimit | None:
    if run.ending == "out_of_memory":
        return SandboxLimit("memory", "killed for using too much memory")
    for what, codes in _EXITS.items():
        if run.exit_code in codes:
            return SandboxLimit(what, f"exit code {run.exit_code}")
    if missing := NO_BROWSER.search(run.output):  # whatever else is red, the step cannot become green here
        return SandboxLimit(BROWSER, missing.group())
    text = "\n".join([line for line in run.output.splitlines() if line.strip()][-_NEAR:])
    if MADE_UP.search(text):
        return None
    sign = mentions_network(text)
    return SandboxLimit(NETWORK, sign) if sign else _limit(text)


def _limit(text: str) -> SandboxLimit | None:
    for what, words in _LIMITS.items():
        if found := words.search(text):
            return SandboxLimit(what, " ".join(found.group().split())[:80])
    return None
