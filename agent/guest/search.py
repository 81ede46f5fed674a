"""Tries many small changes against tests in warm processes; runs inside the sandbox, standard library only.

stdin: one JSON line with the plan, then one JSON line for each change, best first.
stdout: JSON lines `ready`, `plausible` …, `done`. Code under test never holds that channel: it runs in forks of a *server*,
which is a fork of the driver. All of it is hostile: a fork may hang, exit, crash or write nonsense, and only loses its own try.

    driver (answers) ── server (has collected; restarted when it dies) ── one fork for each change
                     └─ one fork for each change that needs a fresh import
"""

import gc
import json
import os
import resource
import sys
import time
from importlib.machinery import SourceFileLoader

from . import splice, warm
from .forks import LOOPING, Forked, allow, observed

SLACK = 0.08  # CPU seconds a test may take besides a multiple of what it took
GREEN_CPU = 2.0  # CPU seconds of passing tests for one change
WAIT = 1.0  # seconds of wall time a test may take besides: for sleeps and locks
IMPORTING = 10.0  # the same where everything is imported first
MEMORY = 2 << 30  # bytes that one try may add


def bound_memory():
    try:
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = now + MEMORY if hard == resource.RLIM_INFINITY else min(now + MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (OSError, ValueError):
        pass


def attempt(tests, names, costs):
    """Work of a fork: run tests in order, tell each verdict, stop at the first that fails."""

    def work(write):
        for name in names:
            allow(SLACK + 4 * costs.get(name, LOOPING))
            passed = bool(tests[name]())
            write(passed)
            if not passed:
                return

    return work


def judge(fork, names, costs):
    """How many of `names` passed, in order."""
    passed, grace = 0, IMPORTING
    try:
        for name in names:
            if fork.word(time.monotonic() + grace + 10 * costs.get(name, LOOPING)) is not True:
                break
            grace = WAIT
            passed += 1
    finally:
        fork.end()
    return passed


def watch_calls(root):
    """Note which functions of the repository are called, until the returned callable is called."""
    seen = set()

    def profile(frame, event, arg):
        if event == "call":
            seen.add(frame.f_code)

    def stop():
        sys.setprofile(None)
        places = {(splice.inside(root, c.co_filename), c.co_name, c.co_firstlineno) for c in seen}
        return sorted(place for place in places if place[0] is not None)

    sys.setprofile(profile)
    return stop


def affordable(names, costs):
    """The first of these tests, as many as one change may cost."""
    spent, chosen = 0.0, []
    for name in names:
        spent += costs[name]
        if spent > GREEN_CPU:
            break
        chosen.append(name)
    return chosen


class Server(object):
    """Lives in a fork of the driver, after collection: measures the tests, then tries changes that can be swapped in."""

    def __init__(self, plan, root, tests, requests, write):
        self.plan, self.root, self.tests, self.requests, self.write = plan, root, tests, requests, write
        self.costs, self.calls, self.swappers = {}, {}, {}

    def measure(self, names, seconds):
        """Run each test on the unchanged code; returns verdicts. Fills what they cost and which functions they call."""
        verdicts = {}
        for name, passed, cost, seen in observed(
            self.tests, names, lambda: watch_calls(self.root), seconds, max(1.0, seconds / 4)
        ):
            verdicts[name], self.costs[name] = passed, cost
            if seen is not None:
                self.calls[name] = {tuple(place) for place in seen}
        return verdicts

    def run(self):
        plan = self.plan
        red = [n for n in plan["red"] if n in self.tests]
        verdicts = self.measure(red, plan["seconds"] * 0.3)
        red = sorted((n for n in red if verdicts.get(n) is not True), key=lambda n: self.costs.get(n, LOOPING))
        wanted = set(plan["green"])
        related = [n for n in self.tests if n in wanted]
        verdicts = self.measure(related, plan["seconds"] * 0.2)
        green = sorted((n for n in related if verdicts.get(n)), key=self.costs.get)
        self.write(["ready", len(self.tests), red, green, self.costs, [n for n in plan["red"] if n not in self.tests]])
        # What is there already stays out of the collector's sight, so that forks do not copy its pages.
        gc.collect()
        self.living = splice.living_functions()
        gc.freeze()
        for line in self.requests:
            candidate = json.loads(line)
            self.write(self.answer(candidate, red, green))

    def answer(self, candidate, red, green):
        path = candidate["path"]
        if path not in self.swappers:
            try:
                self.swappers[path] = splice.Swapper(os.path.join(self.root, path), self.living)
            except (SyntaxError, ValueError, OSError, RecursionError):  # an older Python may read it otherwise than ours
                self.swappers[path] = None
        if self.swappers[path] is None:
            return ["wrong"]
        swapper = self.swappers[path]
        place = swapper.functions.get(candidate["line"])
        if place is None:
            return ["fresh"]
        node = place[0]
        first = min([node.lineno] + [d.lineno for d in node.decorator_list])
        # Any function inside counts: a decorator's own code runs at import, its wrapper in the test.
        lines = range(first, node.end_lineno + 1)

        def calls(name):
            return any(place[0] == path and place[2] in lines for place in self.calls.get(name, ()))

        if not any(calls(n) or n not in self.calls for n in red):
            return ["unused"]
        names = red + affordable([n for n in green if calls(n)], self.costs)

        def work(write):
            bound_memory()
            try:
                swapper.swap(candidate)
            except splice.NotSwappable:
                write("fresh")
                return
            except (SyntaxError, ValueError):
                write("wrong")
                return
            attempt(self.tests, names, self.costs)(write)

        fork = Forked(work)
        passed = 0
        try:
            for name in names:
                word = fork.word(time.monotonic() + WAIT + 10 * self.costs.get(name, LOOPING))
                if word in ("fresh", "wrong"):
                    return [word]
                if word is not True:
                    break
                passed += 1
        finally:
            fork.end()
        return ["judged", passed, len(red), len(names)]


def serving(plan, root, requests):
    """Work of the fork that becomes a server."""

    def work(write):
        with os.fdopen(requests, "rb") as lines:
            try:
                ids = plan["red"] + plan["green"]
                warm.collect(plan, root, ids, lambda tests: Server(plan, root, tests, lines, write).run())
            except warm.Unavailable as why:
                write(["unavailable", str(why)])

    return work


def afresh(plan, root, candidate, names, costs):
    """Work of a fork that has imported nothing of the repository: imports the changed file as if it were on disk."""

    def work(write):
        bound_memory()
        allow(5.0)
        real = os.path.realpath(os.path.join(root, candidate["path"]))
        changed = splice.spliced(splice.read_text(real), candidate)
        original = SourceFileLoader.get_code

        def get_code(self, name):
            if os.path.realpath(self.path) == real:
                return self.source_to_code(changed.encode("utf-8"), self.path)
            return original(self, name)

        SourceFileLoader.get_code = get_code
        warm.collect(plan, root, names, lambda tests: attempt(tests, names, costs)(write))

    return work


class Driver(object):
    """Holds the answer channel and the clock; imports nothing of the repository, only its test runner."""

    def __init__(self, plan, root, candidates, answers):
        self.plan, self.root, self.candidates, self.answers = plan, root, candidates, answers
        self.deadline = time.monotonic() + plan["seconds"]
        self.server = self.requests = None
        self.red, self.needed, self.costs = [], [], {}

    def say(self, event):
        os.write(self.answers, (json.dumps(event) + "\n").encode())

    def start(self):
        reader, writer = os.pipe()
        self.server = Forked(serving(self.plan, self.root, reader), close=(writer, self.answers))
        os.close(reader)
        self.requests = writer
        word = self.server.word(self.deadline)
        if not isinstance(word, list) or word[0] != "ready":
            reason = word[1] if isinstance(word, list) and word[0] == "unavailable" else "the tests could not be collected"
            return {"event": "unavailable", "why": reason}
        _, items, self.red, green, self.costs, missing = word
        self.needed = self.red + affordable(green, self.costs)
        return {"event": "ready", "items": items, "red": self.red, "green": len(green), "missing": missing}

    def stop(self):
        if self.server is not None:
            self.server.end()
            os.close(self.requests)
            self.server = None

    def ask(self, candidate):
        try:
            os.write(self.requests, (json.dumps(candidate) + "\n").encode())
        except OSError:
            return None
        return self.server.word(self.deadline)

    def run(self):
        begin = time.monotonic()
        ready = self.start()
        ready["seconds"] = round(time.monotonic() - begin, 3)
        self.say(ready)
        tried, plausible, partial, restarts, first = 0, 0, [], 0, time.monotonic()
        ended = ready["event"] != "ready" or not self.red or bool(ready.get("missing"))
        exhausted = not ended
        for candidate in [] if ended else self.candidates:
            if time.monotonic() >= self.deadline:
                exhausted = False
                break
            word = self.ask(candidate)
            if word is None and time.monotonic() < self.deadline:
                self.stop()
                restarts += 1
                if restarts > 3 or self.start()["event"] != "ready":
                    exhausted = False
                    break
                continue
            if word is None or word[0] in ("unused", "wrong"):
                continue
            tried += 1
            if word[0] == "fresh":
                fork = Forked(
                    afresh(self.plan, self.root, candidate, self.needed, self.costs), close=(self.answers, self.requests)
                )
                passed = judge(fork, self.needed, self.costs)
                needed, of = len(self.red), len(self.needed)
            else:
                _, passed, needed, of = word
            if passed == of:
                plausible += 1
                self.say({"event": "plausible", "id": candidate["id"], "tests": of, "tried": tried,
                          "seconds": round(time.monotonic() - begin, 3)})  # fmt: skip
                if plausible == 1:
                    self.deadline = min(self.deadline, time.monotonic() + self.plan["after_hit"])
            elif 0 < passed < needed:
                partial.append(candidate["id"])
        now = time.monotonic()
        self.stop()
        self.say({"event": "done", "tried": tried, "plausible": plausible, "exhausted": exhausted, "partial": partial[:20],
                  "seconds": round(now - begin, 3), "rate": round(tried / max(now - first, 0.001), 1)})  # fmt: skip


def main():
    plan = json.loads(sys.stdin.buffer.readline().decode())
    candidates = [json.loads(line.decode()) for line in sys.stdin.buffer]
    answers, root = warm.silence()
    warm.preload(plan["reader"])
    Driver(plan, root, candidates, answers).run()
    return 0
