"""Tries many small changes against tests in processes that have already collected them.

stdin: one JSON line with the plan, then one JSON line for each change, best first. stdout: JSON lines `ready`, `plausible` …,
`done`. Code under test never gets stdout: it runs in forks of a *server*, which is a fork of the driver. A fork that hangs,
exits, crashes or writes invalid messages loses only its own attempt.

    driver (output) ── server (has collected) ─┬─ one fork for many changes, swapped in one after the other
                    │                          └─ one fork for each change that passed there
                    └─ one fork for each change that needs a fresh import
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from typing import Any

from . import prelude
from .trial import collection, hot_swap
from .trial.forks import Fork, TimeLimit, Write, bound_memory
from .trial.server import affordable, attempt, outcome_of, serve

IMPORTING = 10.0  # seconds of wall time for collecting in a fresh process
DOUBTED = 5  # factor for the remaining search after a hit that breaks examples in docstrings
BETTER = 5.0  # seconds at most for waiting changes with a higher score, once something was found
LATE = 0.5  # seconds for reading what was found at the end
INSIDE = 30  # tests to run in files that could not be collected before


def with_fresh_import(
    plan: dict[str, Any], root: str, candidate: dict[str, Any], names: list[str], costs: dict[str, float]
) -> Callable[[Write], None]:
    """The work of a fork that has not imported the repository's code: imports the changed file as if it were on disk."""

    def work(write: Write) -> None:
        bound_memory()
        limit = TimeLimit()
        real = os.path.realpath(os.path.join(root, candidate["path"]))
        changed = hot_swap.apply_edits(hot_swap.read_text(real), [candidate])
        original = SourceFileLoader.get_code

        def get_code(self: Any, name: str) -> Any:
            if os.path.realpath(self.path) == real:
                return self.source_to_code(changed.encode("utf-8"), self.path)
            return original(self, name)

        def serve_once(tests: dict[str, Any]) -> None:
            if attempt(tests, names, costs, write, limit):
                files = [tests[name] for name in names if isinstance(tests[name], collection.CollectedFile)]
                inside = [test for file in files for test in file.tests][:INSIDE]
                write([sum(limit.run(test, 1.0, 3.0) is True for test in inside), len(inside)])

        patched: Any = SourceFileLoader
        patched.get_code = get_code
        collection.collect(plan, root, names, serve_once)

    return work


