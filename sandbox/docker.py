"""Docker or Podman: sandboxes in a container engine that is already there, reached over its API.

A sandbox is some volumes (repository, tools, environment) and one fresh container a command, made by `containers.recipe`; files
go in and out through `containers.files`. A candidate is a volume of its own, filled from the base and bounded in memory where
the engine can do that, at the same path as every other. What runs is the image's: its Python, its programs.

It is not a virtual machine: the kernel is shared.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiodocker.containers import DockerContainer

from sandbox import folders
from sandbox.base import (
    Command,
    Completed,
    Installed,
    Isolation,
    Limits,
    Packages,
    Promise,
    SandboxLost,
    SandboxUnavailable,
    Workspace,
)
from sandbox.containers import engine as engines
from sandbox.containers import resources as houses
from sandbox.containers.engine import Engine, Facts
from sandbox.containers.files import ROOT, TOP, WORK
from sandbox.containers.images import BASE, TOOLS, Image, checked, full_name, is_allowed, is_reference, look_into, volumes_of
from sandbox.containers.resources import House
from sandbox.containers.spec import Mount, Recipe
from sandbox.containers.tars import Packing
from sandbox.containers.workspace import DockerWorkspace, Hall
from sandbox.host.tree import check_tool_name
from sandbox.install.packages import Shop

MOST_PROCESSORS = 4


class DockerSandbox:
    """One attempt's volumes and containers."""

    def __init__(self, hall: Hall, isolation: Isolation, base: DockerWorkspace, keeper: DockerContainer) -> None:
        self._hall, self.isolation, self._base, self._keeper = hall, isolation, base, keeper

    @property
    def base(self) -> DockerWorkspace:
        return self._base

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        await self._base.unpack(archive)

    async def amend(self, command: Command) -> Completed:
        return await self._base.perform(command, writable=True)

    async def install(self, packages: Packages) -> Installed:
        return await self._base.install(packages)

    async def provide(self, name: str, content: bytes) -> str:
        check_tool_name(name)
        packing = Packing()
        try:
            packing.add(name, io.BytesIO(content), len(content), 0o644)
            await self._hall.house.engine.put(self._keeper, TOOLS, packing.finish())
        finally:
            packing.close()
        return f"{TOOLS}/{name}"

    @asynccontextmanager
    async def candidate(self) -> AsyncIterator[Workspace]:
        house = self._hall.house
        volume = await house.bounded_volume()
        try:
            mounts = (Mount(volume, WORK, writable=True), Mount(self._base.volume, BASE))
            keeper = await house.running_keeper(mounts, f"mkdir -p {ROOT}\ncp -a {BASE}/{TOP}/. {ROOT}/")
        except BaseException:
            await asyncio.shield(house.drop_volume(volume))
            raise
        workspace = DockerWorkspace(self._hall, volume, keeper, self._base.env, writable=True)
        try:
            yield workspace
        finally:
            await asyncio.shield(workspace.close())


@dataclass(frozen=True, slots=True)
class Choice:
    """The operator's: `image` is what code runs in, `allowed` the patterns of what a repository may choose instead."""

    image: str
    allowed: tuple[str, ...] = ()


