"""What the tests do on the unchanged code: what they cost, which functions they call, what variables hold; in the sandbox.

Runs them in forks; changes nothing.
"""

import sys
import time

from . import splice
from .forks import LOOPING, Forked, observed
from .limits import Limit

RETURNS = 300  # calls of one function whose variables are looked at


def watch_calls(root):
    """Note which functions of the repository are called and what their variables hold, until the callable is called."""
    seen, types, returns = set(), {}, {}

    def profile(frame, event, arg):
        if event == "call":
            seen.add(frame.f_code)
        elif event == "return":
            code = frame.f_code
            count = returns[code] = returns.get(code, 0) + 1
            if count <= RETURNS and splice.inside(root, code.co_filename) is not None:
                for name, value in frame.f_locals.items():
                    types.setdefault((code, name), set()).add(type(value).__name__)

    def stop():
        sys.setprofile(None)
        calls = {(splice.inside(root, c.co_filename), c.co_name, c.co_firstlineno) for c in seen}
        variables = [
            (splice.inside(root, code.co_filename), code.co_firstlineno, name, sorted(kinds))
            for (code, name), kinds in types.items()
        ]
        return sorted(call for call in calls if call[0] is not None), variables[:5000]

    sys.setprofile(profile)
    return stop


class Measurements(object):
    """Facts about tests, by their ids; filled by `measure`. `durations` (seconds) says how long they took before."""

    def __init__(self, root, tests, durations):
        self.root, self.tests, self.durations = root, tests, durations
        self.costs, self.walls = {}, {}  # seconds of CPU, of wall time
        self.calls = {}  # {(path, function, first line), ...}
        self.types = {}  # (path, first line of the function, variable) -> names of types

    def measure(self, names, seconds):
        """Run each test on the unchanged code; returns verdicts, None where one did not end."""
        verdicts = {}
        probe = lambda: watch_calls(self.root)  # noqa: E731
        for name, passed, cpu, wall, seen in observed(self.tests, names, probe, seconds, self.durations):
            if passed is None:  # being looked at made it too slow, perhaps
                cpu = wall = max(LOOPING, self.durations.get(name, 0.0))
            verdicts[name], self.costs[name], self.walls[name] = passed, cpu, wall
            if seen is not None:
                self.calls[name] = {tuple(place) for place in seen[0]}
                for path, line, variable, kinds in seen[1]:
                    self.types.setdefault((path, line, variable), set()).update(kinds)
        return verdicts

    def repeatable(self, names, green, seconds):
        """Those of these tests that say the same again and again in one process, after and before the others."""
        told = {}

        def work(write):
            limit = Limit()
            for _ in range(2):
                for name in names:
                    cpu, wall = self.costs.get(name, LOOPING), self.walls.get(name, LOOPING)
                    passed = limit.run(self.tests[name].again, 0.1 + 3 * cpu, 1.0 + 10 * wall) is True
                    write([name, passed])

        fork, until = Forked(work), time.monotonic() + seconds
        try:
            while True:
                word = fork.word(until)
                if not isinstance(word, list):
                    break
                told.setdefault(word[0], []).append(word[1])
        finally:
            fork.end()
        return [name for name in names if told.get(name) == [name in green] * 2]
