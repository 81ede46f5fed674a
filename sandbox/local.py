"""The local sandbox: bubblewrap on this machine.

A sandbox is a folder (repository, dependencies, tools), a private mount namespace and, where they can be had, a control group
and a uid of its own. Inside, the repository is always at /repo, dependencies at /env and tools at /tools, the last two read-
only. A candidate is an overlay over the base whose changes live in memory, with a size; from this side its files are reached
through the descriptor of the mounted overlay, so there is one view of "upper over lower" and it is the kernel's.

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
from sandbox.host import launch
from sandbox.host.folder_workspace import HeldWorkspace
from sandbox.host.tree import Tree, check_tool_name, parts_of
from sandbox.install import toolchains
from sandbox.install.packages import Shop, install
from sandbox.install.python.interpreters import own
from sandbox.install.toolchains import Toolchain
from sandbox.jail import bubblewrap, cgroup, seccomp, slots
from sandbox.jail.bubblewrap import REPO, TOOLS, Mount
from sandbox.jail.confinement import Confinement, Job
from sandbox.jail.install_backend import ENVIRONMENTS, Ground, Hall, JailPlace
from sandbox.jail.stage import TOP, open_stage

_OVERLAY = """
mkdir -p "$1"
mount -t tmpfs -o "size=$2,nr_inodes=1000000,mode=0755,nosuid,nodev" candidate "$1"
mkdir "$1/changes" "$1/work" "$1/root"
[ -z "$4" ] || chown "$4:$4" "$1/changes" "$1/root"
if [ "$5" = overlay ]; then
    mount -t overlay -o "lowerdir=$3,upperdir=$1/changes,workdir=$1/work,index=off,metacopy=off$6" overlay "$1/root"
else
    cp -a "$3/." "$1/root/"
fi
"""
ETC = {"passwd": bubblewrap.PASSWD, "group": bubblewrap.GROUP, "hosts": bubblewrap.HOSTS}
SHOWN = (Mount(f"{TOP}/tools", TOOLS), *(Mount(f"{TOP}/etc/{name}", f"/etc/{name}") for name in ETC))
_WRITE_ETC = 'while [ $# -gt 0 ]; do printf %s "$2" > "/mnt/etc/$1"; shift 2; done'
_DROP = 'umount -l "$1/root" 2>/dev/null || :; umount -l "$1" 2>/dev/null || :; rmdir "$1" 2>/dev/null || :'


class LocalWorkspace(HeldWorkspace):
    """The base, or one candidate, of a local sandbox."""

    root = REPO

    def __init__(self, hall: Hall, source: str, ground: Ground, shop: Shop, *, writable: bool) -> None:
        limits, uid = hall.confinement.limits, hall.confinement.uid
        super().__init__(hall.open(source.removeprefix(f"{TOP}/")), bubblewrap.scratch_bytes(limits), uid)
        self._hall, self._source, self._shop, self._writable = hall, source, shop, writable
        self.ground = ground
        self._kept = AsyncExitStack()

    @property
    def python(self) -> str:
        return self.ground.python

    async def install(self, packages: Packages) -> Installed:
        place = JailPlace(self._hall, self._source, self, self._kept)
        installed = await install(packages, place, self._shop)
        self.ground = place.ground
        return installed

    async def run(self, command: Command) -> Completed:
        return await self.perform(command, writable=self._writable)

    async def perform(self, command: Command, *, writable: bool) -> Completed:
        """Run `command` as one that may, or may not, change the workspace's files."""
        cwd = "" if command.cwd in ("", ".") else "/" + "/".join(parts_of(command.cwd))
        return await self.execute(
            Job(
                command.argv,
                (Mount(self._source, REPO, writable), *self._hall.shown, *self.ground.mounts),
                self._hall.environment | dict(command.env),
                REPO + cwd,
                command.timeout,
                command.stdin,
                command.output_limit,
                command.hosts,
            )
        )

    async def execute(self, job: Job) -> Completed:
        """Run `job` as long as the workspace is open."""
        return await self._held(tuple(job.argv), self._hall.confinement.run(job))

    async def close(self) -> None:
        await super().close()
        await self._kept.aclose()