class Driver:
    """Owns the output and the clock; never imports the repository's code, only its test runner."""

    def __init__(self, plan: dict[str, Any], root: str, candidates: list[dict[str, Any]], output: int) -> None:
        self.plan, self.root, self.output = plan, root, output
        self.candidates = {c["id"]: c for c in candidates}
        self.started = time.monotonic()
        self.deadline = plan["until"] = self.started + plan["seconds"]
        self.red: list[str] = []
        self.needed: list[str] = []
        self.costs: dict[str, float] = {}
        hidden = any(self.is_file(name) for name in plan["red"])  # the server could not collect that file
        self.waiting = [c for c in candidates if hidden or not c["line"]]  # changes that wait for a fresh import
        self.frontier = 1.0  # score of what the server tries now
        self.batched: list[float] = [0, 0.0]  # changes, seconds
        self.forked: list[float] = [0, 0.0]
        self.fresh, self.fresh_seconds = 0, 0.0
        self.best: float | None = None  # score of the best hit
        self.go = -1  # a pipe to the server: no fresh import runs now
        self.is_server_alone = False
        self.is_over, self.exhausted = False, False  # the server has ended; it had tried all changes
        self.problem = ""  # why it ended early, if it did
        self.enough: float | None = None  # number of tried changes at which the search ends after a hit

    def report(self, event: dict[str, Any]) -> None:
        os.write(self.output, (json.dumps(event) + "\n").encode())

    def elapsed(self) -> float:
        return round(time.monotonic() - self.started, 3)

    def start(self, server: Fork) -> dict[str, Any]:
        """Wait until the server has collected and measured the tests; returns the event to report."""
        message = server.receive(self.deadline)
        if not isinstance(message, list) or message[0] != "ready":
            if any(self.is_file(name) for name in self.plan["red"]):  # then a repair has to make it collectable
                self.red = self.needed = self.plan["red"]
                self.is_over = True
                return {"event": "ready", "items": 0, "red": self.red, "green": 0, "missing": []}
            is_reason = isinstance(message, list) and message[0] == "unavailable"
            return {"event": "unavailable", "why": message[1] if is_reason else "the tests could not be collected"}
        _, items, self.red, green, self.costs, missing = message
        self.needed = self.red + affordable(green, self.costs)
        return {"event": "ready", "items": items, "red": self.red, "green": len(green), "missing": missing}

    def is_file(self, name: str) -> bool:
        return self.plan["reader"] == "pytest" and "::" not in name

    def run(self) -> None:
        candidates = list(self.candidates.values())
        go, self.go = os.pipe()
        os.set_blocking(self.go, False)
        server = Fork(serve(self.plan, self.root, candidates, go), close=(self.output, self.go))
        os.close(go)
        ready = self.start(server)
        ready["seconds"] = self.elapsed()
        self.report(ready)
        is_ready = self.exhausted = ready["event"] == "ready" and bool(self.red)
        while is_ready and (self.goes_on() or self.is_better_waiting()) and not (self.is_over and not self.waiting):
            is_next = bool(self.waiting) and self.waiting[0]["score"] >= self.frontier and not self.is_server_alone
            due = is_next or (self.is_over and bool(self.waiting))
            until = time.monotonic() if due else min(self.deadline, time.monotonic() + 0.5)
            if (self.is_over or not self.read(server, until)) and due:
                self.try_fresh_import(self.waiting.pop(0))
        until = time.monotonic() + LATE
        while is_ready and not self.is_over and time.monotonic() < until and self.read(server, 0.0):
            pass
        server.end()
        self.report_done(self.exhausted and self.is_over and not self.waiting)

    def read(self, server: Fork, deadline: float) -> bool:
        """Handle the server's next message; returns whether one came. If code under test has written it, it may say nothing."""
        message = server.receive(deadline)
        if message is None and server.is_closed:
            self.is_over, self.exhausted, self.problem = True, False, "its process died before it had tried all changes"
        with contextlib.suppress(IndexError, KeyError, TypeError, ValueError):
            if message is not None and message[0] == "done":
                self.is_over, self.exhausted = True, bool(message[1])
            elif message is not None:
                self.handle(message)
        return message is not None

    def tried(self) -> int:
        return int(self.batched[0] + self.forked[0] + self.fresh)

    def goes_on(self) -> bool:
        """After a hit, the work decides: a slow machine tries as many more changes as a quick one."""
        return time.monotonic() < self.deadline and (self.enough is None or self.tried() < self.enough)

    def is_better_waiting(self) -> bool:
        """Whether something was found but a change with a higher score still waits for its import."""
        in_time = time.monotonic() < min(self.plan["until"], self.deadline + BETTER)
        return in_time and self.best is not None and bool(self.waiting) and self.waiting[0]["score"] > self.best

    def handle(self, message: list[Any]) -> None:
        if message[0] == "fresh" and message[1] in self.candidates:
            self.waiting.append(self.candidates[message[1]])
            self.waiting.sort(key=lambda c: -float(c["score"]))
        elif message[0] == "at":
            self.frontier, self.batched, self.forked = message[1:4]
        elif message[0] == "alone":
            self.is_server_alone = True
            with contextlib.suppress(OSError):  # the pipe is full if code under test has asked again and again
                os.write(self.go, b".")
        elif message[0] == "free":
            self.is_server_alone = False
        elif message[0] == "plausible":
            self.report_hit(message[1], message[2], message[3])

    def report_hit(self, ids: list[int], tests: int, kept: list[int]) -> None:
        score = self.candidates[ids[0]]["score"]
        self.report({"event": "plausible", "id": ids[0], "also": ids[1] if len(ids) > 1 else -1, "tests": tests,
                     "kept": kept[0], "promised": kept[1], "seconds": self.elapsed()})  # fmt: skip
        # If it breaks an example, a better change probably comes later.
        self.best = max(self.best or 0.0, score)
        factor = 1 if kept[0] == kept[1] else DOUBTED
        enough = self.tried() + self.plan["after_hit"] * factor
        self.enough = enough if self.enough is None else min(self.enough, enough)
        self.deadline = min(self.deadline, time.monotonic() + self.plan["after_hit_seconds"] * factor)

    def try_fresh_import(self, candidate: dict[str, Any]) -> None:
        started = time.monotonic()
        fork = Fork(with_fresh_import(self.plan, self.root, candidate, self.needed, self.costs), close=(self.output, self.go))
        try:
            kept = outcome_of(fork, self.needed, self.costs, IMPORTING, 3.0)
        finally:
            fork.end()
        self.fresh += 1
        self.fresh_seconds += time.monotonic() - started
        if isinstance(kept, list):
            self.report_hit([candidate["id"]], len(self.needed), kept)

    def report_done(self, exhausted: bool) -> None:
        self.report({"event": "done", "tried": self.tried(), "exhausted": exhausted,
                     "batched": self.batched, "forked": self.forked, "fresh": [self.fresh, round(self.fresh_seconds, 3)],
                     "why": self.problem, "seconds": self.elapsed()})  # fmt: skip


def main() -> int:
    plan = json.loads(sys.stdin.buffer.readline().decode())
    candidates = [json.loads(line.decode()) for line in sys.stdin.buffer]
    output, root = collection.reserve_output()
    try:
        with prelude.running(plan, root):
            collection.import_runner(plan["reader"])
            Driver(plan, root, candidates, output).run()
    except prelude.PreludeFailed as why:
        os.write(output, (json.dumps({"event": "unavailable", "why": str(why)}) + "\n").encode())
    return 0
