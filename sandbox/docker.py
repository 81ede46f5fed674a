"""Sandboxes in an existing container engine, Docker or Podman, through its API.

A sandbox is a few volumes (repository, tools, environment) and one fresh container per command (`containers.command`). Each
candidate has its own volume: a copy of the base, limited in size if the engine supports that, and mounted at the same path as
the others. Python and other programs come from the image.

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
from sandbox.containers import resources as engine_resources
from sandbox.containers.command import ContainerSpec
from sandbox.containers.engine import Engine, EngineInfo
from sandbox.containers.files import ROOT, TOP, WORK, TarBuilder
from sandbox.containers.images import BASE, TOOLS, Image, checked, full_name, inspect, is_allowed, is_reference, volumes_of
from sandbox.containers.resources import EngineResources
from sandbox.containers.workspace import ContainerContext, DockerWorkspace
from sandbox.host.job import Mount
from sandbox.host.tree import check_tool_name
from sandbox.install.packages import PackageStore

MOST_PROCESSORS = 4


class DockerSandbox:
    """One attempt's volumes and containers."""

    def __init__(self, context: ContainerContext, isolation: Isolation, base: DockerWorkspace, helper: DockerContainer) -> None:
        self._context, self.isolation, self.base, self._helper = context, isolation, base, helper

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        await self.base.unpack(archive)

    async def amend(self, command: Command) -> Completed:
        return await self.base.perform(command, writable=True)

    async def install(self, packages: Packages) -> Installed:
        return await self.base.install(packages)

    async def provide(self, name: str, content: bytes) -> str:
        check_tool_name(name)
        with TarBuilder() as tar:
            tar.add(name, io.BytesIO(content), len(content), 0o644)
            await self._context.resources.engine.put(self._helper, TOOLS, tar.finish())
        return f"{TOOLS}/{name}"

    @asynccontextmanager
    async def candidate(self) -> AsyncIterator[Workspace]:
        resources = self._context.resources
        volume = await resources.bounded_volume()
        try:
            mounts = (Mount(volume, WORK, writable=True), Mount(self.base.volume, BASE))
            helper = await resources.running_helper(mounts, f"mkdir -p {ROOT}\ncp -a {BASE}/{TOP}/. {ROOT}/")
        except BaseException:  # also a cancellation: no workspace owns the volume yet
            await asyncio.shield(resources.engine.drop_volume(volume))
            raise
        workspace = DockerWorkspace(self._context, volume, helper, self.base.env, writable=True)
        try:
            yield workspace
        finally:
            await asyncio.shield(workspace.close())


@dataclass(frozen=True, slots=True)
class ImagePolicy:
    """The operator's default `image`, and patterns of the images that a repository may choose instead."""

    image: str
    allowed: tuple[str, ...] = ()