class LocalSandbox:
    """One attempt's folder, namespace, group and uid."""

    def __init__(self, hall: Hall, isolation: Isolation, shop: Shop, ground: Ground) -> None:
        self._hall, self.isolation, self._shop = hall, isolation, shop
        # Read-only: it is the lower layer of every candidate, and what it says must not depend on what was run before.
        self._base = LocalWorkspace(hall, f"{TOP}/repo", ground, shop, writable=False)

    @property
    def confinement(self) -> Confinement:
        return self._hall.confinement

    @property
    def base(self) -> LocalWorkspace:
        return self._base

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        await self._base.unpack(archive)

    async def amend(self, command: Command) -> Completed:
        return await self._base.perform(command, writable=True)

    async def install(self, packages: Packages) -> Installed:
        return await self._base.install(packages)

    async def provide(self, name: str, content: bytes) -> str:
        check_tool_name(name)
        tools = Tree(folder := self._hall.open("tools"))
        try:
            await asyncio.to_thread(tools.write, name, content)
        finally:
            os.close(folder)
        return f"{TOOLS}/{name}"

    @asynccontextmanager
    async def candidate(self) -> AsyncIterator[Workspace]:
        name = f"c/{token_hex(6)}"
        stage, uid = self.confinement.stage, self.confinement.uid
        size = str(bubblewrap.scratch_bytes(self.confinement.limits))
        # In a user namespace overlayfs keeps its notes in attributes that their owner may write.
        options = "" if stage.root else ",userxattr"
        owner = "" if uid is None else str(uid)
        try:
            try:
                await stage.shell(_OVERLAY, f"{TOP}/{name}", size, f"{TOP}/repo", owner, "overlay", options)
            except SandboxUnavailable:  # no overlayfs here: a copy costs time, and shares nothing with the base
                await stage.shell(_DROP, f"{TOP}/{name}")
                await stage.shell(_OVERLAY, f"{TOP}/{name}", size, f"{TOP}/repo", owner, "copy", "")
            workspace = LocalWorkspace(self._hall, f"{TOP}/{name}/root", self._base.ground, self._shop, writable=True)
            try:
                yield workspace
            finally:
                await asyncio.shield(workspace.close())
        finally:
            await asyncio.shield(stage.shell(_DROP, f"{TOP}/{name}"))


class LocalSandboxes:
    """Opens local sandboxes below `folder`, which is made when needed; `shop` is where packages come from."""

    def __init__(self, folder: Path, shop: Shop) -> None:
        self._folder, self._shop = folder, shop
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
            looking = asyncio.create_task(self._look_for_toolchains())
            closing.callback(looking.cancel)
            uid = closing.enter_context(slots.uid_of_a_free_slot()) if os.geteuid() == 0 else None
            folder, group = await closing.enter_async_context(folders.held(self._folder, label, limits))
            binds = [_empty(folder.path / "repo", uid)]
            binds += [_empty(folder.path / name, None) for name in ("tools", ENVIRONMENTS)]
            stage = await open_stage(_empty(folder.path / "stage", None), [(path, path.name) for path in binds])
            closing.callback(stage.close)
            await stage.shell(_WRITE_ETC, *(text for pair in ETC.items() for text in pair))
            found = await looking
            trees = [
                Mount(await stage.bind(each.shown, f"toolchain-{number}"), str(each.shown)) for number, each in enumerate(found)
            ]
            programs = tuple(each.programs for each in found)
            hall = Hall(Confinement(stage, uid, group, limits), folder.path, (*SHOWN, *trees), programs)
            ground = Ground(own().path, await hall.interpreter(own()))
            sandbox = LocalSandbox(hall, self.isolation, self._shop, ground)
            closing.push_async_callback(sandbox.base.close)
            if not self._works:
                await sandbox.base.run(Command(("/usr/bin/true",), timeout=20.0))
                self._works = True
            yield sandbox

    async def _look_for_toolchains(self) -> tuple[Toolchain, ...]:
        """Once: programs are asked, which takes as long as making a stage."""
        if self._toolchains is None:
            self._toolchains = await toolchains.found((self._folder, self._shop.cache))
        return self._toolchains

    async def _check(self) -> None:
        """Raises `SandboxUnavailable` for what can be told without trying."""
        if self._works:
            return
        if not bubblewrap.is_installed():
            raise SandboxUnavailable("bubblewrap is not installed; install it with: apt-get install bubblewrap")
        # Finding libseccomp starts programs of its own.
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
                f"the kernel filter cannot be made ({filtering}); apt-get install libseccomp2"
            ) from filtering
        if isinstance(filtering, BaseException):
            raise filtering


@cache
def isolation_here() -> Isolation:
    """What the local sandbox bounds on this machine, in plain words."""
    promises: set[Promise] = {"files", "network", "processes", "disk"}
    shortcomings = ["it is no virtual machine: the kernel is shared with the host"]
    group = cgroup.make(f"probe-{token_hex(6)}", Limits())
    if group is None:
        shortcomings.append("total memory is not bounded: no control group can be had")
    else:
        promises.add("memory")
        group.remove()
    if platform.machine() != "x86_64":
        shortcomings.append(f"the kernel filter is untried on {platform.machine()}")
    return Isolation("local", untrusted=True, shortcomings=tuple(shortcomings), promises=frozenset(promises))


def _empty(path: Path, owner: int | None) -> Path:
    path.mkdir(mode=0o755)
    if owner is not None:
        os.chown(path, owner, owner)
    return path
