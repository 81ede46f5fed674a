"""Puts breaks into one commit: they change covered code, turn some of its tests red and not many, and do so every time."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from agent.bench.breaks.heldout import chosen
from agent.bench.breaks.operators import Break, Slip, broken, same_program, slips
from agent.bench.lab import Lab, Skipped, text_of
from agent.checks.runner import prelude_of
from agent.checks.sampling import test_files
from agent.contract.verdicts import Check, CheckRun, Verdict, VerdictId
from agent.source.archive import Files
from agent.source.test_files import is_test

EACH = 3  # breaks of one commit
TRIED = 15  # slips that are tried in one commit
SECONDS = 300.0  # after which no more slips are tried in one commit
SLOWEST = 150.0  # seconds of one run of the suite
SMALL = 10.0  # seconds of a suite that always runs as a whole
FEWEST = 4  # passing tests
MOST_RED = 0.3  # of the tests
FEW_RED = 0.05  # of the tests: so many may fail without a break and are left out, or a single one
TRACED, TRACING = 400, 60.0  # tests, and seconds for all of them
PROBED = 150  # tests of a slow suite that run first
NEAR = 0.7  # share of the slips in files that the commit changes
_TOOLS = ("docs", "doc", "examples", "example", "scripts", "tools", "benchmarks", "bench", ".github", "tasks", "ci")
_SETUP = ("setup.py", "noxfile.py", "conf.py", "conftest.py", "tasks.py", "_version.py", "fabfile.py", "version.py")


@dataclass(frozen=True, slots=True)
class Posed:
    """One break of a commit. `red` are the tests that it turns red, `held_out` those of them that the engine never sees."""

    broken: Break
    red: tuple[VerdictId, ...]
    held_out: tuple[VerdictId, ...]


class Red(Skipped):
    """Tests fail without a break. If they are few, the commit can be used without them."""

    def __init__(self, ids: tuple[VerdictId, ...], few: bool) -> None:
        super().__init__(f"{len(ids)} of its tests fail without a break, such as {ids[0]}")
        self.ids, self.few = ids, few


class Unfinished(Skipped):
    """The suite is too slow, or it crashes: probably that of other commits too."""


class _Traced(msgspec.Struct):
    tests: dict[str, bool | None] = {}
    passing: dict[str, dict[int, list[int]]] = {}


Coverage = Mapping[str, Mapping[int, frozenset[VerdictId]]]
"""The tests that run each line of each file."""

_Choice = tuple[str, Slip, frozenset[VerdictId]]
"""A file, a slip in it, and the tests that run its line."""


def is_product(path: str) -> bool:
    """Whether it is Python code that tests can cover: no test, no documentation, no script of the build."""
    folders = path.casefold().split("/")
    return path.endswith(".py") and not is_test(path) and folders[-1] not in _SETUP and folders[0] not in _TOOLS


def is_few(red: Collection[VerdictId], suite: Collection[VerdictId]) -> bool:
    """Whether these failing tests can be left out of the suite."""
    return len(red) <= max(1, FEW_RED * len(suite))


async def pose(
    lab: Lab, files: Files, before: Files, changed: Sequence[str], seed: str
) -> tuple[tuple[Posed, ...], Mapping[VerdictId, Verdict]]:
    """Up to `EACH` breaks in `files`, mostly in those of `changed`, and the verdicts without a break.

    `before` are the files of the parent: a break that leads back to them is none. The same seed makes the same choices.
    Raises `Red` if the suite is not green, `Skipped` if it is too slow or no break is found, and `SandboxError`.
    """
    started, rng = time.monotonic(), random.Random(seed)  # noqa: S311 - reproducible, nothing secret
    check, runs = await _green(lab)
    suite = {id_: verdict for run in runs for id_, verdict in run.verdicts.items()}
    seconds = sum(run.seconds for run in runs)
    run = next(run for run in runs if run.check == check.name)
    covered = await _traced(lab, check, run, rng)
    order = _order(files, covered, changed, rng)
    found: list[Posed] = []
    used: set[tuple[str, str]] = set()
    tried = 0
    for path, slip, tests in order:
        if len(found) == EACH or tried == TRIED or time.monotonic() - started > SECONDS:
            break
        text = text_of(files[path])
        made = broken(path, text, slip) if text is not None else None
        old = text_of(before[path]) if path in before else None
        if made is None or (path, slip.function) in used or (old is not None and same_program(made.after, old)):
            continue
        tried += 1
        red = await _turned_red(lab, check, made, tests, suite, seconds, rng)
        if red:
            used.add((path, slip.function))
            found.append(Posed(made, red, chosen(red, files, rng) if check.reader == "pytest" else ()))
    if not found:
        why = f"none of {tried} slips in it turns some of its tests red and not most" if tried else ""
        raise Skipped(why or "its tests run no line of its code into which a break can be put")
    return tuple(found), suite


async def _green(lab: Lab) -> tuple[Check, tuple[CheckRun, ...]]:
    """The check with Python tests, and one run of each check. Raises `Skipped`."""
    check = next((check for check in lab.checks if check.is_python), None)
    if check is None:
        raise Skipped("pytest and unittest run none of its tests")
    runs = await lab.runs({}, seconds=SLOWEST)
    for run in runs:
        if run.ending != "finished":
            raise Unfinished(f"its tests did not finish within {SLOWEST:.0f} s ({run.ending})")
        if run.red:
            raise Red(tuple(sorted(run.red)), is_few(run.red, run.verdicts))
    passed = sum(len(run.green) for run in runs if run.check == check.name)
    if passed < FEWEST:
        raise Skipped(f"only {passed} of its tests pass, at least {FEWEST} are needed")
    return check, runs


async def _traced(lab: Lab, check: Check, run: CheckRun, rng: random.Random) -> Coverage:
    """What a sample of the tests covers. Raises `Skipped`."""
    sample = rng.sample(sorted(run.green), min(TRACED, len(run.green)))
    request = {
        **prelude_of(check),
        "reader": check.reader,
        "cwd": check.cwd,
        "args": sorted(test_files(sample, check.reader)),
        "red": [],
        "green": sample,
        "durations": {id_: run.durations[id_] for id_ in sample if id_ in run.durations},
        "seconds": TRACING,
        "by_test": True,
    }
    async with lab.sandbox.candidate() as workspace:
        reply = await lab.runner.ask(workspace, "trace", json.dumps(request).encode(), TRACING * 1.5, check=check)
    try:
        traced = msgspec.convert(json.loads(reply.output), _Traced, strict=False)
    except (ValueError, RecursionError, msgspec.ValidationError):
        raise Skipped("its tests cannot be traced") from None
    ids = [VerdictId(name) for name in traced.tests]
    return {
        path: {line: frozenset(ids[at] for at in tests if 0 <= at < len(ids)) for line, tests in lines.items()}
        for path, lines in traced.passing.items()
    }


def _order(files: Files, covered: Coverage, changed: Sequence[str], rng: random.Random) -> list[_Choice]:
    """Slips in covered code, in the order in which to try them. Every kind is as likely as any other, or common ones
    would crowd out the others."""
    pools: dict[bool, dict[str, list[_Choice]]] = {True: {}, False: {}}
    near = [path for path in sorted(covered) if path in changed]
    far = [path for path in sorted(covered) if path not in changed]
    for path in [*near, *rng.sample(far, min(len(far), 5))]:
        text = text_of(files[path]) if path in files and is_product(path) else None
        for slip in slips(text) if text is not None else ():
            if tests := _running(covered[path], slip):
                pools[path in changed].setdefault(slip.kind, []).append((path, slip, tests))
    order: list[_Choice] = []
    while len(order) < TRIED * 4 and (left := [is_near for is_near in (True, False) if pools[is_near]]):
        kinds = pools[left[0] if len(left) == 1 or rng.random() < NEAR else left[1]]
        kind = rng.choice(sorted(kinds))
        order.append(kinds[kind].pop(rng.randrange(len(kinds[kind]))))
        kinds = {name: rest for name, rest in kinds.items() if rest}
        pools[order[-1][0] in changed] = kinds
    return order


def _running(lines: Mapping[int, frozenset[VerdictId]], slip: Slip) -> frozenset[VerdictId]:
    """The tests that run the slip's line, or the last covered line before it in the function: a statement can take several
    lines; for a default, the first line of the body."""
    inside = sorted(line for line in lines if slip.body[0] <= line <= slip.body[1])
    at = max((line for line in inside if line <= slip.line), default=inside[0] if inside else None)
    return lines[at] if at is not None else frozenset()


async def _turned_red(
    lab: Lab,
    check: Check,
    made: Break,
    tests: frozenset[VerdictId],
    suite: Mapping[VerdictId, Verdict],
    seconds: float,
    rng: random.Random,
) -> tuple[VerdictId, ...]:
    """The tests that the break turns red in each of two runs; none if it is no realistic break of this suite."""
    changes, longest = {made.path: made.after.encode()}, min(SLOWEST, 15.0 + 3 * seconds)
    if seconds > SMALL:
        probed = frozenset(rng.sample(sorted(tests), min(PROBED, len(tests))))
        (first,) = await lab.runs(changes, only={check.name: probed}, seconds=longest)
        if first.ending != "finished" or not first.red:
            return ()
    runs = await lab.runs(changes, seconds=longest)
    red = {id_ for run in runs for id_ in run.red}
    finished = all(run.ending == "finished" for run in runs)
    if not finished or not red or len(red) > MOST_RED * len(suite) or any(id_ not in suite for id_ in red):
        return ()
    if not any(run.red for run in runs if run.check == check.name):
        return ()
    again = await lab.runs(changes, only={run.check: run.red for run in runs if run.red}, seconds=longest)
    return tuple(sorted(red)) if {id_ for run in again for id_ in run.red} == red else ()
