"""Benchmarks of single functions: one module with a bug, test cases, and a reference that only the judge sees."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from agent.bench.differential import Function, compare
from agent.bench.lab import Benchmark, Judgement, Lab, Labs, NotPosed, Specimen, Trial, changed, printed
from agent.ci.project.configuration import Configuration, Install, TestCommand
from agent.contract.outcome import Repair
from agent.contract.verdicts import CheckRun, Verdict
from agent.source.archive import File

OracleKind = Literal["all", "half"]
Texts = Mapping[str, str]
"""File contents by path."""

TESTS_SECONDS = 10.0  # one run of one function's tests; a bug may make it hang
CONFIGURATION = Configuration(
    test=(TestCommand(run="python -m pytest -q", kind="pytest", timeout=TESTS_SECONDS),),
    install=Install(requirements=("pytest",)),
)


@dataclass(frozen=True, slots=True)
class FunctionTask:
    """One broken function. `cases` can be shown separately; `write` returns the files for some of them."""

    id: str
    files: Texts  # all files except those from `write`
    cases: Sequence[str]
    write: Callable[[Sequence[str]], Texts]
    function: Function | None  # None if it cannot be called for a comparison
    reference: Texts | None  # the correct files

    def specimen(self, shown: Sequence[str]) -> Specimen:
        texts = {**self.files, **self.write(shown)}
        return Specimen(self.id, {path: File(text.encode()) for path, text in texts.items()}, CONFIGURATION)


def function_benchmark(
    name: str, groups: Mapping[str, str], oracle: OracleKind, pose: Callable[[str], FunctionTask]
) -> Benchmark:
    """`pose` returns the task of an id; it can raise `NotPosed`."""
    return Benchmark(name, groups, {"oracle": oracle}, lambda id_, labs: _trial(pose(id_), oracle, labs))


@asynccontextmanager
async def _trial(task: FunctionTask, oracle: OracleKind, labs: Labs) -> AsyncIterator[Trial]:
    """With `half`, every second case is shown, chosen so that one of them fails. Raises `NotPosed`, `SandboxError`."""
    shown, held_out = await _halves(task, labs) if oracle == "half" and len(task.cases) > 1 else (task.cases, ())
    yield Trial(task.specimen(shown), partial(_judge, task, labs, held_out))


async def _judge(task: FunctionTask, labs: Labs, held_out: Sequence[str], repair: Repair) -> Judgement:
    """Held-out cases and the reference must both agree, where there are any."""
    async with labs.open(task.specimen(task.cases).files, CONFIGURATION) as lab:
        if not held_out:
            return await _by_reference(task, lab, repair)
        told = await _by_cases(task, lab, held_out, repair)
        if told.heldout_correct is not True or task.reference is None or task.function is None:
            return told
        more = await _by_reference(task, lab, repair)
        return told if more.heldout_correct is None else replace(more, how=f"{told.how}; {more.how}")


async def _by_cases(task: FunctionTask, lab: Lab, held_out: Sequence[str], repair: Repair) -> Judgement:
    (run,) = await lab.runs({**changed(repair.edits), **_bytes(task.write(held_out))})
    passed = sum(verdict is Verdict.PASSED for verdict in run.verdicts.values())
    how = f"{passed} of {len(run.verdicts)} held-out tests pass"
    if run.ending == "timeout" and not run.red:  # the machine may be slow
        return Judgement(None, f"{how} before the time ran out", printed([run]))
    how = how if run.ending == "finished" else f"{how}, then: {run.ending}"
    return Judgement(not _fails(run) and passed > 0, how, printed([run]))


async def _by_reference(task: FunctionTask, lab: Lab, repair: Repair) -> Judgement:
    if task.reference is None or task.function is None:
        return Judgement(None, "no tests are held out, and no reference is available for comparison")
    agreement = await compare(lab, task.function, _bytes(task.reference), changed(repair.edits))
    if agreement is None:
        return Judgement(None, "the calls in its tests cannot be used for a comparison")
    if agreement.difference is None:
        return Judgement(True, f"the same as the reference on {agreement.compared} inputs")
    return Judgement(False, f"differs from the reference on {agreement.difference[:200]}")


async def _halves(task: FunctionTask, labs: Labs) -> tuple[Sequence[str], Sequence[str]]:
    async with labs.open(task.specimen(task.cases).files, CONFIGURATION) as lab:
        for start in (0, 1):
            shown = task.cases[start::2]
            (run,) = await lab.runs(_bytes(task.write(shown)))
            if _fails(run):
                return shown, task.cases[1 - start :: 2]
    raise NotPosed("none of its tests fails on the broken function")


def _fails(run: CheckRun) -> bool:
    return run.ending != "finished" or bool(run.red)


def _bytes(texts: Texts) -> dict[str, bytes | None]:
    return {path: text.encode() for path, text in texts.items()}
