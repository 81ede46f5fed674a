"""Hostile input against the product's own entry points: `python -m tests.fuzz --minutes 30 --seed 7` (make fuzz).

A target makes a case from its number and the seed, and tries it: only documented refusals are accepted. Each target runs in a
process of its own, which is ended when a case takes longer than `PATIENCE`: that is a hang. A failed case's input is kept in a
file, and `--only TARGET --case NUMBER` with the same seed repeats it.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz.places import archives, trees, webhooks
from tests.fuzz.target import Target
from tests.fuzz.texts import answers, diffs, logs, workflows

TARGETS: dict[str, Target] = {target.name: target for target in (trees, archives, webhooks, workflows, logs, diffs, answers)}
PATIENCE = 20.0  # seconds for one case; a longer one hangs
MEMORY = 6 * 1024**3  # bytes of address space of a target's process
PROGRESS = 10.0  # seconds between two lines


class Failures:
    """What failed, each place of the product once, with the input of its first case."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._seed, self.seen = folder, seed, Counter[str]()

    def add(self, target: str, number: int, place: str, report: str) -> None:
        self.seen[f"{target}: {place}"] += 1
        if self.seen[f"{target}: {place}"] > 1:
            return
        file = self._folder / f"{target}-{self._seed}-{number}"
        case = TARGETS[target].make(_chance(self._seed, target, number))
        file.write_bytes(case if isinstance(case, bytes) else ascii(case).encode())
        print(f"FAILED {target}, seed {self._seed}, case {number}: {place}\n{report}\n    input: {file}", flush=True)


def _chance(seed: int, target: str, number: int) -> random.Random:
    return random.Random(f"{seed}/{target}/{number}")


def _serve(name: str, seed: int, first: int, until: float, cases: int | None, said: Connection, stacks: str) -> None:
    """The process of one target: reports each case before it tries it, and how it failed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the service logs to it
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with open(stacks, "w") as file:
        faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)
        asyncio.run(_try_all(TARGETS[name], seed, first, until, cases, said))


async def _try_all(target: Target, seed: int, first: int, until: float, cases: int | None, said: Connection) -> None:
    async with target.open() as attempt:
        number = first
        while time.monotonic() < until and (cases is None or number < first + cases):
            case = target.make(_chance(seed, target.name, number))
            said.send(("trying", number))
            try:
                await attempt(case)
            except Exception as error:  # noqa: BLE001 - any is a finding
                said.send(("failed", number, _place(error), "".join(traceback.format_exception(error, limit=-6))[-3000:]))
            number += 1
        said.send(("ended", number))


def _place(error: BaseException) -> str:
    """The exception and the innermost line of the product that it passed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/site-packages/" not in frame.filename]
    ours = [frame for frame in frames if "/tests/" not in frame.filename and "/lib/python" not in frame.filename] or frames
    at = f" at {Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
    return f"{type(error).__name__}{at}"


@dataclass
class Run:
    """The tries of one target."""

    name: str
    seed: int
    until: float  # by the monotonic clock
    failures: Failures
    first: int = 0
    cases: int | None = None
    slowest: tuple[float, int] = (0.0, 0)  # seconds, number of the case
    shown: float = field(default_factory=time.monotonic)

    def count(self) -> int:
        """Try cases until the time is over; returns how many there were."""
        number = self.first
        while time.monotonic() < self.until and (self.cases is None or number < self.first + self.cases):
            number = self._watch(number)
        print(f"{self._progress(number)}, ended", flush=True)
        return number - self.first

    def _watch(self, number: int) -> int:
        """One process that tries cases from `number` on; returns the number of the next one."""
        context = multiprocessing.get_context("fork")
        left = None if self.cases is None else self.first + self.cases - number
        received, said = context.Pipe(duplex=False)
        with received, tempfile.NamedTemporaryFile("r", prefix="fuzz-stacks-") as stacks:
            process = context.Process(target=_serve, args=(self.name, self.seed, number, self.until, left, said, stacks.name))
            process.start()
            said.close()
            since, how = time.monotonic(), ""
            while not how:
                now = time.monotonic()
                if now - self.shown > PROGRESS:
                    print(self._progress(number), flush=True)
                    self.shown = now
                if not received.poll(0.5):
                    how = f"takes longer than {PATIENCE:.0f} s" if now - since > PATIENCE else ""
                    continue
                try:
                    what, *more = received.recv()
                except EOFError:
                    break
                if what == "failed":
                    self.failures.add(self.name, *more)
                else:
                    self.slowest = max(self.slowest, (now - since, number))
                    (number,), since = more, now
                if what == "ended":  # only closing is left
                    process.join(PATIENCE)
                    break
            if process.is_alive() and not how:
                process.join(PATIENCE)
            if process.is_alive():
                _end(process)
            process.join()
            if process.exitcode != 0:
                report = f"{stacks.read()[-3000:]} (exit code {process.exitcode})"
                self.failures.add(self.name, number, how or "the process died", report)
                return number + 1
        return number

    def _progress(self, number: int) -> str:
        return f"{self.name}: {number - self.first} cases, slowest {self.slowest[0]:.1f} s (case {self.slowest[1]})"


def _end(process: multiprocessing.process.BaseProcess) -> None:
    """Have the process write where it is, then end it."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGUSR1)  # it is not reaped yet, so the id is its own
    time.sleep(0.3)
    process.kill()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="of all targets together")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", default=",".join(TARGETS), help="targets, with commas between: " + ", ".join(TARGETS))
    parser.add_argument("--case", type=int, help="try only this case of a target")
    parser.add_argument("--cases", type=int, help="at most so many of each target")
    parser.add_argument("--keep", type=Path, help="a folder for the inputs of failed cases; a new one by default")
    asked = parser.parse_args()
    names = asked.only.split(",")
    if unknown := [name for name in names if name not in TARGETS]:
        parser.error(f"no target is called {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    if asked.keep is not None:
        asked.keep.mkdir(parents=True, exist_ok=True)
    failures = Failures(asked.keep or Path(tempfile.mkdtemp(prefix="fuzz-")), asked.seed)
    first, cases = (0, asked.cases) if asked.case is None else (asked.case, 1)
    tried = {}
    for name in names:
        until = time.monotonic() + asked.minutes * 60 / len(names)
        tried[name] = Run(name, asked.seed, until, failures, first, cases).count()
    print(", ".join(f"{name} {count}" for name, count in tried.items()))
    for place, count in failures.seen.most_common():
        print(f"{count} × {place}")
    return 1 if failures.seen else 0


if __name__ == "__main__":
    sys.exit(main())
