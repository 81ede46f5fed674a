"""Measures the tests on the unchanged code, in forks: their cost, the functions they call, the types of variables."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from types import CodeType, FrameType
from typing import Any

from . import hot_swap
from .forks import LOOPING, Fork, TimeLimit, Write, run_observed

RETURNS = 300  # calls of one function whose variables are inspected


def record_calls(root: str) -> Callable[[], Any]:
    """Record which functions of the repository are called and the types of their variables, until the result is called."""
    seen: set[CodeType] = set()
    types: dict[tuple[CodeType, str], set[str]] = {}
    returns: dict[CodeType, int] = {}

    def profile(frame: FrameType, event: str, arg: object) -> None:
        if event == "call":
            seen.add(frame.f_code)
        elif event == "return":
            code = frame.f_code
            count = returns[code] = returns.get(code, 0) + 1
            if count <= RETURNS and hot_swap.repository_path(root, code.co_filename) is not None:
                for name, value in frame.f_locals.items():
                    types.setdefault((code, name), set()).add(type(value).__name__)

    def stop() -> Any:
        sys.setprofile(None)
        calls = {(hot_swap.repository_path(root, c.co_filename), c.co_name, c.co_firstlineno) for c in seen}
        variables = [
            (hot_swap.repository_path(root, code.co_filename), code.co_firstlineno, name, sorted(kinds))
            for (code, name), kinds in types.items()
        ]
        return sorted((path, name, line) for path, name, line in calls if path is not None), variables[:5000]

    sys.setprofile(profile)
    return stop


class Measurements:
    """Facts about tests, by their ids; filled by `measure`. `durations` (seconds) are those of earlier runs."""

    def __init__(self, root: str, tests: Mapping[str, Any], durations: Mapping[str, float]) -> None:
        self.root, self.tests, self.durations = root, tests, durations
        self.costs: dict[str, float] = {}  # CPU seconds
        self.walls: dict[str, float] = {}  # seconds of wall time
        self.calls: dict[str, set[tuple[Any, ...]]] = {}  # {(path, function, first line), ...}
        self.types: dict[tuple[str, int, str], set[str]] = {}  # (path, function's first line, variable) -> names of types

    def measure(self, names: Iterable[str], seconds: float) -> dict[str, bool | None]:
        """Run each test on the unchanged code; returns verdicts, None where one did not end."""
        verdicts: dict[str, bool | None] = {}
        for name, passed, cpu, wall, seen in run_observed(
            self.tests, names, lambda: record_calls(self.root), seconds, self.durations
        ):
            if passed is None:  # recording may have made it too slow
                cpu = wall = max(LOOPING, self.durations.get(name, 0.0))
            verdicts[name], self.costs[name], self.walls[name] = passed, cpu, wall
            if seen is not None:
                self.calls[name] = {tuple(call) for call in seen[0]}
                for path, line, variable, kinds in seen[1]:
                    self.types.setdefault((path, line, variable), set()).update(kinds)
        return verdicts

    def repeatable(self, names: Collection[str], passing: Collection[str], seconds: float) -> list[str]:
        """The tests that give the same verdict each time in one process, after and before the others."""
        results: dict[str, list[bool]] = {}

        def work(write: Write) -> None:
            limit = TimeLimit()
            for _ in range(2):
                for name in names:
                    cpu, wall = self.costs.get(name, LOOPING), self.walls.get(name, LOOPING)
                    passed = limit.run(self.tests[name].again, 0.1 + 3 * cpu, 1.0 + 10 * wall) is True
                    write([name, passed])

        fork, until = Fork(work), time.monotonic() + seconds
        try:
            while True:
                message = fork.receive(until)
                if not isinstance(message, list):
                    break
                results.setdefault(message[0], []).append(message[1])
        finally:
            fork.end()
        return [name for name in names if results.get(name) == [name in passing] * 2]
