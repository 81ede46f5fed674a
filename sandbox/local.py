"""The local sandbox: bubblewrap on this machine.

A sandbox is a folder (repository, dependencies, tools), a private mount namespace and, if available, a control group and a uid
of its own. Inside, the repository is always at /repo, dependencies at /env and tools at /tools, the last two read-only. A
candidate is an overlay over the base; its changes are kept in memory, with a size limit. The host reaches a candidate's files
through the descriptor of the mounted overlay, so only the kernel merges the layers.

It is not a virtual machine: the kernel is shared.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from secrets import token_hex

from sandbox import folders
from sandbox.base import Command, Completed, Installed, Isolation, Limits, Packages, Promise, SandboxUnavailable, Workspace
from sandbox.host import disk, launch
from sandbox.host.job import Mount
from sandbox.host.tree import Tree, check_tool_name
from sandbox.install import toolchains
from sandbox.install.packages import PackageStore
from sandbox.install.python.interpreters import own
from sandbox.install.toolchains import Toolchain
from sandbox.jail import bubblewrap, cgroup, seccomp
from sandbox.jail.bubblewrap import INIT, TOOLS
from sandbox.jail.confinement import Confinement, uid_of_a_free_slot
from sandbox.jail.stage import TOP, open_stage
from sandbox.jail.workspace import ENVIRONMENTS, JailContext, LocalWorkspace, Runtime

ETC = {
    "passwd": bubblewrap.PASSWD,
    "group": bubblewrap.GROUP,
    "hosts": bubblewrap.HOSTS,
    "host.conf": bubblewrap.HOST_CONF,
    "nsswitch.conf": bubblewrap.NSSWITCH,
}
_OWN = (Mount(f"{TOP}/tools", TOOLS), Mount(f"{TOP}/init", INIT))
MOUNTS = (*_OWN, *(Mount(f"{TOP}/etc/{name}", f"/etc/{name}") for name in ETC))
_WRITE_ETC = 'while [ $# -gt 0 ]; do printf %s "$2" > "/mnt/etc/$1"; shift 2; done'


class LocalSandbox:
    """One attempt's folder, namespace, group and uid."""

    def __init__(self, context: JailContext, isolation: Isolation, store: PackageStore, runtime: Runtime) -> None:
        self._context, self.isolation, self._store = context, isolation, store
        self.confinement = context.confinement
        # Read-only: it is the lower layer of every candidate.
        self.base = LocalWorkspace(context, f"{TOP}/repo", runtime, store, writable=False)

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        await self.base.unpack(archive)

    async def amend(self, command: Command) -> Completed:
        return await self.base.perform(command, writable=True)

    async def install(self, packages: Packages) -> Installed:
        return await self.base.install(packages)

    async def provide(self, name: str, content: bytes) -> str:
        check_tool_name(name)
        tools = Tree(folder := self._context.open("tools"))
        try:
            await asyncio.to_thread(tools.write, name, content)
        finally:
            os.close(folder)
        return f"{TOOLS}/{name}"

    @asynccontextmanager
    async def candidate(self) -> AsyncIterator[Workspace]:
        home, stage = f"{TOP}/c/{token_hex(6)}", self.confinement.stage
        try:
            size = bubblewrap.scratch_bytes(self.confinement.limits)
            root = await stage.layer(home, f"{TOP}/repo", self._context.owner, size)
            workspace = LocalWorkspace(self._context, root, self.base.runtime, self._store, writable=True)
            try:
                yield workspace
            finally:
                await asyncio.shield(workspace.close())
        finally:
            await asyncio.shield(stage.drop(home))


