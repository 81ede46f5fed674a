"""Tries many changes in a row in one process, by calling tests directly; runs in forks of the server.

A batch is quick but can be wrong in both directions, because the changes share its process. So each change that passes is
verified in its own fork. If the unchanged code behaves differently after a batch, the batch is repeated in smaller pieces. What
one change leaves behind (a filled cache, a changed table, a thread) would affect the next: the state is restored if that is
easy, otherwise the process is abandoned.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import mmap
import os
import struct
import sys
import threading
import time
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Callable, ContextManager, Tuple

from . import hot_swap
from .forks import Fork, TimeLimit, Write, bound_memory
from .hot_swap import Edit

Timed = Tuple[Any, float, float]  # test, CPU seconds, wall seconds

SHORT = 0.02  # CPU seconds for the first failing test, in addition to a multiple of its cost
LONG = 0.6  # the same for changes that get a second chance
WAIT = 0.4  # additional seconds of wall time, for sleeps and locks
STUCK = 3.0  # seconds of silence after which a process is considered stuck
LIFE = 400  # changes per process
DEATHS = 20  # processes that die at their first change, before any has answered
CONTAINERS = (list, dict, set, bytearray, collections.deque)
CACHE: Any = type(functools.lru_cache(len))
SMALL = 200  # entries up to which a container's values are compared, not only their number
MANY = 400  # most objects that are tracked


class Batch:
    """Tries changes against the failing tests that can be run repeatedly.

    `swap(edits)` applies a change and returns a function that undoes it; `failing` are tests, the cheapest first; `control` is
    a test that passes on the unchanged code, or None; `paths` are the files whose modules must stay unchanged. In
    `alone()`, the repository is as it was at first, and nothing else runs in it.
    """

    def __init__(
        self,
        root: str,
        swap: Callable[[Sequence[Edit]], Callable[[], None]],
        failing: list[Timed],
        control: Timed | None,
        paths: Collection[str | None],
        alone: Callable[[], ContextManager[None]],
    ) -> None:
        self.root, self.swap, self.failing, self.control, self.paths = root, swap, failing, control, paths
        self.alone = alone
        self.current = mmap.mmap(-1, 8)  # shared with the fork: index of the change being tried
        self.tried, self.seconds = 0, 0.0
        self.is_broken = False  # its processes die before they have tried anything

    def run(
        self, jobs: Sequence[Sequence[Edit]], until: float, patient: bool = False, surveying: bool = False
    ) -> Iterator[tuple[int, Any]]:
        """Yield (index, outcome) for every outcome other than "no test passed"; jobs are lists of edits.

        Outcomes: "passed" (every failing test; told again when the process has ended), "slow", "fresh" (cannot be swapped in);
        if `surveying`, ("further", tests, lines): how many failing tests passed and how much further the others got. Yields
        (index, None) from time to time.
        """
        pieces = [(start, min(start + LIFE, len(jobs))) for start in range(0, len(jobs), LIFE)]
        deaths, is_alive = 0, False  # is_alive: a process has answered
        while pieces and time.monotonic() < until and not self.is_broken:
            start, stop = pieces.pop(0)
            with self.alone():
                pass
            fork = Fork(lambda write: self._work(write, jobs, start, stop, patient, surveying))  # noqa: B023 - used at once
            reached, before = start, self.tried
            passed: list[int] = []
            self.current[:8] = struct.pack("q", start)
            try:
                for message in self._messages(fork, until):
                    at = min(max(self._index(), start), stop - 1)
                    self.tried = before + at - start + 1
                    if message is None:
                        yield at, None
                        continue
                    is_alive = True
                    if message[0] == "end":
                        reached = min(max(message[1], start), stop)
                    elif message[0] == "dirty":
                        if stop - start > 1:  # otherwise, the change itself spoils its process
                            step = max(1, (stop - start) // 8)
                            pieces[:0] = [(s, min(s + step, stop)) for s in range(start, stop, step)]
                        reached = stop
                    elif start <= message[1] < stop and (outcome := _outcome(message[2:])) is not None:
                        if outcome == "passed":
                            passed.append(message[1])
                        yield message[1], outcome
            finally:
                at = min(max(self._index(), start), stop - 1)
                fork.end()
            for index in passed:
                with self.alone():
                    yield index, "passed"
            deaths += reached == start
            self.is_broken = deaths >= DEATHS and not is_alive
            if reached == start:
                reached = at + 1  # the fork died there
            self.tried = before + reached - start
            if reached < stop:
                pieces.insert(0, (reached, stop))
            yield reached - 1, None

    def _index(self) -> int:
        return int(struct.unpack("q", self.current[:8])[0])

    def _messages(self, fork: Fork, until: float) -> Iterator[Any]:
        """The fork's messages, until it ends or is stuck; None from time to time while it is silent."""
        begin = moved = time.monotonic()
        last, before = self._index(), self.seconds
        stuck = STUCK + 10 * sum(wall for _, _, wall in self.failing)
        while time.monotonic() < until:
            message = fork.receive(min(until, time.monotonic() + 0.2))
            self.seconds = before + time.monotonic() - begin
            if isinstance(message, list) and len(message) > 1 and isinstance(message[1], int):
                yield message
                moved = time.monotonic()
                if message[0] in ("end", "dirty"):
                    break
            elif fork.is_closed:
                break
            elif self._index() != last:
                last, moved = self._index(), time.monotonic()
                yield None
            elif time.monotonic() - moved > stuck:
                break

    def _work(
        self, write: Write, jobs: Sequence[Sequence[Edit]], start: int, stop: int, patient: bool, surveying: bool
    ) -> None:
        bound_memory()
        server, limit = os.getppid(), TimeLimit()
        state = ProcessState(self.root, self.paths)
        base = self._lines(limit)
        if not state.restore():  # the first run in a process sets up state once
            state = ProcessState(self.root, self.paths)
        index = start
        for index in range(start, stop):
            self.current[:8] = struct.pack("q", index)
            outcome = self._one(limit, jobs[index], patient, base if surveying else None)
            if outcome is not None:
                write(["tried", index, outcome])
            if os.getppid() != server:
                return
            if not state.restore():
                break
        write(["end", index + 1] if self._is_clean(limit, base) else ["dirty", index])

    def _lines(self, limit: TimeLimit) -> list[int | None]:
        """The line where each failing test fails on the unchanged code; None if unknown."""
        lines: list[int | None] = []
        for test, cpu, wall in self.failing:
            limit.run(test.again, SHORT + 3 * cpu, WAIT + 10 * wall)
            lines.append(test.reached)
        return lines

    def _is_clean(self, limit: TimeLimit, base: list[int | None]) -> bool:
        test, cpu, wall = self.failing[0]
        if limit.run(test.again, SHORT + 3 * cpu, WAIT + 10 * wall) is True:
            return False
        if test.reached != base[0] and not limit.expired:
            return False
        if self.control is None:
            return True
        test, cpu, wall = self.control
        return limit.run(test.again, 1.0 + 3 * cpu, 1.0 + 10 * wall) is True

    def _one(self, limit: TimeLimit, edits: Sequence[Edit], patient: bool, base: list[int | None] | None) -> Any:
        try:
            undo = self.swap(edits)
        except hot_swap.NotSwappable:
            return "fresh"
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None
        passed = lines = 0
        try:
            for number, (test, cpu, wall) in enumerate(self.failing):
                more = LONG if patient or passed else SHORT
                if limit.run(test.again, more + (10 if patient else 3) * cpu, WAIT + 10 * wall) is True:
                    passed += 1
                elif base is None:
                    return "slow" if limit.expired and not patient else None
                elif limit.expired:
                    return None
                else:
                    before = base[number]
                    if test.reached is not None and before is not None:
                        lines += max(0, test.reached - before)
        finally:
            undo()
        if passed == len(self.failing):
            return "passed"
        return ["further", passed, lines] if passed or lines else None


