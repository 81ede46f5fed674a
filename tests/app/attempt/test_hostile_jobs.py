"""Jobs that mean harm, replayed for real in the jail: each ends in its outcome, bounded, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agent.case import Case
from agent.ci.job.selection import ChosenJob, FailedJob
from agent.contract.budget import Budget
from agent.contract.events import AnyEvent
from agent.contract.outcome import ConfirmedFailure, NoRepair
from agent.engine import Engine, Reproduction
from sandbox.base import MIB, Limits
from tests.sandbox.conftest import make, tarball
from tests.tiers import long_but

PATH = ".github/workflows/ci.yml"
LIMITS = Limits(memory=512 * MIB, processes=96, file_size=64 * MIB, open_files=512, disk=96 * MIB, cpu_seconds=20)
SECONDS = 120.0  # of a whole reproduction; many times of what any of them needs
GROWTH = 150  # MiB of this process that the worst of them may cost
ASLEEP = f"{10_000_000 + os.getpid()}"  # seconds that nothing else on the machine sleeps, also no other worker of these tests
RED = b"import unittest\n\n\nclass Tests(unittest.TestCase):\n    def test_red(self):\n        self.assertEqual(1, 2)\n"
TESTS = "      - name: tests\n        run: python -m unittest\n"
RED_TEST = "test_a.Tests.test_red"


def workflow(steps: str, job: str = "") -> str:
    return f"on: push\njobs:\n  tests:\n    runs-on: ubuntu-latest\n{job}    steps:\n{steps}"


def step(run: str, rest: str = "") -> str:
    body = "".join(f"          {line}\n" for line in run.strip("\n").split("\n"))
    return f"      - name: hostile\n{rest}        run: |\n{body}"


def flow(rest: str) -> str:
    return f"      - {{name: hostile, {rest}}}\n"


@dataclass
class House:
    """An engine over the real jail."""

    engine: Engine
    events: list[AnyEvent]

    async def reproduce(self, text: str, files: Mapping[str, bytes] = {}, *, failed: str | None = None) -> Reproduction:
        """As `failed` is known from CI; None: as a person asks for the job, whose steps are then run one after the other."""
        asked = ChosenJob(text, PATH, "tests") if failed is None else FailedJob("tests", text, PATH, failed)
        files = {PATH: text.encode(), "test_a.py": RED, **files}
        case = Case("hostile", "hostile", tarball(files), jobs=(asked,))

        async def emit(event: AnyEvent) -> None:
            self.events.append(event)

        return await asyncio.wait_for(self.engine.reproduce(case, emit=emit), SECONDS)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    sandboxes = make("local", tmp_path / "sandboxes")
    mounts, needed, processes = Path("/proc/self/mountinfo").read_text(), memory(), below_us()
    yield House(Engine(sandboxes, None, InMemorySaver(), Budget(seconds=60.0), LIMITS), [])
    assert not list((tmp_path / "sandboxes/open").iterdir()), "a folder is left"
    assert Path("/proc/self/mountinfo").read_text() == mounts, "a mount is left"
    assert below_us() <= processes, "a process is left"
    assert not sleeping(), "a process is left that is nobody's child"
    assert memory() - needed < GROWTH, "what came out of the sandbox was kept"


def memory() -> int:
    """MiB that this process has needed at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def below_us() -> set[int]:
    """Every process that descends from this one."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in found | {os.getpid()}} - found:
        found |= more
    return found


def sleeping() -> list[str]:
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if line.read_bytes().rstrip(b"\0").split(b"\0")[-2:] == [b"sleep", ASLEEP.encode()]:
                found.append(line.parent.name)
        except OSError:
            continue
    return found


def how(seen: Reproduction) -> str:
    """What is red, or the outcome with its sentence."""
    if isinstance(seen.result, ConfirmedFailure):
        return f"red {' '.join(seen.result.failing)}"
    assert isinstance(seen.result, NoRepair)
    assert seen.result.next_step
    return f"{seen.result.outcome}: {seen.result.reason}"


LIMITED = "infrastructure: `hostile` reached the sandbox's "
CRASHED = "infrastructure: The check `{}` crashed before it reported any result"
NOT_STARTED = "infrastructure: The check `hostile` exited with code 127 and reported no result: "
NOT_REACHED = "not_reproduced: The failing step was not reached: the earlier step `hostile` "
BIG = "yes aaaaaaaaaaaaaaaaaaaaa=b | head -c 1000000000 >> "

FAILING = {
    "daemonises": (step(f"setsid sleep {ASLEEP} >/dev/null 2>&1 &\nsetsid -f sleep {ASLEEP}\nexit 1"), "red exit"),
    "prints-1-GB": (step("yes 'FAILED test_a.py::test_x' | head -c 1000000000; exit 1"), "red exit"),
    "fills-the-disk": (step("for at in $(seq 100); do head -c 60M /dev/zero > big$at; done; exit 1"), LIMITED + "disk"),
    "forks": (step("bomb() { bomb | bomb & }; bomb; sleep 0.5; exit 1"), (LIMITED + "processes", "red exit")),  # as it is quick
    "eats-memory": (
        step('python -c "x = bytearray(4 << 30)"; exit 1'),
        (LIMITED + "memory", "red exit"),
    ),  # where it is bounded
    "kills-all": (step("kill -9 -1; exit 1"), CRASHED.format("hostile")),
    "kills-its-parent": (step("kill -9 $PPID; exit 1"), CRASHED.format("hostile")),
    "big-output": (step(f"{BIG} $GITHUB_OUTPUT; exit 1"), LIMITED + "file size"),
    "changes-the-workflow": (step("rm -rf .github *; mkdir .github; echo 'on: [' > .github/workflows; exit 1"), "red exit"),
    "prints-no-text": (step("printf '\\xff\\xfe\\x00\\x80'; exit 1"), "red exit"),
    "hangs": (flow(f"run: sleep {ASLEEP}, timeout-minutes: 0.03"), "out_of_budget: The check `hostile` did not finish within"),
    "in-a-folder-that-is-not-there": (flow("run: exit 1, working-directory: a/b/c/d/e"), NOT_STARTED),
    "with-a-shell-that-is-not-there": (flow("run: exit 1, shell: 'fish {0}'"), NOT_STARTED),
    "with-what-is-no-shell": (flow("run: exit 1, shell: fish"), "refused: The workflow is invalid. "),
    "with-an-empty-shell": (flow("run: exit 1, shell: ' '"), "refused: The workflow is invalid. "),
    "of-windows": (flow("run: exit 1, shell: pwsh"), "not_reproduced: The step `hostile` cannot run as in CI"),
    "of-python": (flow("run: import sys; sys.exit(3), shell: python"), "red exit"),
    "with-a-null": (flow('run: "exit 1 \\0 a"'), NOT_STARTED),
    "too-long-for-an-argument": (flow(f"run: 'exit 1 # {'x' * 300_000}'"), "red exit"),
    "too-many-expressions": (flow(f"run: '{'${{ github.sha }}' * 9_000}'"), "refused: The workflow is invalid. "),
}


@pytest.mark.parametrize(
    "harm", long_but(FAILING, "daemonises", "forks", "kills-its-parent", "fills-the-disk", "changes-the-workflow")
)
async def test_a_hostile_step_that_fails_ends_in_its_outcome(house: House, harm: str) -> None:
    text, ending = FAILING[harm]
    assert how(await house.reproduce(workflow(text + TESTS), failed="hostile")).startswith(ending)


BEFORE = {
    "daemonises": (step(f"setsid sleep {ASLEEP} >/dev/null 2>&1 &\nsetsid -f sleep {ASLEEP}"), f"red {RED_TEST}"),
    "prints-1-GB": (step("head -c 1000000000 /dev/zero"), f"red {RED_TEST}"),
    "fills-the-disk": (step("for at in $(seq 100); do head -c 60M /dev/zero > big$at; done"), NOT_REACHED + "failed"),
    # On a busy machine, the bomb may leave no room for the step's own `sleep` in one of the two base runs.
    "forks": (step("bomb() { bomb | bomb & }; bomb; sleep 0.5"), (f"red {RED_TEST}", "flaky: ")),
    "kills-all": (step("kill -9 -1"), CRASHED.format("tests")),
    "big-environment": (step(f"{BIG} $GITHUB_ENV"), NOT_REACHED + "failed"),
    "changes-the-tests": (step("echo 'raise SystemExit(0)' > test_a.py"), "red test_a"),
    "hangs": (flow(f"run: sleep {ASLEEP}, timeout-minutes: 0.03"), NOT_REACHED + "did not finish within"),
    "in-a-folder-that-is-not-there": (flow("run: exit 0, working-directory: a/b/c/d/e"), NOT_REACHED + "failed"),
    "may-fail-and-hangs": (
        flow(f"run: sleep {ASLEEP}, timeout-minutes: 0.03, continue-on-error: true"),
        "red test_a.Tests.test_red",
    ),
}


@pytest.mark.parametrize("harm", long_but(BEFORE, "kills-all", "changes-the-tests"))
async def test_a_hostile_step_before_the_failing_one_ends_in_its_outcome(house: House, harm: str) -> None:
    text, ending = BEFORE[harm]
    assert how(await house.reproduce(workflow(text + TESTS), failed="tests")).startswith(ending)


FOUND = {
    "daemonises": BEFORE["daemonises"],
    "forks": BEFORE["forks"],
    "prints-1-GB": (step("head -c 1000000000 /dev/zero"), f"red {RED_TEST}"),
    "hangs": (flow(f"run: sleep {ASLEEP}, timeout-minutes: 0.03"), "out_of_budget: The check `hostile` did not finish within"),
    "leaves-too-much": (
        "".join(
            f"      - {{run: 'yes {name}=b | head -c 1000000 >> $GITHUB_OUTPUT', id: {name}, continue-on-error: true}}\n"
            for name in "abcdef"
        ),
        "infrastructure: Preparing the repository reached the sandbox's output limit",
    ),
}


@pytest.mark.parametrize("harm", FOUND)
@pytest.mark.long
async def test_a_job_that_is_replayed_over_a_hostile_step_ends_in_its_outcome(house: House, harm: str) -> None:
    text, ending = FOUND[harm]
    assert how(await house.reproduce(workflow(text + TESTS))).startswith(ending)


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
FILES = {
    "no-YAML": ("on: push\njobs: {tests: [}\n", "line 2: The file is not valid YAML"),
    "a-bomb": (f"on: push\n{BOMB}", "With its aliases expanded, the file has more than"),
    "an-action-that-loops": (workflow("      - uses: ./again\n"), "not_reproduced: The step "),
    "too-many-legs": (
        workflow(TESTS, f"    strategy: {{matrix: {{a: {list(range(300))}, b: {list(range(300))}}}}}\n"),
        "The matrix has more than 256 legs",
    ),
    "a-huge-JSON": (workflow(flow(f"run: x, if: \"fromJSON('[{'1,' * 15_000}1]')\"")), "is longer than 21000 characters"),
    "brackets": (workflow(flow(f"run: x, if: '{'(' * 20_000}'")), "is nested deeper than"),
}


@pytest.mark.parametrize("harm", FILES)
async def test_a_hostile_workflow_file_is_refused_with_what_is_wrong_in_it(house: House, harm: str) -> None:
    text, ending = FILES[harm]
    again = b"runs: {using: composite, steps: [{uses: ./again}]}\n"
    seen = how(await house.reproduce(text, {"again/action.yml": again}))
    assert ending in seen
    assert seen.startswith(("refused", "not_reproduced"))


async def held_up(work: Coroutine[Any, Any, Reproduction]) -> tuple[Reproduction, float]:
    """What came of it, and the longest time in seconds for which nobody else could go on meanwhile."""
    task, worst = asyncio.create_task(work), 0.0
    while not task.done():
        started = time.monotonic()
        await asyncio.sleep(0.01)
        worst = max(worst, time.monotonic() - started)
    return await task, worst


async def test_a_job_of_five_thousand_steps_is_read_beside_the_loop(house: House) -> None:
    seen, seconds = await held_up(
        house.reproduce(workflow(TESTS + "      - run: pip install nothing\n" * 5000), failed="tests")
    )
    assert how(seen) == f"red {RED_TEST}"
    assert seconds < 2.0, "one step of so many may not stop whoever else is worked for"
