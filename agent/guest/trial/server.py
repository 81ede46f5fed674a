"""The process that has collected the tests: measures them, orders the changes, and has them tried; runs inside the sandbox.

It is a fork of the driver and runs no test itself: batches and judged changes run in forks of it.
Words to the driver: `ready`, `unavailable`, `plausible`, `fresh` (must be imported anew), `at` (how far it is), `done`.
"""

import gc
import os
import time

from . import examples, splice, warm
from .batch import Batch, bound_memory
from .forks import LOOPING, Forked
from .limits import Limit
from .measuring import Measurements

SLACK = 0.5  # CPU seconds a test may take in a fork of its own besides a multiple of what it took
GREEN_CPU = 2.0  # CPU seconds of passing tests for one change
WAIT = 1.0  # seconds of wall time a test may take besides: for sleeps and locks
OTHER_TYPE, SAME_TYPE = 0.35, 1.15  # what a name of another type, and of the same, does to a change's score
PARTIAL, PARTNERS = 12, 1500  # improving changes that are combined, and with how many others each
BEST = 1500  # changes after which pairs of them are tried, before the unlikely ones
LAST = 150  # changes that are judged in forks where batches found nothing
SLOW_SHARE = 0.3  # of the time that is left, for changes that were too slow at first

NUMBERS = frozenset(("int", "float", "bool", "complex"))


def affordable(names, costs):
    """The first of these tests, as many as one change may cost."""
    spent, chosen = 0.0, []
    for name in names:
        spent += costs[name]
        if spent > GREEN_CPU:
            break
        chosen.append(name)
    return chosen


def attempt(tests, names, costs, write, limit):
    """Run tests in order, tell each verdict, stop at the first that fails; returns whether all passed."""
    for name in names:
        cost = costs.get(name, LOOPING)
        passed = limit.run(tests[name], SLACK + 5 * cost, WAIT + SLACK + 10 * cost) is True
        write(passed)
        if not passed:
            return False
    return True