class DockerSandboxes:
    """Opens sandboxes in the engine at `address`. `folder`, made when needed, tells which workers live; `shop` has packages."""

    def __init__(self, folder: Path, shop: Shop, choice: Choice, address: str, facts: Facts) -> None:
        self._folder, self._shop, self._choice, self._address, self._facts = folder, shop, choice, address, facts
        self._wish: str | None = None  # the full name of what a repository chose
        self._pulled: dict[str, str] = {}  # full name → id
        self._known: dict[str, Image] = {}

    @property
    def isolation(self) -> Isolation:
        return isolation_of(self._facts)

    def with_image(self, image: str) -> DockerSandboxes | None:
        """The same, with another image: what a workflow's `container:` names; None where the operator does not allow it.

        Raises `SandboxUnavailable` for no such name.
        """
        if full_name(checked(image)) == full_name(self._choice.image):
            return self
        if not is_allowed(image, self._choice.allowed):
            return None
        other = DockerSandboxes(self._folder, self._shop, self._choice, self._address, self._facts)
        other._wish, other._pulled, other._known = full_name(image), self._pulled, self._known
        return other

    @asynccontextmanager
    async def open(self, label: str, limits: Limits | None = None) -> AsyncIterator[DockerSandbox]:
        limits = limits or Limits()
        await asyncio.to_thread(folders.sweep, self._folder)
        async with AsyncExitStack() as closing:
            engine = await closing.enter_async_context(engines.connected(self._address))
            folder, _ = await closing.enter_async_context(folders.held(self._folder, label, None))
            try:
                await houses.sweep(engine, self._folder)
                sandbox = await self._furnish(engine, folder.path, limits, closing)
            except SandboxLost as error:
                raise SandboxUnavailable(error.reason) from error
            closing.push_async_callback(sandbox.base.close)
            yield sandbox

    async def _furnish(self, engine: Engine, folder: Path, limits: Limits, closing: AsyncExitStack) -> DockerSandbox:
        name = self._choice.image if self._wish is None else await self._pull(engine, self._wish)
        config = (await engine.image(name)).get("Config") or {}
        labels = {houses.INSTALLATION: houses.installation(self._folder), houses.SANDBOX: folder.name}
        processors = min(self._facts.processors, MOST_PROCESSORS)
        house = House(engine, self._facts, Recipe(name, limits, processors, labels, volumes_of(name, config)))
        closing.push_async_callback(house.clear)
        if name not in self._known:
            self._known[name] = await look_into(house, self._wish or name, config)
        volume, tools = await house.volume(), await house.volume()
        hall = Hall(house, self._known[name], Mount(tools, TOOLS), self._shop, folder)
        keeper = await house.keeper((Mount(volume, WORK, writable=True), Mount(tools, TOOLS, writable=True)))
        await house.make_top(keeper)
        # Read-only: every candidate begins as it, and what it says must not depend on what was run before.
        base = DockerWorkspace(hall, volume, keeper, None, writable=False)
        return DockerSandbox(hall, self.isolation, base, keeper)

    async def _pull(self, engine: Engine, name: str) -> str:
        """Once a worker: what the engine has under a name that a repository chose may be anybody's."""
        if name not in self._pulled:
            self._pulled[name] = await engine.pulled(name)
        return self._pulled[name]


async def reach(folder: Path, shop: Shop, choice: Choice, address: str | None = None) -> DockerSandboxes:
    """Sandboxes in the engine that is there. `address`: "unix:///path", "tcp://host:port"; default: as its clients find it.

    Raises `SandboxUnavailable`.
    """
    checked(choice.image)
    for pattern in choice.allowed:
        if not is_reference(pattern.replace("*", "x")):
            raise SandboxUnavailable(f"{pattern[:200]!r} is no pattern of images' names (python:*, registry.example/team/*)")
    where = engines.address(address)
    try:
        async with engines.connected(where) as engine:
            facts = await engine.facts()
    except SandboxLost as error:
        raise SandboxUnavailable(error.reason) from error
    return DockerSandboxes(folder, shop, choice, where, facts)


def isolation_of(facts: Facts) -> Isolation:
    """What a sandbox in such an engine bounds, in plain words."""
    shortcomings = ["it is no virtual machine: the kernel is shared with the engine's host", *facts.missing]
    if not facts.rootless:
        shortcomings.append(f"{facts.name} runs as root: a way out of a container leads to more than with a rootless engine")
    if houses.unbounded(facts):
        shortcomings.append("the disk that a candidate uses is not bounded: a rootless Podman may not mount bounded volumes")
    kept: dict[Promise, bool] = {
        "files": True,
        "network": True,
        "processes": facts.bounds_processes,
        "disk": not houses.unbounded(facts),
        "memory": facts.bounds_memory,
    }
    promises = frozenset(promise for promise, holds in kept.items() if holds)
    # What is held inside is what makes code harmless; a full disk or memory is a nuisance to the engine's host.
    return Isolation("docker", untrusted=facts.filters, shortcomings=tuple(shortcomings), promises=promises)
