"""The parts of a benchmark: a broken repository, and a judge who knows more than the engine sees.

A benchmark lists ids, sets up one task at a time as a `Specimen`, and judges its repair in a separate sandbox, a `Lab`, so
that nothing an attempt did can affect its score. Knows nothing about the app, progress or tables.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from agent.checks.runner import Runner
from agent.ci import installation
from agent.ci.job.commit import commit_workspace
from agent.ci.job.contexts import Run
from agent.ci.plan import plan
from agent.ci.project.configuration import Configuration
from agent.contract.budget import Budget
from agent.contract.last_good import LastGood
from agent.contract.outcome import NoRepair, Repair
from agent.contract.proposal import Edits
from agent.contract.verdicts import Check, CheckRun, VerdictId
from agent.edits.changes import diff
from agent.source.archive import File, Files, packed
from sandbox.base import MIB, Command, Completed, InstallFailed, Limits, Sandbox, Sandboxes, Workspace

T = TypeVar("T")


class BadInput(Exception):
    """The user's input cannot be used; the message is one line that says why and what to do."""


class NotPosed(Exception):
    """A task cannot be set up here: a download fails, or no test does. Says nothing about the engine."""


class Skipped(Exception):
    """There is nothing to heal in this task, so it does not count. The message says why."""


class NoTask(Skipped):
    """A benchmark that looks for its tasks found fewer than it has ids for: not worth a line of its own."""


@contextmanager
def passing_over() -> Iterator[None]:
    """For a benchmark that looks through a history: what cannot be set up at one commit says nothing, so it is skipped."""
    try:
        yield
    except NotPosed as error:
        raise Skipped(str(error)) from error


VERIFIED = "verified"  # the key of the verified changes in the details of a judgement
PRINTED = "printed"  # likewise: the end of what the judge's tests printed
MOST_PRINTED = 8_000  # characters of it


@dataclass(frozen=True, slots=True)
class Specimen:
    """One broken repository, as the engine sees it."""

    id: str
    files: Files
    configuration: Configuration
    good: tuple[LastGood, ...] = ()  # as in `agent.case.Case`
    tag: str = ""  # likewise


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judge's result for a repair. `heldout_correct` is None if there was nothing to judge it by."""

    heldout_correct: bool | None
    how: str  # the basis, for people: "5 held-out tests", "212 inputs compared with the reference"
    details: Mapping[str, Any] = field(default_factory=dict)  # the benchmark's own figures, plain data


@dataclass(frozen=True, slots=True)
class Trial:
    """One task in progress."""

    specimen: Specimen
    judge: Callable[[Repair], Awaitable[Judgement]]  # raises `SandboxError`
    inspect: Callable[[NoRepair], Awaitable[Judgement]] | None = None  # for figures about attempts without a repair
    group: str | None = None  # if it is known only now

    async def judged(self, result: Repair | NoRepair) -> Judgement | None:
        """The details tell about every verified change, also about those that were too unsure. Raises `SandboxError`."""
        if isinstance(result, Repair):
            judgement = await self.judge(result)
            return replace(judgement, details={**judgement.details, VERIFIED: [_verified(result, judgement)]})
        if self.inspect is None and not result.suspects:
            return None
        told = await self.inspect(result) if self.inspect is not None else Judgement(None, "there is no repair")
        judged = [(each, await self.judge(each)) for each in result.suspects]
        found = any(judgement.heldout_correct for _, judgement in judged[:1])
        return replace(
            told,
            details={
                **told.details,
                **({"withheld": True, "found": found or bool(told.details.get("found"))} if judged else {}),
                VERIFIED: [_verified(each, judgement) for each, judgement in judged],
            },
        )


def _verified(repair: Repair, judgement: Judgement) -> dict[str, Any]:
    """A change, how sure it is, and whether it is right: what the confidence is fitted on."""
    return {
        "rung": repair.log.iterations[-1].rung if repair.log.iterations else "",
        "title": repair.title,
        "diff": diff(repair.edits),
        "confidence": repair.confidence,
        "signals": dict(repair.signals),
        "doubts": list(repair.doubts),
        "right": judgement.heldout_correct,
        "judged_by": judgement.how,
    }


Changes = Mapping[str, bytes | None]
"""File contents to write over the repository; None removes a file."""