class LocalSandboxes:
    """Opens local sandboxes below `folder`, which is created when needed; packages come from `store`."""

    def __init__(self, folder: Path, store: PackageStore) -> None:
        self._folder, self._store = folder, store
        self._works = False
        self._toolchains: tuple[Toolchain, ...] | None = None

    @property
    def isolation(self) -> Isolation:
        return isolation_here()

    @asynccontextmanager
    async def open(self, label: str, limits: Limits | None = None) -> AsyncIterator[LocalSandbox]:
        limits = limits or Limits()
        await self._check()
        await asyncio.to_thread(folders.sweep, self._folder)
        async with AsyncExitStack() as closing:
            searching = asyncio.create_task(self._find_toolchains())
            closing.callback(searching.cancel)
            uid = closing.enter_context(uid_of_a_free_slot()) if os.geteuid() == 0 else None
            folder, group = await closing.enter_async_context(folders.open_folder(self._folder, label, limits))
            binds = [_empty(folder.path / "repo", uid)]
            binds += [_empty(folder.path / name, None) for name in ("tools", ENVIRONMENTS)]
            stage = await open_stage(_empty(folder.path / "stage", None), [(path, path.name) for path in binds])
            closing.callback(stage.close)
            await stage.shell(_WRITE_ETC, *(text for pair in ETC.items() for text in pair))
            found = await searching
            trees = [
                Mount(await stage.bind(each.root, f"toolchain-{number}"), str(each.root)) for number, each in enumerate(found)
            ]
            programs = tuple(each.programs for each in found)
            context = JailContext(Confinement(stage, uid, group, limits), folder.path, (*MOUNTS, *trees), programs)
            runtime = Runtime(own().path, await context.interpreter(own()))
            sandbox = LocalSandbox(context, self.isolation, self._store, runtime)
            closing.push_async_callback(sandbox.base.close)
            if not self._works:
                await sandbox.base.run(Command(("/usr/bin/true",), timeout=20.0))
                self._works = True
            yield sandbox

    async def _find_toolchains(self) -> tuple[Toolchain, ...]:
        """Search once, because the search runs programs, which takes as long as opening a stage."""
        if self._toolchains is None:
            self._toolchains = await toolchains.find((self._folder, self._store.cache))
        return self._toolchains

    async def _check(self) -> None:
        """Raises `SandboxUnavailable` for missing prerequisites."""
        if self._works:
            return
        if not bubblewrap.is_installed():
            raise SandboxUnavailable("bubblewrap is not installed; install it with: apt-get install bubblewrap")
        # At the same time, because finding libseccomp starts other programs.
        version, filtering = await asyncio.gather(
            launch.run(launch.Launch((bubblewrap.BWRAP, "--version"), {}, 10.0)),
            asyncio.to_thread(seccomp.program),
            return_exceptions=True,
        )
        if isinstance(version, BaseException):
            raise version
        if bubblewrap.version(version.stdout) < bubblewrap.OLDEST:
            raise SandboxUnavailable(f"{version.stdout.decode().strip()} is too old; version 0.8 or newer is needed")
        if isinstance(filtering, (ImportError, RuntimeError, OSError)):
            raise SandboxUnavailable(
                f"cannot create the kernel filter ({filtering}); install libseccomp with: apt-get install libseccomp2"
            ) from filtering
        if isinstance(filtering, BaseException):
            raise filtering


@cache
def isolation_here() -> Isolation:
    """What the local sandbox isolates and limits on this machine, in plain words."""
    promises: set[Promise] = {"files", "network", "processes", "disk"}
    shortcomings = ["not a virtual machine: the kernel is shared with the host"]
    group = cgroup.make(f"probe-{token_hex(6)}", Limits())
    if group is None:
        shortcomings.append("total memory is not limited: no control group available")
    else:
        promises.add("memory")
        group.remove()
    if platform.machine() != "x86_64":
        shortcomings.append(f"the kernel filter is untested on {platform.machine()}")
    return Isolation("local", untrusted=True, shortcomings=tuple(shortcomings), promises=frozenset(promises))


def _empty(path: Path, owner: int | None) -> Path:
    disk.make_folder(path, 0o755)
    if owner is not None:
        os.chown(path, owner, owner)
    return path
