"""The process that has collected the tests: measures them, orders the changes, and tries the changes in its own forks.

It is a fork of the driver and runs no test itself. Messages to the driver: `ready`, `unavailable`, `plausible`, `fresh` (needs
a fresh import), `alone` (start no fresh import) and `free`, `at` (progress), `done`.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Dict, List, Set, Tuple

from . import collection, examples, hot_swap
from .batch import Batch
from .forks import LOOPING, Fork, Measurements, TimeLimit, Write, bound_memory
from .hot_swap import Edit
from .snapshot import Snapshot

Kinds = Dict[Tuple[str, str], List[Tuple[int, Set[str]]]]  # (path, variable) -> [(first line, names of types)]

SLACK = 0.5  # CPU seconds for a test in its own fork, in addition to a multiple of its cost
PASSING_CPU = 2.0  # CPU seconds for passing tests for one change
WAIT = 1.0  # additional seconds of wall time, for sleeps and locks
OTHER_TYPE, SAME_TYPE = 0.35, 1.15  # factors for the score of a change that uses a name of another type, or of the same type
PARTIAL, PARTNERS = 12, 1500  # improving changes that are combined, and how many others each is combined with
BEST = 1500  # likeliest changes, of which pairs are tried
LAST = 150  # changes that are verified in forks if batches found nothing
PATIENCE = 20.0  # seconds of waiting for the driver's fresh import
SLOW_SHARE = 0.3  # of the remaining time, for changes that were too slow at first

NUMBERS = frozenset(("int", "float", "bool", "complex"))


def affordable(names: Iterable[str], costs: Mapping[str, float]) -> list[str]:
    """The first of these tests, within the CPU time allowed for one change."""
    spent, chosen = 0.0, []
    for name in names:
        spent += costs[name]
        if spent > PASSING_CPU:
            break
        chosen.append(name)
    return chosen


def attempt(tests: Mapping[str, Any], names: Iterable[str], costs: Mapping[str, float], write: Write, limit: TimeLimit) -> bool:
    """Run tests in order, write each verdict, and stop at the first that fails; returns whether all passed."""
    for name in names:
        cost = costs.get(name, LOOPING)
        passed = limit.run(tests[name], SLACK + 5 * cost, WAIT + SLACK + 10 * cost) is True
        write(passed)
        if not passed:
            return False
    return True


def outcome_of(fork: Fork, names: Iterable[str], costs: Mapping[str, float], start: float, wait: float) -> Any:
    """[kept, all] examples if every test that `attempt` runs in the fork has passed; else what came instead, or False.

    `start` and `wait` are the seconds for starting the fork and for each test, in addition to a multiple of the test's cost.
    """
    until = time.monotonic() + start
    for name in names:
        message = fork.receive(max(until, time.monotonic() + wait) + 20 * costs.get(name, LOOPING))
        if message is not True:
            return message or False
    kept = fork.receive(time.monotonic() + max(start, 5.0))
    return kept if isinstance(kept, list) and len(kept) == 2 else [0, 0]


class SearchServer:
    """Runs in a fork of the driver, after collection."""

    def __init__(
        self, plan: dict[str, Any], root: str, tests: dict[str, Any], candidates: list[dict[str, Any]], write: Write, go: int
    ) -> None:
        self.plan, self.root, self.tests, self.candidates, self.write = plan, root, tests, candidates, write
        self.until: float = plan["until"]
        self.go, self.snapshot = go, Snapshot(root)
        self.known = Measurements(root, tests, plan["durations"])
        self.swappers: dict[str, hot_swap.Swapper | None] = {}
        self.red: list[str] = []
        self.green: list[str] = []
        self.forked, self.fork_seconds = 0, 0.0
        self.batch: Batch | None = None
        self.hits: set[tuple[int, ...]] = set()

    def prepare(self) -> bool:
        plan, left = self.plan, self.until - time.monotonic()
        red = [n for n in plan["red"] if n in self.tests]
        verdicts = self.known.measure(red, left * 0.3)
        # By wall time: a test that waits for another process takes hardly any CPU of this one.
        self.red = sorted((n for n in red if verdicts.get(n) is not True), key=lambda n: self.known.walls.get(n, LOOPING))
        wanted = set(plan["green"])
        related = [n for n in self.tests if n in wanted]
        verdicts = self.known.measure(related, left * 0.2)
        self.green = sorted((n for n in related if verdicts.get(n)), key=lambda n: self.known.walls[n])
        missing = [n for n in plan["red"] if n not in self.tests]
        self.write(["ready", len(self.tests), self.red, self.green, self.known.costs, missing])
        return bool(self.red)  # those that are missing are run when a change is verified

    # Changes

    def swapper(self, path: str) -> hot_swap.Swapper | None:
        if path not in self.swappers:
            try:
                self.swappers[path] = hot_swap.Swapper(os.path.join(self.root, path), self.live)
            except (SyntaxError, ValueError, OSError, RecursionError):  # this Python may be older than ours
                self.swappers[path] = None
        return self.swappers[path]

    def swap(self, edits: Sequence[Edit]) -> Callable[[], None]:
        swapper = self.swapper(edits[0]["path"])
        if swapper is None:
            raise ValueError("its file cannot be parsed by this Python")
        return swapper.swap(edits)

    def lines_of(self, edit: Edit) -> range | None:
        """The lines of the outermost function around a change; None if it is not inside one."""
        swapper = self.swapper(edit["path"])
        found = swapper.functions.get(edit["line"]) if swapper is not None else None
        if found is None:
            return None
        function = found[0]
        first = min([function.lineno] + [d.lineno for d in function.decorator_list])
        return range(first, (function.end_lineno or function.lineno) + 1)

    def callers(self, edit: Edit, names: Iterable[str]) -> list[str]:
        """The tests that call the changed function or anything inside it, and those whose calls are unknown."""
        lines, path = self.lines_of(edit) or (), edit["path"]
        # Anything inside counts: a decorator's own code runs at import, but its wrapper runs in the test.
        return [
            n for n in names if n not in self.known.calls or any(c[0] == path and c[2] in lines for c in self.known.calls[n])
        ]

    def ordered(self) -> list[dict[str, Any]]:
        """Changes that can be swapped in and that a failing test runs, best first by score and recorded types."""
        kinds: Kinds = {}
        for (path, line, variable), names in self.known.types.items():
            kinds.setdefault((path, variable), []).append((line, names))
        called: dict[tuple[str, int], bool] = {}
        chosen: list[dict[str, Any]] = []
        for candidate in self.candidates:
            if not candidate["line"]:
                continue
            key = (candidate["path"], candidate["line"])
            if key not in called:
                lines = self.lines_of(candidate)
                if lines is None and self.swapper(candidate["path"]) is not None:
                    self.write(["fresh", candidate["id"]])
                called[key] = lines is not None and bool(self.callers(candidate, self.red))
            if called[key]:
                candidate["score"] *= self._fit(candidate, kinds)
                chosen.append(candidate)
        return sorted(chosen, key=lambda c: -c["score"])

    def _fit(self, candidate: dict[str, Any], kinds: Kinds) -> float:
        if candidate.get("names"):
            one, other = (self._seen(candidate, name, kinds) - {"NoneType"} for name in candidate["names"])
        elif candidate.get("wants"):
            one, other = self._seen(candidate, candidate["wants"][0], kinds), set(candidate["wants"][1])
        else:
            return 1.0
        if not one or not other:
            return 1.0
        return SAME_TYPE if one & other else OTHER_TYPE

    def _seen(self, candidate: dict[str, Any], name: str, kinds: Kinds) -> set[str]:
        """Types that a variable of the changed function had in the traced run."""
        lines = self.lines_of(candidate) or ()
        seen: set[str] = set()
        for line, names in kinds.get((candidate["path"], name), ()):
            if line in lines:
                seen |= {"number" if n in NUMBERS else n for n in names}
        return seen

    # Trying

    def run(self) -> None:
        if not self.prepare():
            self.write(["done", False])
            return
        # Hide existing objects from the garbage collector, so that forks do not copy their pages.
        gc.collect()
        self.live = hot_swap.live_functions()
        gc.freeze()
        order = self.ordered()
        self._prepare_batch()
        done = self.first_order(order)
        if not self.plan.get("all_alone"):
            done = done and self.second_order(order[:BEST]) and self.last_resort(order)
        self.report_progress(0.0)
        self.write(["done", done])

    def _prepare_batch(self) -> None:
        """Create the batch, if at least one failing test can be run repeatedly."""
        names = [n for n in self.red[:8] + self.green[:3] if self.tests[n].is_repeatable]
        names = self.known.repeatable(names, self.green, (self.until - time.monotonic()) * 0.15)
        red = [n for n in names if n in self.red]
        green = [n for n in names if n in self.green]
        if red:
            costs, walls = self.known.costs, self.known.walls
            timed = {n: (self.tests[n], costs.get(n, LOOPING), walls.get(n, LOOPING)) for n in names}
            paths = {call[0] for n in names for call in self.known.calls.get(n, ())} | {c["path"] for c in self.candidates}
            control = timed[green[0]] if green else None
            self.batch = Batch(self.root, self.swap, [timed[n] for n in red], control, paths, self.alone)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """While the driver starts nothing, and the repository's files are as they were at first."""
        while select.select([self.go], [], [], 0)[0]:  # an answer that came too late, or that nobody asked for
            os.read(self.go, 1 << 16)
        self.write(["alone"])
        if select.select([self.go], [], [], PATIENCE)[0]:
            self.snapshot.restore()
        try:
            yield
        finally:
            self.write(["free"])

    def report_progress(self, score: float) -> None:
        batch = [self.batch.tried, round(self.batch.seconds, 3)] if self.batch else [0, 0.0]
        self.write(["at", score, batch, [self.forked, round(self.fork_seconds, 3)]])

    def first_order(self, order: list[dict[str, Any]]) -> bool:
        """Try every change by itself; returns False if there was no time for all."""
        if self.batch is None:
            for number, candidate in enumerate(order):
                if time.monotonic() >= self.until:
                    return False
                self.verify([candidate])
                if number % 20 == 0:
                    self.report_progress(candidate["score"])
            return True
        slow = self._run_batch(self.batch, order, self.until)
        if self.batch.is_broken:
            self.batch = None
            return self.first_order(order)
        if slow:
            patience = time.monotonic() + (self.until - time.monotonic()) * SLOW_SHARE
            self._run_batch(self.batch, slow, patience, patient=True)
        return time.monotonic() < self.until

    def _run_batch(
        self, batch: Batch, order: list[dict[str, Any]], until: float, patient: bool = False
    ) -> list[dict[str, Any]]:
        """Run a batch and verify what passed; returns the changes that were too slow."""
        slow: list[dict[str, Any]] = []
        for index, outcome in batch.run([[c] for c in order], until, patient=patient):
            if outcome == "passed":
                self.verify([order[index]])
            elif outcome == "slow":
                slow.append(order[index])
            elif outcome == "fresh":
                self.write(["fresh", order[index]["id"]])
            elif outcome is None:
                self.report_progress(order[index]["score"])
        return slow

    def second_order(self, order: list[dict[str, Any]]) -> bool:
        """If nothing was found before, try pairs in which one change alone makes a failing test pass or get further."""
        if self.batch is None or self.hits:
            return True
        found: list[tuple[int, int, int]] = []
        survey = time.monotonic() + (self.until - time.monotonic()) / 2
        for index, outcome in self.batch.run([[c] for c in order], survey, surveying=True):
            if isinstance(outcome, tuple):
                found.append((-outcome[1], -outcome[2], index))
        pairs: list[tuple[int, float, list[dict[str, Any]]]] = []
        for rank, (_, _, index) in enumerate(sorted(found)[:PARTIAL]):
            first = order[index]
            others = [c for c in order[:PARTNERS] if c["path"] == first["path"]]
            others = [c for c in others if c["end"] <= first["start"] or c["start"] >= first["end"]]
            pairs += [(rank // 3, -c["score"], [first, c]) for c in others if c is not first]
        pairs.sort(key=lambda pair: pair[:2])
        for index, outcome in self.batch.run([pair for _, _, pair in pairs], self.until):
            if outcome == "passed":
                self.verify(pairs[index][2])
            elif outcome is None:
                self.report_progress(0.0)
        return time.monotonic() < self.until

    def last_resort(self, order: list[dict[str, Any]]) -> bool:
        """Try the best changes again in forks, because these tests may not work in batches."""
        for candidate in order[:LAST] if self.batch is not None and not self.hits else ():
            if time.monotonic() >= self.until:
                return False
            self.verify([candidate])
        return True

    def verify(self, edits: Sequence[Edit]) -> None:
        """Run every failing test and the related passing ones in a new fork, as their own runner does."""
        key = tuple(sorted(edit["id"] for edit in edits))
        if key in self.hits:
            return
        green = [n for n in self.green if any(n in self.callers(edit, [n]) for edit in edits)]
        names = self.red + affordable(green, self.known.costs)

        def work(write: Write) -> None:
            bound_memory()
            try:
                self.swap(edits)
            except hot_swap.NotSwappable:
                write("fresh")
                return
            limit = TimeLimit()
            if attempt(self.tests, names, self.known.costs, write, limit):
                write(self.count_examples(edits, limit))

        begin = time.monotonic()
        fork = Fork(work)
        try:
            kept = outcome_of(fork, names, self.known.walls, 0.0, 2 * (WAIT + SLACK))
        finally:
            fork.end()
            self.forked += 1
            self.fork_seconds += time.monotonic() - begin
        if kept == "fresh":
            self.write(["fresh", edits[0]["id"]])
        elif isinstance(kept, list):
            self.hits.add(key)
            self.report_progress(edits[0]["score"])
            self.write(["plausible", [edit["id"] for edit in edits], len(names), kept])

    def count_examples(self, edits: Sequence[Edit], limit: TimeLimit) -> list[int]:
        """[kept, all]: examples in the docstrings of the changed functions and of those that the failing tests call."""
        path = edits[0]["path"]
        swapper = self.swapper(path)
        called = {c[1] for n in self.red for c in self.known.calls.get(n, ()) if c[0] == path}
        lines = {edit["line"] for edit in edits}
        kept = count = 0
        if swapper is None:
            return [0, 0]
        for node, classes in swapper.functions.values():
            if classes or not (node.lineno in lines or node.name in called):
                continue
            live = [f for code in swapper.by_line.values() if code.co_name == node.name for f in swapper.live[code]]
            document = live[0].__doc__ if live else None
            if isinstance(document, str):
                found = examples.parse(document, node.name)
                count += len(found)
                kept += examples.kept(found, live[0].__globals__, limit)
        return [kept, count]


def serve(plan: dict[str, Any], root: str, candidates: list[dict[str, Any]], go: int) -> Callable[[Write], None]:
    """The work of the fork that becomes a server. The driver writes a byte to `go` when it starts nothing more."""

    def work(write: Write) -> None:
        try:
            ids = plan["red"] + plan["green"]
            collection.collect(plan, root, ids, lambda tests: SearchServer(plan, root, tests, candidates, write, go).run())
        except collection.NotCollected as why:
            write(["unavailable", str(why)])

    return work