@dataclass(frozen=True, slots=True)
class Lab:
    """One repository with its dependencies installed, and the means to run its tests."""

    sandbox: Sandbox
    runner: Runner
    checks: tuple[Check, ...]

    async def runs(
        self, changes: Changes, *, only: Mapping[str, frozenset[VerdictId]] | None = None, seconds: float | None = None
    ) -> tuple[CheckRun, ...]:
        """One run of each check in a fresh workspace, for at most `seconds` each. Raises `SandboxError`.

        `only` names the checks to run and their tests."""
        checks = [check for check in self.checks if only is None or check.name in only]
        async with self._with(changes) as workspace:
            return tuple(
                [
                    await self.runner.run(
                        workspace, check, only=only[check.name] if only is not None else None, timeout=seconds
                    )
                    for check in checks
                ]
            )

    async def program(self, changes: Changes, source: bytes, stdin: bytes, seconds: float) -> Completed:
        """Run a Python program in a fresh workspace of the repository. Raises `SandboxError`."""
        program = await self.sandbox.provide("judge.py", source)
        async with self._with(changes) as workspace:
            argv = (workspace.python, program)
            return await workspace.run(Command(argv, seconds, stdin=stdin, output_limit=16 * MIB))

    @asynccontextmanager
    async def _with(self, changes: Changes) -> AsyncIterator[Workspace]:
        async with self.sandbox.candidate() as workspace:
            for path, content in changes.items():
                if content is None:
                    await workspace.remove(path)
                else:
                    await workspace.write(path, content)
            yield workspace


@dataclass(frozen=True, slots=True)
class Labs:
    """Opens labs."""

    sandboxes: Sandboxes
    limits: Limits

    @asynccontextmanager
    async def open(self, files: Files, configuration: Configuration, tag: str = "") -> AsyncIterator[Lab]:
        """A lab of these files, prepared as by the engine.

        Raises `SandboxError`, and `NotPosed` if there is no check or its dependencies cannot be installed."""
        async with self.sandboxes.open("judge", self.limits) as sandbox:
            await sandbox.unpack(packed(files))
            planned = await plan(sandbox.base, configuration=configuration, sandbox=sandbox)
            if not planned.checks:
                raise NotPosed(planned.ending.reason)
            await commit_workspace(sandbox, Run(tag=tag))
            planned = await asyncio.to_thread(installation.with_what_tests_need, planned, failed_in_ci=False)
            until = time.monotonic() + Budget().seconds / 2  # as the engine's
            try:
                planned, _ = await installation.install(planned, sandbox, failed_in_ci=False, was_met=False, until=until)
            except InstallFailed as error:
                raise NotPosed(f"its dependencies cannot be installed: {error.reason}") from error
            runner = Runner(sandbox)
            await runner.prepare()
            yield Lab(sandbox, runner, tuple(replace(check, absent=planned.absent) for check in planned.checks))


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Tasks of one kind. `trial` sets up one by its id; it raises `NotPosed`, `Skipped` and `SandboxError`.

    `figures` adds the benchmark's own figures to the summary of its `agent.bench.score.Entry`s."""

    name: str
    groups: Mapping[str, str]  # the ids in order, each with its group in the figures: a type of bug, a package
    options: Mapping[str, str]  # other settings that affect the figures ("oracle": "half"); compare only equal ones
    trial: Callable[[str, Labs], AbstractAsyncContextManager[Trial]]
    wanted: int | None = None  # tasks to measure, in order, where not every id has one; None: all
    figures: Callable[[Sequence[Any]], Mapping[str, Any]] | None = None


def printed(runs: Iterable[CheckRun]) -> dict[str, str]:
    """The detail of a judgement by these runs."""
    return {PRINTED: "\n".join(run.output for run in runs)[-MOST_PRINTED:]}


def listed(manifest: Path, kind: type[T], what: str) -> list[T]:
    """The JSON list in a manifest. `what` names it, such as "a list of patches". Raises `BadInput`."""
    try:
        return msgspec.json.decode(manifest.read_bytes(), type=list[kind])  # type: ignore[valid-type]
    except OSError as error:
        raise BadInput(f"{manifest} cannot be read: {error.strerror}; give {what}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{manifest} is not {what}: {error}; docs/benchmarks.md shows its format") from error


def text_of(file: File) -> str | None:
    """The file's text; None if it is not UTF-8, or a link."""
    try:
        return None if file.link else file.content.decode()
    except UnicodeDecodeError:
        return None


def changed(edits: Edits) -> dict[str, bytes | None]:
    """A repair as file contents; None removes a file."""
    return {change.path: None if change.after is None else change.after.encode() for change in edits}
