"""Runs the tasks of a benchmark through the product's engine, a few at a time.

Every task is a separate attempt: a new sandbox, new checkpoints, no memories. Only `Engine.heal` is timed. Tasks are set up and
judged in other sandboxes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from agent.bench import score
from agent.bench.lab import Benchmark, Labs, NoTask, NotPosed, Skipped, Specimen
from agent.bench.score import Entry, task_of
from agent.case import Case
from agent.contract.blobs import MemoryBlobs
from agent.contract.events import AnyEvent
from agent.contract.outcome import NoRepair, Outcome, Repair
from agent.contract.question import Waiting
from agent.contract.task import Policy
from agent.engine import Engine
from agent.extensions import Extensions
from agent.models.values import ModelError
from agent.solving.solution import Options
from agent.solving.tasks import SolveBenchmark
from agent.source.archive import packed
from app.assembly import budget_of, check_models, limits_of, models_of, sandboxes_in
from app.cli.bench.results_file import ResultsFile
from app.settings import Settings
from sandbox.base import SandboxError, Sandboxes

if TYPE_CHECKING:
    from agent.models.router import Models

OVERTIME = 900.0  # seconds beyond a task's budget, for steps that the budget does not limit: installing, a last check


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a benchmark. `done` is called with each entry, including those from an earlier run."""

    benchmark: Benchmark | SolveBenchmark
    ids: Sequence[str]
    settings: Settings
    seconds: float  # budget of one task
    jobs: int
    state: ResultsFile
    done: Callable[[Entry], None]
    policy: Policy = Policy()
    extensions: Extensions | None = None
    wanted: int | None = None  # tasks to measure, in order; None: all
    options: Options = field(default_factory=Options)  # how a specification is solved
    iterations: int | None = None  # of one task; None: the settings'
    entries: dict[str, Entry] = field(default_factory=dict)

    async def work(self) -> None:
        """Run every task that has no result yet. Raises `SandboxUnavailable`, `ResultsNotSaved`."""
        for id_ in self.ids:
            if (known := self.state.known.get(id_)) is not None:
                self._keep(known)
        waiting = iter([id_ for id_ in self.ids if id_ not in self.entries])
        sandboxes = await sandboxes_in(user_cache_path("selfheal"), self.settings, trusted=self.settings.trust_code)
        async with sandboxes.open("probe"):  # reports an unusable sandbox before the first task
            pass
        if isinstance(self.benchmark, SolveBenchmark):
            await check_models(self.settings)
        models = await models_of(self.settings)

        running: set[str] = set()
        ended = asyncio.Condition()

        async def next_one() -> str | None:
            async with ended:
                await ended.wait_for(lambda: not running or not self._is_enough(len(running)))
                id_ = None if self._is_enough(len(running)) else next(waiting, None)
                running.update({id_} if id_ is not None else ())
                return id_

        async def work_through() -> None:
            while (id_ := await next_one()) is not None:
                entry = await self._attempt(id_, sandboxes, models)
                if entry is not None:
                    self.state.append(entry)
                    self._keep(entry)
                async with ended:
                    running.discard(id_)
                    ended.notify_all()

        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(self.jobs):
                    workers.create_task(work_through())
        except ExceptionGroup as group:
            raise group.exceptions[0] from None  # the other workers were cancelled

    def results(self) -> list[Entry]:
        """The entries so far, in the benchmark's order."""
        return [self.entries[id_] for id_ in self.ids if id_ in self.entries]

    def _is_enough(self, running: int) -> bool:
        """Whether the finished and the running tasks are as many as wanted."""
        counted = sum(entry.skipped is None for entry in self.entries.values())
        return self.wanted is not None and counted + running >= self.wanted

    def _keep(self, entry: Entry) -> None:
        self.entries[entry.id] = entry
        self.done(entry)

    async def _attempt(self, id_: str, sandboxes: Sandboxes, models: Models | None) -> Entry | None:
        """None if the benchmark has no task with this id, and others can stand in for it."""
        group = self.benchmark.groups[id_]
        limits = limits_of(self.settings)
        budget = replace(budget_of(self.settings), seconds=self.seconds)
        budget = budget if self.iterations is None else replace(budget, iterations=self.iterations)
        try:
            engine = Engine(sandboxes, models, None, budget, limits, self.policy, self.extensions)
            if isinstance(self.benchmark, SolveBenchmark):
                async with asyncio.timeout(self.seconds + OVERTIME):
                    return await self.benchmark.attempt(id_, engine, Labs(sandboxes, limits), self.options, _ignore)
            async with self.benchmark.trial(task_of(id_), Labs(sandboxes, limits)) as trial:
                group = trial.group or group
                result, seconds = await _healed(engine, trial.specimen, self.seconds + OVERTIME)
                return score.entry(id_, group, result, seconds, await trial.judged(result))
        except NoTask as reason:
            return None if self.wanted is not None else score.skipped(id_, group, str(reason))
        except Skipped as reason:
            return score.skipped(id_, group, str(reason))
        except NotPosed as error:
            return score.failed(id_, group, Outcome.REFUSED, f"the task could not be set up: {error}")
        except ModelError as error:
            return score.failed(id_, group, Outcome.INFRASTRUCTURE, f"the model failed: {error}")
        except (SandboxError, TimeoutError) as error:
            why = str(error) or f"it was still running {OVERTIME:.0f} s after its budget"
            return score.failed(id_, group, Outcome.INFRASTRUCTURE, f"the sandbox failed: {why}")
        except Exception as error:  # noqa: BLE001 - any failure becomes the task's entry, and the other tasks continue
            return score.failed(id_, group, Outcome.ERROR, f"{type(error).__name__}: {error}")


async def _healed(engine: Engine, specimen: Specimen, longest: float) -> tuple[Repair | NoRepair, float]:
    """One attempt and its duration. Raises `SandboxError`, and `TimeoutError` after `longest` seconds."""
    case = Case(
        specimen.id,
        specimen.id,
        packed(specimen.files),
        configuration=specimen.configuration,
        good=specimen.good,
        tag=specimen.tag,
    )
    started = time.monotonic()
    async with asyncio.timeout(longest):
        result = await engine.heal(case, blobs=MemoryBlobs(), emit=_ignore)
    assert not isinstance(result, Waiting), "no approval is requested, as nothing is published"
    return result, time.monotonic() - started


async def _ignore(_: AnyEvent) -> None:
    """Events are not shown."""
