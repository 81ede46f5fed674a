"""Many changes tried in a row in one process by direct calls; runs inside the sandbox, in forks of the server.

A batch is for finding out quickly: what it says may be wrong in both directions, because code under test shares its process.
So whatever passes is judged once more in a fork of its own, and a batch that no longer finds the unchanged code as it was is
tried again in smaller pieces.
"""

import mmap
import os
import resource
import struct
import time

from . import splice
from .forks import Forked
from .keeping import Keeper
from .limits import Limit

SHORT = 0.02  # CPU seconds that the first failing test may take besides a multiple of what it took
LONG = 0.6  # the same for changes that get a second chance
WAIT = 0.4  # seconds of wall time besides, for sleeps and locks
STUCK = 3.0  # seconds of silence after which a process is taken for stuck
LIFE = 400  # changes for one process
MEMORY = 2 << 30  # bytes that one process may add


def bound_memory():
    try:
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = now + MEMORY if hard == resource.RLIM_INFINITY else min(now + MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (OSError, ValueError):
        pass


class Batch(object):
    """Tries changes against the failing tests that can be run again and again.

    `swap(edits)` puts a change in and returns its undoing; `red` are (test, CPU seconds, wall seconds), the cheapest first;
    `witness` is one that passes on the unchanged code, or None; `paths` the files whose modules must stay as they are.
    """

    def __init__(self, root, swap, red, witness, paths):
        self.root, self.swap, self.red, self.witness, self.paths = root, swap, red, witness, paths
        self.mark = mmap.mmap(-1, 8)
        self.tried, self.seconds = 0, 0.0

    def run(self, jobs, until, patient=False, surveying=False):
        """Yield (index, outcome) for what came out other than "no test passed"; jobs are lists of edits.

        Outcomes: "passed" (every failing test), "slow", "fresh" (cannot be swapped in); where `surveying`, ("further", tests,
        lines): how many failing tests passed and how much further the others got. Yields (index, None) now and then.
        """
        pieces = [(start, min(start + LIFE, len(jobs))) for start in range(0, len(jobs), LIFE)]
        while pieces and time.monotonic() < until:
            start, stop = pieces.pop(0)
            fork = Forked(lambda write: self._work(write, jobs, start, stop, patient, surveying))  # noqa: B023 - used at once
            reached, before = start, self.tried
            self.mark[:8] = struct.pack("q", start)
            try:
                for word in self._words(fork, until):
                    at = min(max(self._marked(), start), stop - 1)
                    self.tried = before + at - start + 1
                    if word is None:
                        yield at, None
                    elif word[0] == "end":
                        reached = min(max(word[1], start), stop)
                    elif word[0] == "soiled" and stop - start > 1:
                        step = max(1, (stop - start) // 8)
                        pieces[:0] = [(s, min(s + step, stop)) for s in range(start, stop, step)]
                        reached = stop
                    elif start <= word[1] < stop:
                        yield word[1], tuple(word[2]) if isinstance(word[2], list) else word[2]
            finally:
                at = min(max(self._marked(), start), stop - 1)
                fork.end()
            if reached == start:
                reached = at + 1  # it died there
            self.tried = before + reached - start
            if reached < stop:
                pieces.insert(0, (reached, stop))
            yield reached - 1, None

    def _marked(self):
        return struct.unpack("q", self.mark[:8])[0]

    def _words(self, fork, until):
        """What it says, until it ends or nothing moves any more; None now and then while it is silent."""
        begin = moved = time.monotonic()
        last, before = self._marked(), self.seconds
        stuck = STUCK + 10 * sum(wall for _, _, wall in self.red)
        while time.monotonic() < until:
            word = fork.word(min(until, time.monotonic() + 0.2))
            self.seconds = before + time.monotonic() - begin
            if isinstance(word, list) and len(word) > 1 and isinstance(word[1], int):
                yield word
                moved = time.monotonic()
                if word[0] in ("end", "soiled"):
                    break
            elif fork.is_silent:
                break
            elif self._marked() != last:
                last, moved = self._marked(), time.monotonic()
                yield None
            elif time.monotonic() - moved > stuck:
                break

    def _work(self, write, jobs, start, stop, patient, surveying):
        bound_memory()
        server, limit = os.getppid(), Limit()
        keeper = Keeper(self.root, self.paths)
        base = self._lines(limit)
        if not keeper.restore():  # what the first run of a process sets up once and for all
            keeper = Keeper(self.root, self.paths)
        index = start
        for index in range(start, stop):
            self.mark[:8] = struct.pack("q", index)
            outcome = self._one(limit, jobs[index], patient, base if surveying else None)
            if outcome is not None:
                write(["tried", index, outcome])
            if os.getppid() != server:
                return
            if not keeper.restore():
                break
        write(["end", index + 1] if self._is_as_it_was(limit, base) else ["soiled", index])

    def _lines(self, limit):
        """Where each failing test fails on the unchanged code, None where that is not known."""
        lines = []
        for test, cpu, wall in self.red:
            limit.run(test.again, SHORT + 3 * cpu, WAIT + 10 * wall)
            lines.append(test.reached)
        return lines

    def _is_as_it_was(self, limit, base):
        test, cpu, wall = self.red[0]
        if limit.run(test.again, SHORT + 3 * cpu, WAIT + 10 * wall) is True:
            return False
        if test.reached != base[0] and not limit.expired:
            return False
        if self.witness is None:
            return True
        test, cpu, wall = self.witness
        return limit.run(test.again, 1.0 + 3 * cpu, 1.0 + 10 * wall) is True

    def _one(self, limit, edits, patient, base):
        try:
            undo = self.swap(edits)
        except splice.NotSwappable:
            return "fresh"
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None
        passed = lines = 0
        try:
            for number, (test, cpu, wall) in enumerate(self.red):
                more = LONG if patient or passed else SHORT
                if limit.run(test.again, more + (10 if patient else 3) * cpu, WAIT + 10 * wall) is True:
                    passed += 1
                elif base is None:
                    return "slow" if limit.expired and not patient else None
                elif limit.expired:
                    return None
                elif test.reached is not None and base[number] is not None:
                    lines += max(0, test.reached - base[number])
        finally:
            undo()
        if passed == len(self.red):
            return "passed"
        return ["further", passed, lines] if passed or lines else None
