"""Forks that run code under test and send back JSON messages, time limits for one call in them, and measurements of tests.

A fork that hangs, exits, crashes or writes invalid messages loses only its own work. A call that takes too long gets an
exception. Code under test can swallow it, so the timer fires again; if control never returns to Python, the kernel kills the
process. Not on Windows. `Measurements` of tests on the unchanged code: cost, called functions, types of variables.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any, Callable, NoReturn, TypeVar

from . import hot_swap

T = TypeVar("T")
Write = Callable[[Any], None]

MESSAGE_LIMIT = 1 << 24  # bytes
LOOPING = 0.005  # CPU seconds assumed for a test that never ended on the unchanged code
UNKNOWN = 0.5  # CPU seconds for a test that did not end before
PROBED = 10  # time limit for a traced test, as a multiple of its usual duration
MEMORY = 2 << 30  # additional bytes per process
RETURNS = 300  # most calls of one function in which variables are inspected
AGAIN = 0.02  # CPU seconds after which the exception is raised again, if it was swallowed


class Fork:
    """A fork that runs `work(write)`. What it writes arrives as messages until it ends or is killed."""

    def __init__(self, work: Callable[[Write], None], close: Iterable[int] = ()) -> None:
        self.reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                os.close(self.reader)
                for fd in close:
                    os.close(fd)
                work(lambda message: _write(writer, message))
            except BaseException:  # any end of the work: the parent sees a closed pipe
                pass
            finally:
                os._exit(0)
        os.close(writer)
        self.pending = bytearray()
        self.is_closed = False  # it has closed its end or wrote an invalid message

    def receive(self, deadline: float) -> Any:
        """The next message; None if the fork died, sent an invalid one, or nothing until `deadline` (monotonic seconds).

        What is there already is read even after the deadline.
        """
        while b"\n" not in self.pending:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self.reader], [], [], left)[0]:
                return None
            chunk = os.read(self.reader, 1 << 16)
            if not chunk or len(self.pending) > MESSAGE_LIMIT:
                self.is_closed = True
                return None
            self.pending += chunk
            if b"\n" not in chunk and time.monotonic() > deadline:
                return None
        line, _, rest = self.pending.partition(b"\n")
        self.pending = rest
        try:
            return json.loads(line.decode())
        except ValueError:
            self.is_closed = True
            return None

    def end(self) -> None:
        """Kill it with its process group. A process that left the group dies at its limits or with the sandbox."""
        for kill in (os.killpg, os.kill):
            try:
                kill(self.pid, signal.SIGKILL)
            except OSError:
                pass
        os.waitpid(self.pid, 0)
        os.close(self.reader)


def _write(fd: int, message: Any) -> None:
    data = (json.dumps(message) + "\n").encode()
    while data:
        data = data[os.write(fd, data) :]


def run_observed(
    tests: Mapping[str, Callable[[], bool]],
    names: Iterable[str],
    probe: Callable[[], Callable[[], Any]],
    seconds: float,
    durations: Mapping[str, float],
) -> Iterator[tuple[str, bool | None, float, float, Any]]:
    """Run tests on the unchanged code, many in one fork, a new fork after each that kills it.

    Yields (name, passed or None, CPU seconds, wall seconds, what `probe` saw). `probe()` starts observing and returns a
    callable that stops and returns the result. `seconds` bounds all runs; `durations` are earlier durations in seconds.
    """
    names, until = list(names), time.monotonic() + seconds

    def patience(name: str) -> float:
        return 0.5 + PROBED * durations[name] if name in durations else UNKNOWN

    def work(write: Write) -> None:
        limit = TimeLimit()
        for name in names:
            cpu, wall = time.process_time(), time.monotonic()
            stop = probe()
            try:
                passed = limit.run(tests[name], patience(name), patience(name) + 2.0)
            finally:
                seen = stop()
            verdict = None if limit.expired else bool(passed)
            write([verdict, time.process_time() - cpu, time.monotonic() - wall, seen])

    while names and time.monotonic() < until:
        fork = Fork(work)
        try:
            while names:
                message = fork.receive(min(until, time.monotonic() + 4 * patience(names[0]) + 3.0))
                if not isinstance(message, list) or len(message) != 4:
                    break
                cost = (LOOPING, LOOPING) if message[0] is None else (message[1], message[2])
                yield (names.pop(0), message[0], cost[0], cost[1], message[3])
        finally:
            fork.end()
        if names and time.monotonic() < until:
            yield (names.pop(0), None, LOOPING, LOOPING, None)


class Expired(BaseException):
    """Raised in a call that took too long."""


class TimeLimit:
    """The timers of this process; one at a time, in its main thread."""

    def __init__(self) -> None:
        self.expired = False  # whether the last call ran out of time, even if it swallowed the exception
        signal.signal(signal.SIGPROF, self._fire)
        signal.signal(signal.SIGALRM, self._fire)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)

    def _fire(self, signum: int, frame: object) -> NoReturn:
        self.expired = True
        raise Expired

    def run(self, call: Callable[[], T], cpu: float, wall: float) -> T | None:
        """What `call()` returns; None if it raised anything or ran out of time."""
        self.expired = False
        try:
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, 4 * cpu + 0.5)
                signal.setitimer(signal.ITIMER_REAL, wall, 0.1)
                signal.setitimer(signal.ITIMER_PROF, cpu, AGAIN)
                return call()
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except BaseException:  # code under test, including SystemExit, and `Expired`
            return None


def bound_memory() -> None:
    try:
        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = now + MEMORY if hard == resource.RLIM_INFINITY else min(now + MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (OSError, ValueError):
        pass


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
        """Run each test on the unchanged code; returns the verdicts, None for a test that did not end."""
        verdicts: dict[str, bool | None] = {}
        for name, passed, cpu, wall, seen in run_observed(
            self.tests, names, lambda: record_calls(self.root), seconds, self.durations
        ):
            if passed is None:  # recording could have made it too slow
                cpu = wall = max(LOOPING, self.durations.get(name, 0.0))
            verdicts[name], self.costs[name], self.walls[name] = passed, cpu, wall
            if seen is not None:
                self.calls[name] = {tuple(call) for call in seen[0]}
                for path, line, variable, kinds in seen[1]:
                    self.types.setdefault((path, line, variable), set()).update(kinds)
        return verdicts

    def repeatable(self, names: Collection[str], passing: Collection[str], seconds: float) -> list[str]:
        """The tests that give the same verdict each time in one process, both after and before the others."""
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
