"""What is red only because of where it ran: a limit of the sandbox was reached, or there is no network. Pure.

Read off the words of the system itself, where a failure ends in them. A test that makes such an error up (a mock that raises
`gaierror`) speaks of the code; so does Python's own `MemoryError` in a test: a list that grows without end is a common fault.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.checks.oracle import EXIT
from agent.contract.verdicts import Check, CheckRun, Failure
from agent.reproduce.flakiness import speaks_of_network

NETWORK = "network"
_NEAR = 12  # lines from the end of what a step printed, in which is told what ended it
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
}
# The text of a traceback in which the repository's own code, or its mocks, raise what the system says otherwise.
_MADE_UP = re.compile(
    r"unittest/mock\.py|_execute_mock_call|\bgaierror\(|\b(?:OSError|IOError|ConnectionError)\((?:errno\.|[\d\"'-])"
)
# Calls that ask a resolver or a remote host, as tracebacks show them.
_REACHES_OUT = re.compile(
    r"^(?:socket\.)?gaierror: \[Errno|\bgetaddrinfo\b|\bcreate_connection\b|\.connect\(|\burllib3?\b|\bhttpcore\b|\baiohttp\b|"
    r"GetAddrInfoReqWrap|\bdial (?:tcp|udp)\b|java\.net\.|failed to lookup address"
)


@dataclass(frozen=True, slots=True)
class Lack:
    """What the sandbox did not give, and the words that say so."""

    what: str  # "network", or the name of a limit: "file size", "processes", "disk", "memory", "processor time"
    sign: str


def lack_behind(failure: Failure, run: CheckRun, check: Check) -> Lack | None:
    """What alone made it red, as far as it tells."""
    if failure.id == EXIT:
        return _of_a_step(run)
    text = f"{failure.message}\n{failure.details}"
    if _MADE_UP.search(text):
        return None
    if sign := speaks_of_network(text):
        return Lack(NETWORK, sign) if not check.is_python or _REACHES_OUT.search(text) else None
    return _limit(text)


def alike(lack: Lack, hints: Sequence[str]) -> bool:
    """Whether CI's log tells the same."""
    text = "\n".join(hints)
    if lack.what == NETWORK:
        return bool(speaks_of_network(text))
    found = _LIMITS[lack.what].search(text)
    return found is not None


def _of_a_step(run: CheckRun) -> Lack | None:
    if run.ending == "out_of_memory":
        return Lack("memory", "it was killed for its memory")
    for what, codes in _EXITS.items():
        if run.exit_code in codes:
            return Lack(what, f"exit code {run.exit_code}")
    text = "\n".join([line for line in run.output.splitlines() if line.strip()][-_NEAR:])
    if _MADE_UP.search(text):
        return None
    sign = speaks_of_network(text)
    return Lack(NETWORK, sign) if sign else _limit(text)


def _limit(text: str) -> Lack | None:
    for what, words in _LIMITS.items():
        if found := words.search(text):
            return Lack(what, " ".join(found.group().split())[:80])
    return None
