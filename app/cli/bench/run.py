"""`selfheal bench`: one task after the other through the very engine of the product, a few at a time.

Every task is an attempt of its own: a fresh sandbox, fresh checkpoints, nothing remembered. Only `Engine.heal` is timed; posing
and judging happen in sandboxes of the judge's own. Knows the engine and how a run is kept, not what a benchmark is made of.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from langgraph.checkpoint.memory import InMemorySaver
from platformdirs import user_cache_path

from agent.bench import score
from agent.bench.lab import Labs
from agent.bench.score import Entry
from agent.bench.specimen import Benchmark, NotPosed, Skipped, Specimen, packed
from agent.blobs import MemoryBlobs
from agent.case import Case
from agent.contract.events import AnyEvent
from agent.contract.outcome import NoRepair, Outcome, Repair
from agent.engine import Engine
from agent.question import Waiting
from app.assembly import budget_of, e2b_of, limits_of, models_of
from app.cli.bench.results_file import State
from app.settings import Settings
from sandbox.base import SandboxError, Sandboxes
from sandbox.choose import Containers, open_sandboxes

if TYPE_CHECKING:
    from agent.models.router import Models

OVERTIME = 900.0  # seconds beyond a task's budget, for what the budget does not bound: installing, a last check


@dataclass(frozen=True, slots=True)
class Run:
    """A benchmark as it is run here. `done` is told of every entry, also of those of an earlier run."""

    benchmark: Benchmark
    ids: Sequence[str]
    settings: Settings
    seconds: float  # budget of one task
    jobs: int
    state: State
    done: Callable[[Entry], None]
    entries: dict[str, Entry] = field(default_factory=dict)

    async def work(self) -> None:
        """Work through all tasks that are not done yet. Raises `SandboxUnavailable` when there is none at all, `StateLost`."""
        for id_ in self.ids:
            if (known := self.state.known.get(id_)) is not None:
                self._keep(known)
        waiting = iter([id_ for id_ in self.ids if id_ not in self.entries])
        sandboxes = await _sandboxes(self.settings)
        models = await models_of(self.settings)

        async def hand() -> None:
            for id_ in waiting:
                entry = await self._attempt(id_, sandboxes, models)
                self.state.append(entry)
                self._keep(entry)

        try:
            async with asyncio.TaskGroup() as hands:
                for _ in range(self.jobs):
                    hands.create_task(hand())
        except ExceptionGroup as group:
            raise group.exceptions[0] from None  # the other hands were only told to stop

    def results(self) -> list[Entry]:
        """What is done, in the benchmark's order."""
        return [self.entries[id_] for id_ in self.ids if id_ in self.entries]

    def _keep(self, entry: Entry) -> None:
        self.entries[entry.id] = entry
        self.done(entry)

    async def _attempt(self, id_: str, sandboxes: Sandboxes, models: Models | None) -> Entry:
        group = self.benchmark.groups[id_]
        limits = limits_of(self.settings)
        budget = replace(budget_of(self.settings), seconds=self.seconds)
        try:
            async with self.benchmark.trial(id_, Labs(sandboxes, limits)) as trial:
                engine = Engine(sandboxes, models, InMemorySaver(), budget, limits)
                result, seconds = await _healed(engine, trial.specimen, self.seconds + OVERTIME)
                judgement = await trial.judge(result) if isinstance(result, Repair) else None
                return score.entry(id_, group, result, seconds, judgement)
        except Skipped as nothing:
            return score.skipped(id_, group, str(nothing))
        except NotPosed as error:
            return score.failed(id_, group, Outcome.REFUSED, f"the task could not be posed: {error}")
        except (SandboxError, TimeoutError) as error:
            why = str(error) or f"it did not end {OVERTIME:.0f} s after its budget"
            return score.failed(id_, group, Outcome.INFRASTRUCTURE, f"the sandbox failed: {why}")
        except Exception as error:  # noqa: BLE001 - one task's fault is its entry; the others are measured all the same
            return score.failed(id_, group, Outcome.ERROR, f"{type(error).__name__}: {error}")


async def _healed(engine: Engine, specimen: Specimen, longest: float) -> tuple[Repair | NoRepair, float]:
    """One attempt as the product makes it, with its seconds. Raises `SandboxError`, `TimeoutError` after `longest` seconds."""
    case = Case(specimen.id, specimen.id, packed(specimen.files), configuration=specimen.configuration)
    started = time.monotonic()
    async with asyncio.timeout(longest):
        result = await engine.heal(case, blobs=MemoryBlobs(), emit=_unheard)
    assert not isinstance(result, Waiting), "nobody is asked: nothing is published"
    return result, time.monotonic() - started


async def _unheard(_: AnyEvent) -> None:
    """What an attempt tells on its way is for people who wait for it."""


async def _sandboxes(settings: Settings) -> Sandboxes:
    """Those of the settings, tried once so that what is missing is said at the start. Raises `SandboxUnavailable`."""
    sandboxes = await open_sandboxes(
        settings.sandbox,
        user_cache_path("selfheal"),
        trusted=settings.trust_code,
        index_hosts=settings.package_index_hosts,
        containers=Containers(settings.sandbox_image, settings.docker_host, settings.sandbox_images),
        e2b=e2b_of(settings),
        python_downloads=settings.python_downloads,
    )
    async with sandboxes.open("probe"):
        return sandboxes