class DockerSandboxes:
    """Opens sandboxes in the engine at `address`. Locked subfolders of `folder` show which workers are alive."""

    def __init__(self, folder: Path, store: PackageStore, policy: ImagePolicy, address: str, info: EngineInfo) -> None:
        self._folder, self._store, self._policy, self._address, self._info = folder, store, policy, address, info
        self._chosen: str | None = None  # full name of the image that a repository chose
        self._pulled: dict[str, str] = {}  # full name → id
        self._images: dict[str, Image] = {}

    @property
    def isolation(self) -> Isolation:
        return isolation_of(self._info)

    def with_image(self, image: str) -> DockerSandboxes | None:
        """The same sandboxes with the image that a workflow's `container:` names; None if the operator does not allow it.

        Raises `SandboxUnavailable` for an invalid name.
        """
        if full_name(checked(image)) == full_name(self._policy.image):
            return self
        if not is_allowed(image, self._policy.allowed):
            return None
        other = DockerSandboxes(self._folder, self._store, self._policy, self._address, self._info)
        other._chosen, other._pulled, other._images = full_name(image), self._pulled, self._images
        return other

    @asynccontextmanager
    async def open(self, label: str, limits: Limits | None = None) -> AsyncIterator[DockerSandbox]:
        limits = limits or Limits()
        await asyncio.to_thread(folders.sweep, self._folder)
        async with AsyncExitStack() as closing:
            engine = await closing.enter_async_context(engines.connected(self._address))
            folder, _ = await closing.enter_async_context(folders.open_folder(self._folder, label, None))
            try:
                await engine_resources.sweep(engine, self._folder)
                sandbox = await self._set_up(engine, folder.path, limits, closing)
            except SandboxLost as error:
                raise SandboxUnavailable(error.reason) from error
            closing.push_async_callback(sandbox.base.close)
            yield sandbox

    async def _set_up(self, engine: Engine, folder: Path, limits: Limits, closing: AsyncExitStack) -> DockerSandbox:
        name = self._policy.image if self._chosen is None else await self._pull(engine, self._chosen)
        config = (await engine.image(name)).get("Config") or {}
        labels = {
            engine_resources.INSTALLATION: engine_resources.installation(self._folder),
            engine_resources.SANDBOX: folder.name,
        }
        processors = min(self._info.processors, MOST_PROCESSORS)
        resources = EngineResources(
            engine, self._info, ContainerSpec(name, limits, processors, labels, volumes_of(name, config))
        )
        closing.push_async_callback(resources.clear)
        if name not in self._images:
            self._images[name] = await inspect(resources, self._chosen or name, config)
        volume, tools = await resources.volume(), await resources.volume()
        context = ContainerContext(resources, self._images[name], Mount(tools, TOOLS), self._store, folder)
        helper = await resources.helper((Mount(volume, WORK, writable=True), Mount(tools, TOOLS, writable=True)))
        await resources.make_top(helper)
        # Read-only: every candidate starts as a copy of it.
        base = DockerWorkspace(context, volume, helper, None, writable=False)
        return DockerSandbox(context, self.isolation, base, helper)

    async def _pull(self, engine: Engine, name: str) -> str:
        """Pull the image once per worker, because the engine's own image of that name may be a different one."""
        if name not in self._pulled:
            self._pulled[name] = await engine.pulled(name)
        return self._pulled[name]


async def connect(folder: Path, store: PackageStore, policy: ImagePolicy, address: str | None = None) -> DockerSandboxes:
    """Sandboxes in the engine at `address` ("unix:///path", "tcp://host:port"; default: `containers.engine.address`).

    Raises `SandboxUnavailable`.
    """
    checked(policy.image)
    for pattern in policy.allowed:
        if not is_reference(pattern.replace("*", "x")):
            raise SandboxUnavailable(f"{pattern[:200]!r} is not a pattern of image names (python:*, registry.example/team/*)")
    where = engines.address(address)
    try:
        async with engines.connected(where) as engine:
            info = await engine.info()
    except SandboxLost as error:
        raise SandboxUnavailable(error.reason) from error
    return DockerSandboxes(folder, store, policy, where, info)


def isolation_of(info: EngineInfo) -> Isolation:
    """What a sandbox in such an engine isolates and limits, in plain words."""
    shortcomings = ["not a virtual machine: the kernel is shared with the engine's host", *info.missing]
    if not info.rootless:
        shortcomings.append(f"{info.name} runs as root: an escape from a container reaches more than with a rootless engine")
    if engine_resources.unbounded(info):
        shortcomings.append("a candidate's disk use is not limited: a rootless Podman cannot mount volumes of limited size")
    kept: dict[Promise, bool] = {
        "files": True,
        "network": True,
        "processes": info.bounds_processes,
        "disk": not engine_resources.unbounded(info),
        "memory": info.bounds_memory,
    }
    promises = frozenset(promise for promise, holds in kept.items() if holds)
    # Untrusted code needs the system call filter; a full disk or memory is only a nuisance to the engine's host.
    return Isolation("docker", untrusted=info.filters, shortcomings=tuple(shortcomings), promises=promises)
