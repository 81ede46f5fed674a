"""Where a scenario happens: the stand-in, the service as real processes, and what is known of both while it runs.

The service's own database is read for aiming only (which process works on what, how far it is); nothing is judged by it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agent.contract.events import StepStarted
from app.clock import SystemClock
from app.settings import load
from app.store.store import Store, open_store
from tests.chaos import machine
from tests.chaos.judge import Blow, Request, taken_over
from tests.chaos.machine import RedisServer
from tests.standins.github import GitHub
from tests.standins.github.deliveries import Attempt as Delivery
from tests.standins.github.faults import ConnectionReset
from tests.standins.github.routing import Call
from tests.standins.postgres import Postgres, PostgresMissing, serving
from tests.story.service import Service
from tests.story.story import PYTEST, WORKFLOW, tidy
from tests.story.test_healing import BROKEN, CALCULATOR

DEFAULTS: Mapping[str, str] = {"SELFHEAL_MODEL": "none", "SELFHEAL_SANDBOX": "local"}  # the one whose leftovers are known here
QUICK: Mapping[str, str] = {**DEFAULTS, "SELFHEAL_LEASE_SECONDS": "12", "SELFHEAL_SWEEP_SECONDS": "1"}
PATH = "calculator.py"
GREEN, RED = tidy(CALCULATOR), tidy(BROKEN)
PATIENCE = 240.0  # seconds for anything that must happen, on a machine that is busy
_opening = asyncio.Lock()  # of stores: one process migrates one at a time, for Alembic's context is the process's own
_GLANCE_SECONDS = 0.005  # from one look to the next: some steps of the story are over in no time


class Missed(Exception):
    """The scenario could not do what it is about; the message says what it waited for."""


class NotHere(Exception):
    """This machine cannot show the scenario; the message says why."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How the service runs. `redis`, `postgres`: servers of the scenario's own, else the embedded one and SQLite. `disk`: MiB
    of a file system for the data folder alone."""

    variables: Mapping[str, str] = field(default_factory=lambda: QUICK)
    workers: int = 2
    program: str = "app"
    redis: bool = False
    postgres: bool = False
    disk: int | None = None


@dataclass(frozen=True, slots=True)
class Servers:
    """What the service depends on and the scenario may strike."""

    redis: RedisServer | None
    postgres: Postgres | None


class Stage:
    """One running service. Several scenarios may use it one after the other, each with repositories of its own."""

    def __init__(self, github: GitHub, service: Service, store: Store, servers: Servers) -> None:
        self.github, self.service, self.store, self.servers = github, service, store, servers
        self.folder = service.folder
        self.owner = f"chaos{secrets.token_hex(3)}"
        self.blows: list[Blow] = []
        self.notes: list[str] = []
        self._requests: list[Request] = []
        self._first = 0
        github.watch(self._noted)

    def begin(self) -> None:
        """A new scenario begins: what was before does not count for it."""
        self.blows, self.notes, self._first = [], [], len(self.github.deliveries)

    # What happens at GitHub

    def full_name(self, name: str) -> str:
        """What a repository of that name is called here; it need not be there yet."""
        return f"{self.owner}/{name}"

    async def repository(self, name: str, *, on: str = "[push]") -> str:
        """A green repository of the sample; answers its full name."""
        full_name = self.full_name(name)
        files: dict[str, str | bytes | None] = {
            ".github/workflows/ci.yml": WORKFLOW.format(command=PYTEST, on=on),
            # A commit on a branch that is nothing but a slip would only be reported.
            ".github/selfheal.yml": "allow_reversals: true\n",
            **GREEN,
        }
        await self.github.create_repository(full_name, files)
        return full_name

    async def turns_red(self, full_name: str, branch: str = "main") -> str:
        """A push that breaks the tests, its run and the run's deliveries go on in the background; answers the commit.

        Its message names the branch: two branches that break in one second would otherwise be one commit, and one attempt.
        """
        return await self.github.push(full_name, branch, RED, f"Simplify the comparison on {branch}")

    async def asked(self, name: str) -> None:
        """A repository with a red pull request on which a maintainer has just asked for a repair."""
        full_name = await self.repository(name, on="workflow_dispatch")
        self.github.add_collaborator(full_name, "maria", "write")
        await self.github.push(full_name, "topic", RED, "Simplify the comparison")
        pull = await self.github.open_pull(full_name, "topic")
        await self.github.comment(full_name, pull.number, "maria", "/heal")

    @property
    def deliveries(self) -> list[Delivery]:
        """Every attempt at delivering since the scenario began."""
        return self.github.deliveries[self._first :]

    def failed_runs(self) -> list[Delivery]:
        """Deliveries of completed runs that failed, each the first time."""
        found = (one for one in self.deliveries if one.event == "workflow_run" and one.action == "completed")
        return [one for one in found if not one.redelivery and one.payload["workflow_run"]["conclusion"] == "failure"]

    async def redeliver(self) -> int:
        """What an operator does on GitHub's page after an outage: send again what nobody took. How many that were."""
        await self.github.settled()
        taken = {delivery.guid for delivery in self.deliveries if delivery.status_code == 202}
        missing = {delivery.guid: delivery for delivery in self.deliveries if delivery.guid not in taken}
        for delivery in missing.values():
            self.github.redeliver(delivery)
        await self.github.settled()
        return len(missing)

    # Aiming

    async def until(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Raises `Missed` when it does not become true."""
        deadline = time.monotonic() + PATIENCE
        while not await condition():
            if time.monotonic() > deadline:
                raise Missed(f"never happened: {what}\n{self.service.log('worker')[-2000:]}")
            await asyncio.sleep(_GLANCE_SECONDS)

    async def is_claimed(self, full_name: str) -> bool:
        return await self.victim(full_name) is not None

    async def has_begun(self, full_name: str, step: str) -> bool:
        return step in await self._steps(full_name)

    async def last_step(self, full_name: str) -> str | None:
        """The step of the story that the repository's attempt is in."""
        steps = await self._steps(full_name)
        return steps[-1] if steps else None

    async def _steps(self, full_name: str) -> list[str]:
        for attempt in await self.store.attempts(repository=full_name, limit=1):
            timeline = await self.store.timeline(attempt.id)
            return [stored.event.step for stored in timeline if isinstance(stored.event, StepStarted)]
        return []

    async def victim(self, full_name: str) -> int | None:
        """Process id of the worker that works on the repository now."""
        for attempt in await self.store.attempts(repository=full_name, status="running", limit=1):
            if attempt.worker is not None:
                return int(attempt.worker.rpartition(":")[2])
        return None

    def asker(self, method: str, path: str) -> int | None:
        """Process id of the worker that sent the last such request; None when it was nobody of ours."""
        asked = (request for request in reversed(self._requests) if (request.method, request.path) == (method, path))
        return next((request.worker for request in asked), None)

    def workers_of(self, full_name: str) -> set[int]:
        """Process ids of the workers that have asked about the repository."""
        asked = (request for request in self._requests if request.path.startswith(f"/repos/{full_name}/"))
        return {request.worker for request in asked if request.worker is not None}

    async def are_ready(self, workers: int) -> None:
        """Wait until so many workers have said that they are ready. Raises `Missed`."""

        async def ready() -> bool:
            return self.service.log("worker").count('"event": "ready"') >= workers

        await self.until("every worker is ready", ready)

    async def is_known(self, full_name: str) -> bool:
        """Whether a worker's look for missed failures has found the repository."""
        return bool(await self.store.known_since([self.github.repository(full_name).id]))

    def is_concluded(self, full_name: str) -> bool:
        """Whether GitHub shows an end of everything that was asked of us there."""
        runs = self.github.check_runs(full_name)
        return bool(runs) and all(run.status == "completed" for run in runs)

    async def let_go(self) -> None:
        """Close the judge's own connections to the service's database; the next look opens new ones."""
        await self.store.database.engine.dispose()

    # Blows

    def hit(self, full_name: str, struck: int | None = None) -> None:
        """Note that a blow fell, or that an outage ended: now the work on this repository has to go on.

        `struck`: the worker that cannot do it any more.
        """
        self.blows.append(Blow(full_name, time.monotonic(), struck))

    async def kill_worker(self, full_name: str, pid: int) -> None:
        """SIGKILL the worker, which works on the repository. Raises `Missed` when it is none of ours, or dead."""
        for worker in self.service.workers:
            if worker.pid == pid and worker.returncode is None:
                worker.kill()
                self.hit(full_name, pid)
                await worker.wait()
                return
        raise Missed(f"process {pid}, which works on {full_name}, is no worker of ours")

    def kill_at(
        self, full_name: str, method: str, path: str, when: Literal["before", "after"], after: str | None = None
    ) -> asyncio.Event:
        """Kill the worker while its next such request waits for its answer; the event says that it was done.

        `before`: the request is not carried out. `after`: only once the log of requests has this line.
        """
        done = asyncio.Event()

        async def kill(asked: str, whole: str) -> None:
            pid = self.asker(asked, whole)
            if done.is_set() or pid is None or (after is not None and after not in self.github.requests):
                return
            done.set()
            await self.kill_worker(full_name, pid)
            if when == "before":
                raise ConnectionReset

        self.github.faults.on(method, f"/repos/{full_name}/{path}", kill, when)
        return done

    # What came of it

    def takeovers(self) -> list[float | None]:
        """Per blow the seconds until the work on its repository went on; None where it has not."""
        return [taken_over(blow, self._requests) for blow in self.blows]

    async def is_idle(self) -> bool:
        """Whether the service says that it has nothing to do: only then it is worth judging what it has done."""
        return not any([await self.store.attempts(status=status, limit=1) for status in ("queued", "running")])

    def last_request(self) -> float:
        """When (monotonic) the stand-in was last asked for anything."""
        return self._requests[-1].at if self._requests else 0.0

    def _noted(self, call: Call) -> None:
        if "created" in call.query:  # a look for missed failures asks about every repository: that is no work on any
            return
        workers = [worker.pid for worker in self.service.workers if worker.returncode is None]
        self._requests.append(Request(time.monotonic(), call.method, call.path, machine.holder(call.port, workers)))


@contextlib.asynccontextmanager
async def open_stage(setting: Setting, folder: Path) -> AsyncIterator[Stage]:
    """The service in `folder` as `setting` says, for the length of the block; everything is stopped at its end."""
    (folder / "tmp").mkdir(parents=True)
    async with contextlib.AsyncExitStack() as opened:
        github = await opened.enter_async_context(GitHub())
        variables = {**setting.variables, "TMPDIR": str(folder / "tmp")}
        servers = Servers(RedisServer(folder) if setting.redis else None, await _postgres(opened) if setting.postgres else None)
        if servers.redis is not None:
            opened.push_async_callback(servers.redis.stop)
            await servers.redis.start()
            variables["SELFHEAL_REDIS_URL"] = servers.redis.url
        if servers.postgres is not None:
            variables["SELFHEAL_DATABASE_URL"] = servers.postgres.url(await asyncio.to_thread(servers.postgres.create))
        if setting.disk is not None:
            await opened.enter_async_context(small_disk(folder / "data", setting.disk))
        service = Service(github, folder, variables, setting.program)
        opened.push_async_callback(service.stop)
        await service.start(setting.workers)
        settings = load(data_dir=folder / "data", database_url=variables.get("SELFHEAL_DATABASE_URL"))
        async with _opening:
            store = await opened.enter_async_context(open_store(settings, SystemClock()))
        stage = Stage(github, service, store, servers)
        await stage.are_ready(setting.workers)
        yield stage


async def _postgres(opened: contextlib.AsyncExitStack) -> Postgres:
    """A server until `opened` is closed. Raises `NotHere`."""
    try:
        return await asyncio.to_thread(opened.enter_context, serving())
    except PostgresMissing as error:
        raise NotHere(str(error)) from error


@contextlib.asynccontextmanager
async def small_disk(folder: Path, mib: int) -> AsyncIterator[None]:
    """A file system of its own for `folder`. Raises `NotHere` where this process may not mount any."""
    folder.mkdir(parents=True)
    mount = ("mount", "-t", "tmpfs", "-o", f"mode=0700,size={mib}m", "chaos", str(folder))
    if await (await asyncio.create_subprocess_exec(*mount, stderr=DEVNULL)).wait() != 0:
        raise NotHere("a small file system cannot be mounted here; that takes root")
    try:
        yield
    finally:
        await (await asyncio.create_subprocess_exec("umount", "-l", str(folder))).wait()


def leftovers(stage: Stage) -> list[str]:
    """What there is of sandboxes and of processes without a master, while nothing is to be done."""
    service = {process.pid for process in (*stage.service.workers, stage.service.web)}
    if stage.servers.redis is not None:
        service.add(stage.servers.redis.pid)
    return machine.sandboxes(stage.folder, stage.owner) + machine.orphans(stage.folder, service)
