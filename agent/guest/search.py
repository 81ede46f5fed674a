"""Tries many small changes against tests in warm processes; runs inside the sandbox, standard library only.

stdin: one JSON line with the plan, then one JSON line for each change, best first.
stdout: JSON lines `ready`, `plausible` …, `done`. Code under test never holds that channel: it runs in forks of a *server*,
which is a fork of the driver. All of it is hostile: a fork may hang, exit, crash or write nonsense, and only loses its own try.

    driver (answers) ── server (has collected) ─┬─ one fork for many changes, swapped in one after the other
                     │                          └─ one fork for each change that passed there
                     └─ one fork for each change that needs a fresh import
"""

import json
import os
import sys
import time
from importlib.machinery import SourceFileLoader

from . import prelude, splice, warm
from .batch import bound_memory
from .forks import LOOPING, Forked
from .limits import Limit
from .server import affordable, attempt, serve

IMPORTING = 10.0  # seconds of wall time for collecting in a fresh process
DOUBTED = 5  # times as long is looked on after a hit that breaks what a docstring promises
BETTER = 5.0  # seconds at most for likelier changes that wait, once something was found
INSIDE = 30  # tests that are run of files which could not be collected before


def afresh(plan, root, candidate, names, costs):
    """Work of a fork that has imported nothing of the repository: imports the changed file as if it were on disk."""

    def work(write):
        bound_memory()
        limit = Limit()
        real = os.path.realpath(os.path.join(root, candidate["path"]))
        changed = splice.spliced(splice.read_text(real), [candidate])
        original = SourceFileLoader.get_code

        def get_code(self, name):
            if os.path.realpath(self.path) == real:
                return self.source_to_code(changed.encode("utf-8"), self.path)
            return original(self, name)

        def serve_once(tests):
            if attempt(tests, names, costs, write, limit):
                inside = [test for name in names if isinstance(tests[name], warm.File) for test in tests[name].tests][:INSIDE]
                write([sum(limit.run(test, 1.0, 3.0) is True for test in inside), len(inside)])

        SourceFileLoader.get_code = get_code
        warm.collect(plan, root, names, serve_once)

    return work