def _outcome(told: Any) -> Any:
    """What a fork says about a change; None if code under test has written something else."""
    if told in (["passed"], ["slow"], ["fresh"]):
        return told[0]
    numbers = told[0][1:] if len(told) == 1 and isinstance(told[0], list) else []
    is_further = len(numbers) == 2 and told[0][0] == "further" and all(isinstance(each, int) for each in numbers)
    return tuple(told[0]) if is_further else None


class ProcessState:
    """The state of the repository's modules when this object was created. `paths`: the files whose modules are tracked."""

    def __init__(self, root: str, paths: Collection[str | None]) -> None:
        self.containers: list[tuple[Any, Any, int]] = []
        self.caches: list[tuple[Any, int]] = []
        self.spaces: list[tuple[Mapping[str, Any], list[int], dict[str, Any], type | None]] = []
        seen: set[int] = set()
        for module in list(sys.modules.values()):
            if hot_swap.repository_path(root, getattr(module, "__file__", None) or "") in paths:
                self._add_space(vars(module), seen)
        self.global_state = self._global_state()

    def _add_space(self, space: Mapping[str, Any], seen: set[int], owner: type | None = None) -> None:
        """Track the names in the namespace of a module, an object or a class, which is then the owner."""
        if id(space) in seen or len(seen) > MANY:
            return
        seen.add(id(space))
        self.spaces.append((space, list(map(id, space.values())), dict(space), owner))
        for name, value in list(space.items()):
            if not name.startswith("__"):  # in particular, not `__builtins__`
                with contextlib.suppress(Exception):  # any object's attributes and methods: this one cannot be tracked
                    self._add(value, seen)

    def _add(self, value: Any, seen: set[int]) -> None:
        if id(value) in seen or len(seen) > MANY:
            return
        if isinstance(value, CONTAINERS):
            seen.add(id(value))
            self.containers.append((value, value.copy(), len(value)))
        elif isinstance(value, types.FunctionType):
            for default in (value.__defaults__ or ()) + tuple((value.__kwdefaults__ or {}).values()):
                self._add(default, seen)
        elif isinstance(value, CACHE):
            self.caches.append((value, value.cache_info().currsize))
        elif isinstance(value, type):
            if value.__module__ in sys.modules and value.__flags__ & (1 << 9):  # created by a class statement
                self._add_space(value.__dict__, seen, value)
        elif hasattr(value, "__dict__") and not isinstance(value, types.ModuleType):
            self._add_space(vars(value), seen)

    def _global_state(self) -> tuple[int, int, int, int]:
        return len(sys.modules), len(os.environ), len(sys.path), threading.active_count()

    def restore(self) -> bool:
        """Restore what was changed; returns False if that is impossible. Takes microseconds."""
        try:
            for space, ids, before, owner in self.spaces:
                if len(space) != len(ids) or list(map(id, space.values())) != ids:
                    _put_back(space, before, owner)
            for cache, size in self.caches:
                if cache.cache_info().currsize != size:
                    if size:
                        return False
                    cache.cache_clear()
            for container, before, size in self.containers:
                if len(container) != size or (size <= SMALL and not _same(container, before)):
                    container.clear()
                    (container.extend if hasattr(container, "extend") else container.update)(before)
            return self._global_state() == self.global_state
        except Exception:  # methods of the repository's containers, caches and values
            return False


def _put_back(space: Mapping[str, Any], before: Mapping[str, Any], owner: type | None) -> None:
    """Gives the names of a module, an object or a class their values again: a logger's handlers, or what unittest keeps in the
    class of a test. Raises TypeError for a class that refuses that."""
    for name in [name for name in space if name not in before]:
        _set(space, owner, name)
    for name, value in before.items():
        if space.get(name, space) is not value:
            _set(space, owner, name, value)


def _set(space: Any, owner: type | None, name: str, *value: Any) -> None:
    if owner is not None:
        type.__setattr__(owner, name, *value) if value else type.__delattr__(owner, name)
    elif value:
        space[name] = value[0]
    else:
        del space[name]


def _same(container: Any, before: Any) -> bool:
    if isinstance(container, dict):
        return list(map(id, container.values())) == list(map(id, before.values()))
    if isinstance(container, (list, collections.deque)):
        return list(map(id, container)) == list(map(id, before))
    return bool(container == before)