class Server(object):
    """Lives in a fork of the driver, after collection."""

    def __init__(self, plan, root, tests, candidates, write):
        self.plan, self.root, self.tests, self.candidates, self.write = plan, root, tests, candidates, write
        self.until = plan["until"]
        self.known = Measurements(root, tests, plan["durations"])
        self.swappers = {}
        self.red, self.green = [], []
        self.forked, self.fork_seconds = 0, 0.0
        self.batch = None
        self.hits = set()

    def prepare(self):
        plan, left = self.plan, self.until - time.monotonic()
        red = [n for n in plan["red"] if n in self.tests]
        verdicts = self.known.measure(red, left * 0.3)
        self.red = sorted((n for n in red if verdicts.get(n) is not True), key=lambda n: self.known.costs.get(n, LOOPING))
        wanted = set(plan["green"])
        related = [n for n in self.tests if n in wanted]
        verdicts = self.known.measure(related, left * 0.2)
        self.green = sorted((n for n in related if verdicts.get(n)), key=self.known.costs.get)
        missing = [n for n in plan["red"] if n not in self.tests]
        self.write(["ready", len(self.tests), self.red, self.green, self.known.costs, missing])
        return bool(self.red) and not missing

    # Changes

    def swapper(self, path):
        if path not in self.swappers:
            try:
                self.swappers[path] = splice.Swapper(os.path.join(self.root, path), self.living)
            except (SyntaxError, ValueError, OSError, RecursionError):  # an older Python may read it otherwise than ours
                self.swappers[path] = None
        return self.swappers[path]

    def swap(self, edits):
        swapper = self.swapper(edits[0]["path"])
        if swapper is None:
            raise ValueError("its file cannot be read here")
        return swapper.swap(edits)

    def lines_of(self, edit):
        """The lines of the outermost function around a change, None where it does not lie in one."""
        swapper = self.swapper(edit["path"])
        place = swapper.functions.get(edit["line"]) if swapper is not None else None
        if place is None:
            return None
        first = min([place[0].lineno] + [d.lineno for d in place[0].decorator_list])
        return range(first, place[0].end_lineno + 1)

    def callers(self, edit, names):
        """Those of these tests that call the changed function, or something in it, or of which nobody knows."""
        lines, path = self.lines_of(edit), edit["path"]
        # Anything inside counts: a decorator's own code runs at import, its wrapper in the test.
        return [
            n for n in names if n not in self.known.calls or any(c[0] == path and c[2] in lines for c in self.known.calls[n])
        ]

    def ordered(self):
        """Changes that can be swapped in and that a failing test runs, best first, by their score and the types seen."""
        kinds = {}
        for (path, line, variable), names in self.known.types.items():
            kinds.setdefault((path, variable), []).append((line, names))
        called, chosen = {}, []
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

    def _fit(self, candidate, kinds):
        if candidate.get("names"):
            one, other = (self._seen(candidate, name, kinds) - {"NoneType"} for name in candidate["names"])
        elif candidate.get("wants"):
            one, other = self._seen(candidate, candidate["wants"][0], kinds), set(candidate["wants"][1])
        else:
            return 1.0
        if not one or not other:
            return 1.0
        return SAME_TYPE if one & other else OTHER_TYPE

    def _seen(self, candidate, name, kinds):
        """Types that a variable of the changed function had in the traced run."""
        lines, seen = self.lines_of(candidate), set()
        for line, names in kinds.get((candidate["path"], name), ()):
            if line in lines:
                seen |= {"number" if n in NUMBERS else n for n in names}
        return seen

    # Trying

    def run(self):
        if not self.prepare():
            self.write(["done", False])
            return
        # What is there already stays out of the collector's sight, so that forks do not copy its pages.
        gc.collect()
        self.living = splice.living_functions()
        gc.freeze()
        order = self.ordered()
        self._prepare_batch()
        best, rest = order[:BEST], order[BEST:]
        half = time.monotonic() + (self.until - time.monotonic()) / 2
        done = self.first_order(best) and self.second_order(best, half if rest else self.until)
        done = done and self.first_order(rest) and self.last_resort(order)
        self.tell(0.0)
        self.write(["done", done])

    def _prepare_batch(self):
        """Batches need at least one failing test that can be run again and again."""
        names = [n for n in self.red[:8] + self.green[:3] if self.tests[n].is_repeatable]
        names = self.known.repeatable(names, self.green, (self.until - time.monotonic()) * 0.15)
        red = [n for n in names if n in self.red]
        green = [n for n in names if n in self.green]
        if red:
            known = lambda n: (self.tests[n], self.known.costs.get(n, LOOPING), self.known.walls.get(n, LOOPING))  # noqa: E731
            paths = {call[0] for n in names for call in self.known.calls.get(n, ())} | {c["path"] for c in self.candidates}
            self.batch = Batch(self.root, self.swap, [known(n) for n in red], known(green[0]) if green else None, paths)

    def tell(self, score):
        batch = [self.batch.tried, round(self.batch.seconds, 3)] if self.batch else [0, 0.0]
        self.write(["at", score, batch, [self.forked, round(self.fork_seconds, 3)]])

    def first_order(self, order):
        """Every change for itself; False when there was no time for that."""
        if self.batch is None:
            for number, candidate in enumerate(order):
                if time.monotonic() >= self.until:
                    return False
                self.judge([candidate])
                if number % 20 == 0:
                    self.tell(candidate["score"])
            return True
        slow = self._swept(order, self.until)
        if slow:
            patience = time.monotonic() + (self.until - time.monotonic()) * SLOW_SHARE
            self._swept(slow, patience, patient=True)
        return time.monotonic() < self.until

    def _swept(self, order, until, patient=False):
        """Batch by batch; returns those that were too slow."""
        slow = []
        for index, outcome in self.batch.run([[c] for c in order], until, patient=patient):
            if outcome == "passed":
                self.judge([order[index]])
            elif outcome == "slow":
                slow.append(order[index])
            elif outcome == "fresh":
                self.write(["fresh", order[index]["id"]])
            elif outcome is None:
                self.tell(order[index]["score"])
        return slow

    def second_order(self, order, until):
        """Pairs, of which one alone turned a failing test green or got further; only where nothing was found before."""
        if self.batch is None or self.hits:
            return True
        found = []
        survey = time.monotonic() + (until - time.monotonic()) / 2
        for index, outcome in self.batch.run([[c] for c in order], survey, surveying=True):
            if isinstance(outcome, tuple):
                found.append((-outcome[1], -outcome[2], index))
        pairs = []
        for rank, (_, _, index) in enumerate(sorted(found)[:PARTIAL]):
            first = order[index]
            others = [c for c in order[:PARTNERS] if c["path"] == first["path"]]
            others = [c for c in others if c["end"] <= first["start"] or c["start"] >= first["end"]]
            pairs += [(rank // 3, -c["score"], [first, c]) for c in others if c is not first]
        pairs.sort(key=lambda pair: pair[:2])
        for index, outcome in self.batch.run([pair for _, _, pair in pairs], until):
            if outcome == "passed":
                self.judge(pairs[index][2])
            elif outcome is None:
                self.tell(0.0)
        return time.monotonic() < self.until

    def last_resort(self, order):
        """The best ones once more in forks: perhaps a batch is not the place for these tests."""
        for candidate in order[:LAST] if self.batch is not None and not self.hits else ():
            if time.monotonic() >= self.until:
                return False
            self.judge([candidate])
        return True

    def judge(self, edits):
        """In a fork of its own: every failing test and the related passing ones, each as its own runner runs it."""
        key = tuple(sorted(edit["id"] for edit in edits))
        if key in self.hits:
            return
        green = [n for n in self.green if any(n in self.callers(edit, [n]) for edit in edits)]
        names = self.red + affordable(green, self.known.costs)

        def work(write):
            bound_memory()
            try:
                self.swap(edits)
            except splice.NotSwappable:
                write("fresh")
                return
            except (SyntaxError, ValueError):
                write("wrong")
                return
            limit = Limit()
            if attempt(self.tests, names, self.known.costs, write, limit):
                write(self.promises(edits, limit))

        begin = time.monotonic()
        fork, kept = Forked(work), None
        try:
            for name in names:
                cost = self.known.walls.get(name, LOOPING)
                word = fork.word(time.monotonic() + 2 * (WAIT + SLACK) + 20 * cost)
                if word == "fresh":
                    self.write(["fresh", edits[0]["id"]])
                if word is not True:
                    return
            kept = fork.word(time.monotonic() + 5.0)
        finally:
            fork.end()
            self.forked += 1
            self.fork_seconds += time.monotonic() - begin
        self.hits.add(key)
        known = kept if isinstance(kept, list) and len(kept) == 2 else [0, 0]
        self.tell(edits[0]["score"])
        self.write(["plausible", [edit["id"] for edit in edits], len(names), known])

    def promises(self, edits, limit):
        """[kept, made]: examples in the docstrings of the changed functions and of those that the failing tests call."""
        path = edits[0]["path"]
        swapper = self.swapper(path)
        called = {c[1] for n in self.red for c in self.known.calls.get(n, ()) if c[0] == path}
        lines = {edit["line"] for edit in edits}
        kept = made = 0
        for node, classes in swapper.functions.values():
            if classes or not (node.lineno in lines or node.name in called):
                continue
            live = [f for code in swapper.by_place.values() if code.co_name == node.name for f in swapper.live[code]]
            document = live[0].__doc__ if live else None
            if isinstance(document, str):
                found = examples.of(document, node.name)
                made += len(found)
                kept += examples.kept(found, live[0].__globals__, limit)
        return [kept, made]


def serve(plan, root, candidates):
    """Work of the fork that becomes a server."""

    def work(write):
        try:
            ids = plan["red"] + plan["green"]
            warm.collect(plan, root, ids, lambda tests: Server(plan, root, tests, candidates, write).run())
        except warm.Unavailable as why:
            write(["unavailable", str(why)])

    return work
