"""Benchmarks of single functions: one module, one file of tests, and a reference that only the judge sees."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal

from agent.bench.differential import Function, compare
from agent.bench.lab import Lab, Labs
from agent.bench.specimen import File, Judgement, NotPosed, Specimen, changed
from agent.bench.splitting import NoTests, TestFile, halves
from agent.ci.configuration import Configuration, TestCommand
from agent.task import Repair, Verdict, VerdictId
from sandbox.base import Packages

OracleKind = Literal["all", "half"]
TESTS_SECONDS = 10.0  # one run of the tests of one function; a bug may hang it
CONFIGURATION = Configuration(
    tests=(TestCommand(run="python -m pytest -q", kind="pytest", timeout=TESTS_SECONDS),),
    packages=Packages(requirements=("pytest",)),
)


@dataclass(frozen=True, slots=True)
class FunctionTask:
    """One broken function with all that is known of it."""

    id: str
    module: str  # name of the module, a file at the root
    entry: str  # the function under test
    source: str  # of the broken module
    reference: str | None  # of the right one
    tests: TestFile
    beside: tuple[tuple[str, str], ...] = ()  # further files: path, text

    @property
    def test_path(self) -> str:
        return f"test_{self.module}.py"

    def id_of(self, name: str) -> VerdictId:
        return VerdictId(f"{self.test_path}::{name}")

    def specimen(self, shown: tuple[str, ...] | None) -> Specimen:
        """The repository with these tests, or with all."""
        texts = {f"{self.module}.py": self.source, self.test_path: self.tests.text(shown), **dict(self.beside)}
        return Specimen(self.id, {path: File(text.encode()) for path, text in texts.items()}, CONFIGURATION)


@dataclass(frozen=True, slots=True)
class FunctionTrial:
    """`shown` and `held_out` are names of tests; with nothing held out the reference decides."""

    task: FunctionTask
    labs: Labs
    shown: tuple[str, ...]
    held_out: tuple[str, ...]

    @property
    def specimen(self) -> Specimen:
        return self.task.specimen(self.shown)

    async def judge(self, repair: Repair) -> Judgement:
        async with self.labs.open(self.task.specimen(None).files, CONFIGURATION) as lab:
            return await (self._by_tests(lab, repair) if self.held_out else self._by_reference(lab, repair))

    async def _by_tests(self, lab: Lab, repair: Repair) -> Judgement:
        tests = {self.task.test_path: self.task.tests.text(self.held_out).encode()}
        verdicts = await lab.verdicts({**changed(repair.edits), **tests})
        passed = [name for name in self.held_out if verdicts.get(self.task.id_of(name)) is Verdict.PASSED]
        how = f"{len(passed)} of {len(self.held_out)} held-out tests pass"
        return Judgement(len(passed) == len(self.held_out), how)

    async def _by_reference(self, lab: Lab, repair: Repair) -> Judgement:
        task = self.task
        if task.reference is None:
            return Judgement(None, "nothing is held out, and there is no reference")
        function = Function(task.module, task.entry, task.test_path.removesuffix(".py"))
        path = f"{task.module}.py"
        agreement = await compare(lab, function, {path: task.reference.encode()}, changed(repair.edits))
        if agreement is None:
            return Judgement(None, "its tests make no call that can be repeated")
        if agreement.difference is None:
            return Judgement(True, f"the same as the reference on {agreement.compared} inputs")
        return Judgement(False, f"unlike the reference on {agreement.difference[:200]}")


@asynccontextmanager
async def function_trial(task: FunctionTask, oracle: OracleKind, labs: Labs) -> AsyncIterator[FunctionTrial]:
    """Raises `NotPosed` when no test fails, `SandboxError`."""
    names = tuple(task.tests.tests)
    trial = FunctionTrial(task, labs, names, ())
    if oracle == "half":
        async with labs.open(task.specimen(None).files, CONFIGURATION) as lab:
            verdicts = await lab.verdicts()
        try:
            shown, held_out = halves(names, verdicts, task.id_of)
        except NoTests as error:
            raise NotPosed(f"{error} on the broken function") from error
        trial = replace(trial, shown=shown, held_out=held_out)
    yield trial