class Driver(object):
    """Holds the answer channel and the clock; imports nothing of the repository, only its test runner."""

    def __init__(self, plan, root, candidates, answers):
        self.plan, self.root, self.answers = plan, root, answers
        self.candidates = {c["id"]: c for c in candidates}
        self.begin = time.monotonic()
        self.deadline = plan["until"] = self.begin + plan["seconds"]
        self.server = None
        self.red, self.needed, self.costs = [], [], {}
        hidden = any(self.is_file(name) for name in plan["red"])  # the process that has collected shows nothing then
        self.waiting = [c for c in candidates if hidden or not c["line"]]  # for a fresh import
        self.frontier = 1.0  # score of what the server tries now
        self.batched, self.forked = [0, 0.0], [0, 0.0]
        self.fresh, self.fresh_seconds = 0, 0.0
        self.best = None  # score of the best hit

    def say(self, event):
        os.write(self.answers, (json.dumps(event) + "\n").encode())

    def since(self):
        return round(time.monotonic() - self.begin, 3)

    def start(self):
        """Fork the server; returns what it says when it has collected and measured."""
        candidates = list(self.candidates.values())
        self.server = Forked(serve(self.plan, self.root, candidates), close=(self.answers,))
        word = self.server.word(self.deadline)
        if not isinstance(word, list) or word[0] != "ready":
            if any(self.is_file(name) for name in self.plan["red"]):  # then that is what has to be healed
                self.red = self.needed = self.plan["red"]
                return {"event": "ready", "items": 0, "red": self.red, "green": 0, "missing": []}
            reason = word[1] if isinstance(word, list) and word[0] == "unavailable" else "the tests could not be collected"
            return {"event": "unavailable", "why": reason}
        _, items, self.red, green, self.costs, missing = word
        self.needed = self.red + affordable(green, self.costs)
        return {"event": "ready", "items": items, "red": self.red, "green": len(green), "missing": missing}

    def is_file(self, name):
        return self.plan["reader"] == "pytest" and "::" not in name

    def run(self):
        ready = self.start()
        ready["seconds"] = self.since()
        self.say(ready)
        is_over, exhausted = False, False
        if ready["event"] == "ready" and self.red and not ready["missing"]:
            exhausted = True
            while (time.monotonic() < self.deadline or self.is_better_waiting()) and not (is_over and not self.waiting):
                due = bool(self.waiting) and (is_over or self.waiting[0]["score"] >= self.frontier)
                if not is_over:
                    word = self.server.word(time.monotonic() if due else min(self.deadline, time.monotonic() + 0.5))
                    if word is None and self.server.is_silent:
                        is_over, exhausted = True, False  # it died
                    elif isinstance(word, list) and word:
                        if word[0] == "done":
                            is_over, exhausted = True, bool(word[1])
                        else:
                            self.hear(word)
                        continue
                if due:
                    self.import_afresh(self.waiting.pop(0))
            exhausted = exhausted and is_over and not self.waiting
        self.server.end()
        self.done(exhausted)

    def is_better_waiting(self):
        """Something was found, but a change that is likelier still waits for its import."""
        in_time = time.monotonic() < min(self.plan["until"], self.deadline + BETTER)
        return in_time and self.best is not None and bool(self.waiting) and self.waiting[0]["score"] > self.best

    def hear(self, word):
        if word[0] == "fresh" and word[1] in self.candidates:
            self.waiting.append(self.candidates[word[1]])
            self.waiting.sort(key=lambda c: -c["score"])
        elif word[0] == "at":
            self.frontier, self.batched, self.forked = word[1:4]
        elif word[0] == "plausible":
            self.found(word[1], word[2], word[3])

    def found(self, ids, tests, kept):
        self.say({"event": "plausible", "id": ids[0], "also": ids[1] if len(ids) > 1 else -1, "tests": tests,
                  "kept": kept[0], "promised": kept[1], "seconds": self.since()})  # fmt: skip
        # Where a docstring is against it, the right one is probably still to come.
        self.best = max(self.best or 0.0, self.candidates[ids[0]]["score"])
        patience = self.plan["after_hit"] * (1 if kept[0] == kept[1] else DOUBTED)
        self.deadline = min(self.deadline, time.monotonic() + patience)

    def import_afresh(self, candidate):
        begin = time.monotonic()
        fork = Forked(afresh(self.plan, self.root, candidate, self.needed, self.costs), close=(self.answers,))
        passed, grace, kept = 0, IMPORTING, None
        try:
            for name in self.needed:
                if fork.word(time.monotonic() + grace + 20 * self.costs.get(name, LOOPING)) is not True:
                    break
                grace = 3.0
                passed += 1
            if passed == len(self.needed):
                kept = fork.word(time.monotonic() + IMPORTING)
        finally:
            fork.end()
        self.fresh += 1
        self.fresh_seconds += time.monotonic() - begin
        if passed == len(self.needed):
            self.found([candidate["id"]], passed, kept if isinstance(kept, list) and len(kept) == 2 else [0, 0])

    def done(self, exhausted):
        self.say({"event": "done", "tried": self.batched[0] + self.forked[0] + self.fresh, "exhausted": exhausted,
                  "batched": self.batched, "forked": self.forked, "fresh": [self.fresh, round(self.fresh_seconds, 3)],
                  "seconds": self.since()})  # fmt: skip


def main():
    plan = json.loads(sys.stdin.buffer.readline().decode())
    candidates = [json.loads(line.decode()) for line in sys.stdin.buffer]
    answers, root = warm.silence()
    try:
        with prelude.played(plan, root):
            warm.preload(plan["reader"])
            Driver(plan, root, candidates, answers).run()
    except prelude.Failed as why:
        os.write(answers, (json.dumps({"event": "unavailable", "why": str(why)}) + "\n").encode())
    return 0
