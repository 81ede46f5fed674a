"""Collects the reports of the processes that run a check's tests (verdicts, failures, marks of tampering) and judges them.

Knows no programs and no sockets: it gets the bytes of each connection, and finally how the command ended.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from ..text import clean, identity

TESTS = 100000  # verdicts kept
MARKS = 300  # marks of tampering kept
FAILURES = 300  # failures kept with their details
MESSAGE_BYTES = 262144  # most bytes of one message


class RunnerSession:
    """What one process that runs tests has reported."""

    def __init__(self, pid: int = 0, is_trusted: bool = True) -> None:
        self.pid, self.is_trusted = pid, is_trusted  # a process that cannot report verdicts can still report tampering
        self.buffer = bytearray()
        self.greeted = self.ended = self.left = False
        self.has_verdicts = self.has_passed = False
        self.ready = self.idle = False  # Node: its reporter was created; its options say not to run tests
        self.running: dict[str, float] = {}  # ids and when they started; several if the runner runs tests in parallel
        self.canary: str | None = None  # the verdict that was reported for the canary
        self.key: str | None = None  # the key in the first message
        self.is_foreign = False  # a later message came without the key

    def is_forged(self, is_complete: bool) -> bool:
        """Whether failing tests are reported as passed. A run that reports passes must also report the canary's failure."""
        return self.is_foreign or self.canary == "passed" or (is_complete and self.has_passed and self.canary is None)

    def is_complete(self, has_canary: bool) -> bool:
        """Whether it reported its tests, or at least the canary, to the end."""
        believable = self.canary in ("failed", "error") if has_canary else self.has_verdicts
        return self.greeted and self.ended and believable and not self.is_foreign


class ResultCollector:
    """Everything reported in one run; `timeout` in seconds."""

    def __init__(self, is_node: bool, timeout: float) -> None:
        self.is_node, self.timeout = is_node, timeout
        self.has_canary = not is_node  # a failing test added to a Node runner would change its exit code
        self.canary = "test_" + os.urandom(4).hex()
        self.sessions: list[RunnerSession] = []
        self.verdicts: dict[str, list[Any]] = {}  # id -> [verdict, seconds]
        self.failures: dict[str, dict[str, Any]] = {}  # id -> {message, details, frames}
        self.notes: list[str] = []
        self.marks: set[str] = set()

    def add_session(self, pid: int = 0, is_trusted: bool = True) -> RunnerSession:
        """Add a process that has connected."""
        session = RunnerSession(pid, is_trusted)
        self.sessions.append(session)
        return session

    def receive(self, session: RunnerSession, data: bytes) -> None:
        """Take more bytes from its connection. A line that is not our message shows that other code writes there too."""
        session.buffer += data
        if len(session.buffer) > 16 * MESSAGE_BYTES and b"\n" not in session.buffer:
            session.buffer.clear()
            session.is_foreign = True
        while True:
            line, newline, rest = session.buffer.partition(b"\n")
            if not newline:
                return
            session.buffer = rest
            try:
                message: Any = json.loads(line.decode("ascii")) if len(line) <= MESSAGE_BYTES else None
                if session.key is None and message["kind"] == "hello":
                    session.key = str(message["key"])
                if session.key is None or message["key"] != session.key:
                    raise ValueError("not one of our messages")
                self._handle(session, message)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                session.is_foreign = True

    def close(self, exit_code: int | None, timed_out: bool) -> bool:
        """Judge the sessions once the command has ended or timed out. Returns whether any died or forged its results."""
        is_invalid = any_forged = False
        for session in self.sessions:
            # An orderly exit without an end message is a usage error, which pytest has reported before any test.
            is_orderly = session.left and not session.running and not session.has_passed
            if self.is_node:  # any code could exit like this, but a failing exit code lets nothing pass
                is_orderly = session.idle or (is_orderly and bool(exit_code))
            died = session.greeted and not session.ended and not is_orderly
            forged = session.is_forged(is_complete=self.has_canary and not timed_out and not died)
            any_forged = any_forged or forged
            is_invalid = is_invalid or died or forged
            why = "the process died while this ran (exit code %s)" % exit_code
            if timed_out:
                why = "did not finish in %g s" % self.timeout
            for running in () if session.ended else session.running:
                self._add_verdict(running, "error", 0.0, {"message": why, "details": "", "frames": []})
        if any_forged:
            self.notes.append("The canary test, which must fail, was not reported as failed, so no result of this run counts.")
            self.verdicts, self.failures = {}, {}
        return is_invalid

    def longest_running(self) -> tuple[str, float]:
        """The test that has run longest, and its seconds so far; ("", 0) if none runs."""
        started = [(at, name) for session in self.sessions if not session.ended for name, at in session.running.items()]
        at, name = min(started, default=(0.0, ""))
        return name, time.monotonic() - at if name else 0.0

    def is_observed(self) -> bool:
        """Whether any process that runs tests reported anything."""
        return any(session.ready if self.is_node else session.greeted for session in self.sessions)

    def is_complete(self) -> bool:
        return any(session.is_complete(self.has_canary) for session in self.sessions)

    def _handle(self, session: RunnerSession, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "hello":
            session.greeted = session.is_trusted
            session.idle = bool(message.get("idle"))
        elif kind == "mark":
            self._add_marks([message["mark"]])
        elif not session.is_trusted:
            raise ValueError("this process is not trusted to report verdicts")
        elif kind in ("start", "verdict") and str(message["id"]).endswith(("::" + self.canary, "." + self.canary)):
            if kind == "verdict" and session.canary != "passed":
                session.canary = str(message["verdict"])
        elif kind == "start":
            if not self.is_node:
                session.running.clear()
            session.running[identity(str(message["id"]))] = time.monotonic()
        elif kind == "over":
            session.running.pop(identity(str(message["id"])), None)
        elif kind == "verdict":
            if self.is_node:
                session.running.pop(identity(str(message["id"])), None)
            else:
                session.running.clear()
            session.has_verdicts, session.has_passed = True, session.has_passed or message["verdict"] == "passed"
            seconds = min(max(0.0, float(message["seconds"])), self.timeout)
            self._add_verdict(str(message["id"]), message["verdict"], seconds, message["failure"])
        elif kind == "ready":
            session.ready = True
        elif kind == "end":
            session.ended = True
            self._add_marks(message["marks"])
        elif kind == "bye":
            session.left = True
        elif kind == "note":
            self.notes.append(clean(str(message["text"]), 500))

    def _add_marks(self, marks: list[object]) -> None:
        for mark in marks[:MARKS]:
            if len(self.marks) < MARKS:
                self.marks.add(identity(str(mark)))

    def _add_verdict(self, name: str, verdict: str, seconds: float, failure: dict[str, Any] | None) -> None:
        name = identity(name)
        rank = ("skipped", "passed", "failed", "error")
        known = self.verdicts.get(name)
        if known is None:
            if len(self.verdicts) >= TESTS:
                return
        elif rank.index(verdict) <= rank.index(known[0]):
            return  # one command ran the same test twice: the worse verdict counts
        self.verdicts[name] = [rank[rank.index(verdict)], seconds]
        if verdict in ("failed", "error"):
            failure = dict(failure or {"message": "", "details": "", "frames": []})
            if len(self.failures) >= FAILURES:
                failure["details"], failure["frames"] = "", failure["frames"][-3:]
            self.failures[name] = failure
