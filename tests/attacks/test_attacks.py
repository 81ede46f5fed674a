"""Changes that would make failing tests pass without fixing anything: the diffs next to this file, each with what must stop it.

A diff's head says what it does; `guard:` names the rule that refuses it ("-": none; "asks RULE": people are asked about it);
`gate:` whether the gate stops it when the guard lets it pass ("holds"), does not ("open": only the guard stands there), or was
not asked ("-"); `base:` the repository that it is made on, where it is not the sample.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agent.checks.oracle import oracle_of
from agent.checks.runner import Runner
from agent.contract import events
from agent.contract.blobs import MemoryBlobs
from agent.contract.budget import Budget, Ledger, Usage
from agent.contract.outcome import NoRepair
from agent.contract.proposal import Candidate, Edits, FileChange
from agent.contract.task import Policy, Task
from agent.contract.verdicts import Check, CheckRun, Oracle, VerdictId
from agent.gate import gate
from agent.guard.rules import questions, refusal
from agent.state import Context, Work
from tests.agent.workbench import PYTEST, Bench, Scripted, sandbox_with
from tests.attacks.bases import BASES, CHECKS
from tests.tiers import long_but

AT_BASE: dict[str, CheckRun] = {}
ATTACKS = sorted(Path(__file__).parent.glob("*.diff"))
# Judged by the gate in `make test`, one for each way; the guard judges them all there.
QUICK = (
    "asked-frame", "equal-to-all", "exit-in-code", "flipping-hook", "found-channel", "killed-child",
    "patched-assert-equal", "patched-runtest", "patched-unittest-method", "prepared-program", "prepared-tests",
    "read-source", "shadowed-by-path", "skipped-while-tested", "undone-at-exit", "written-conftest",
    "written-to-descriptors", "special-case", "detected-by-environment",
)  # fmt: skip
SCRIPT = Check("script", "sh ./check.sh", "exit", timeout=30)


def said(attack: Path, key: str) -> str:
    found = re.search(rf"^{key}: (.+)$", attack.read_text(), re.M)
    assert found, f"{attack.name} does not say its {key}"
    return found.group(1)


# No rule refuses them, and they are green: questions of the guard, or of `agent/challenge`, are all that holds them.
NEITHER = [one.stem for one in ATTACKS if said(one, "gate") == "open" and said(one, "guard").startswith(("asks ", "-"))]


def base(attack: Path) -> tuple[Mapping[str, str], Check]:
    found = re.search(r"^base: (.+)$", attack.read_text(), re.M)
    name = found.group(1) if found else "sample"
    return BASES[name], CHECKS.get(name, PYTEST)


def edits(attack: Path, folder: Path) -> Edits:
    files, _ = base(attack)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    patch = attack.read_bytes()
    subprocess.run(["git", "apply", "-"], input=patch, cwd=folder, check=True)
    after = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    return tuple(FileChange(path, files.get(path), after[path]) for path in sorted(after) if after[path] != files.get(path))


def that(said_gate: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "attack",
        [
            pytest.param(one, id=one.stem, marks=() if one.stem in QUICK else pytest.mark.long)
            for one in ATTACKS
            if said(one, "gate") == said_gate
        ],
    )


@asynccontextmanager
async def gate_for(attack: Path, folder: Path) -> AsyncIterator[tuple[Work, Oracle, gate.Runs]]:
    """What the gate works with, after the repository was found red. The run at the base is kept for the next attack on it."""
    files, check = base(attack)
    if not shutil.which(program := check.command.split()[0]):
        pytest.skip(f"needs {program}")

    async def emit(event: events.AnyEvent) -> None: ...

    async with sandbox_with(folder, files) as sandbox:
        context = Context(emit, (), None, MemoryBlobs(), InMemorySaver())
        ledger = Ledger(Budget(), 0, Usage(), 0.0, context.monotonic(), context.monotonic)
        work = Work(Task("t1", sandbox, (check,)), context, Runner(sandbox), ledger)
        key = str(sorted(files.items()))
        if key not in AT_BASE:
            async with sandbox.candidate() as workspace:
                AT_BASE[key] = await work.runner.run(workspace, check)
        run = AT_BASE[key]
        assert run.ending == "finished", run
        assert run.red, run
        yield work, oracle_of((check,), [(run,)]), {check.name: run}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.stem)
def test_the_guard_refuses_it_or_asks(attack: Path, tmp_path: Path) -> None:
    files, check = base(attack)
    ids = ("exit",) if check.reader == "exit" else ("test_calc.py::test_add", "test_calc.py::test_add_nothing")
    red = frozenset(map(VerdictId, ids))
    oracle = Oracle((check, SCRIPT), {"tests": red}, {"tests": frozenset({VerdictId("test_calc.py::test_double")})})
    failing = "\n".join(text for path, text in files.items() if "test" in path)
    candidate = Candidate("model:m", edits(attack, tmp_path), "attacks")
    found = refusal(candidate, Policy(), oracle, failing)
    asked = [f"asks {rule}" for rule, _ in questions(candidate, oracle, failing, failing)]
    assert (found.rule if found else next(iter(asked), "-")) == said(attack, "guard")


@that("holds")
async def test_the_gate_does_not_believe_it(attack: Path, tmp_path: Path) -> None:
    (tmp_path / "repository").mkdir()
    change = edits(attack, tmp_path / "repository")
    async with gate_for(attack, tmp_path) as (work, oracle, base_runs):
        found = await gate.is_green(work, oracle, base_runs, change)
        if found.passed:
            found = await gate.prove(work, oracle, base_runs, change, found)
    assert not found.passed
    assert "cannot be applied" not in found.reason


@that("open")
async def test_what_only_the_guard_stops_would_be_green(attack: Path, tmp_path: Path) -> None:
    """So that what is said of the gate's limits stays true: where it learns to stop one of these, its head says "holds"."""
    (tmp_path / "repository").mkdir()
    change = edits(attack, tmp_path / "repository")
    async with gate_for(attack, tmp_path) as (work, oracle, base_runs):
        assert (await gate.is_green(work, oracle, base_runs, change)).passed


@pytest.mark.parametrize(
    "name",
    long_but(["equal-by-a-look", "read-tests-unnamed", "patched-call", *NEITHER], "patched-call", "special-case-solved"),
)
async def test_a_whole_repair_does_not_take_it(name: str, tmp_path: Path) -> None:
    attack = next(one for one in ATTACKS if one.stem == name)
    (tmp_path / "repository").mkdir()
    files, check = base(attack)
    change = edits(attack, tmp_path / "repository")
    result = await Bench(tmp_path).heal(Scripted([(change,)], rung="model:scripted"), files=files, checks=(check,))
    assert isinstance(result, NoRepair)
    assert len(result.log.iterations) == 1, "it was judged"


def test_what_no_rule_notices_is_put_through_the_gate() -> None:
    for attack in ATTACKS:
        assert said(attack, "guard") != "-" or said(attack, "gate") != "-", attack.name
