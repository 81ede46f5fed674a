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
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import TypeVar

from sandbox import bounds, folders, launch
from sandbox.base import (
    Command,
    Completed,
    Installed,
    Isolation,
    LimitExceeded,
    Limits,
    Packages,
    SandboxUnavailable,
    Workspace,
)
from sandbox.held import HeldWorkspace
from sandbox.install.interpreters import Interpreter, own
from sandbox.install.packages import INSTALL_OUTPUT, INSTALL_SECONDS, Shop, install
from sandbox.jail import bubblewrap, cgroup, seccomp, slots
from sandbox.jail.bubblewrap import ENV, REPO, TOOLS, Mount
from sandbox.jail.confine import Confinement, Job
from sandbox.jail.stage import TOP, open_stage
from sandbox.tree import FOLDER, Tree, parts_of

T = TypeVar("T")
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
ENVIRONMENT = bounds.environment("/tmp", f"{ENV}/bin")  # noqa: S108 - inside the sandbox
WATCH_SECONDS = 1.0
ETC = {"passwd": bubblewrap.PASSWD, "group": bubblewrap.GROUP, "hosts": bubblewrap.HOSTS}
_WRITE_ETC = 'while [ $# -gt 0 ]; do printf %s "$2" > "/mnt/etc/$1"; shift 2; done'
_DROP = 'umount -l "$1/root" 2>/dev/null || :; umount -l "$1" 2>/dev/null || :; rmdir "$1" 2>/dev/null || :'


class LocalWorkspace(HeldWorkspace):
    """The base, or one candidate, of a local sandbox."""

    root = REPO

    def __init__(self, sandbox: LocalSandbox, folder: int, source: str, *, writable: bool) -> None:
        limits, uid = sandbox.confinement.limits, sandbox.confinement.uid
        super().__init__(folder, bubblewrap.scratch_bytes(limits), uid)
        self._sandbox, self._source, self._writable = sandbox, source, writable

    @property
    def python(self) -> str:
        return self._sandbox.python

    async def run(self, command: Command) -> Completed:
        cwd = "" if command.cwd in ("", ".") else "/" + "/".join(parts_of(command.cwd))
        return await self.execute(
            Job(
                command.argv,
                (Mount(self._source, REPO, self._writable), *self._sandbox.shown()),
                ENVIRONMENT | dict(command.env),
                REPO + cwd,
                command.timeout,
                command.stdin,
                command.output_limit,
            )
        )

    async def execute(self, job: Job) -> Completed:
        """Run `job` as long as the workspace is open."""
        return await self._held(tuple(job.argv), self._sandbox.confinement.run(job))


class LocalSandbox:
    """One attempt's folder, namespace, group and uid."""

    def __init__(self, confinement: Confinement, folder: Path, isolation: Isolation, shop: Shop) -> None:
        self.confinement, self.isolation = confinement, isolation
        self._folder, self._shop = folder, shop
        self._interpreter: Interpreter | None = None
        self._interpreter_source = ""
        self._installed = False
        self._seen: list[Mount] = []
        # Read-only: it is the lower layer of every candidate, and what it says must not depend on what was run before.
        self._base = LocalWorkspace(self, self._open("repo"), f"{TOP}/repo", writable=False)

    @property
    def base(self) -> LocalWorkspace:
        return self._base

    @property
    def python(self) -> str:
        return f"{ENV}/bin/python" if self._installed or self._interpreter is None else self._interpreter.path

    def shown(self) -> tuple[Mount, ...]:
        """What every command sees beside the repository."""
        mounts = [Mount(f"{TOP}/env", ENV), Mount(f"{TOP}/tools", TOOLS)]
        mounts += [Mount(f"{TOP}/etc/{name}", f"/etc/{name}") for name in ETC]
        if self._interpreter is not None and self._interpreter_source:
            mounts.insert(0, Mount(self._interpreter_source, self._interpreter.prefix))
        return tuple(mounts)

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        await self._base.unpack(archive)

    async def install(self, packages: Packages) -> Installed:
        self.way_out.mkdir(mode=0o711)
        try:
            installed = await install(packages, self, self._shop)
        finally:
            self._seen.clear()  # with it goes the way out: no later command is shown the proxy's socket
            self.way_out.rmdir()
        self._installed = True
        return installed

    async def provide(self, name: str, content: bytes) -> str:
        if parts_of(name) != (name,):
            raise ValueError(f"a tool has a plain name, not {name!r}")
        tools = Tree(folder := self._open("tools"))
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
            workspace = LocalWorkspace(self, self._open(f"{name}/root"), f"{TOP}/{name}/root", writable=True)
            try:
                yield workspace
            finally:
                await asyncio.shield(workspace.close())
        finally:
            await asyncio.shield(stage.shell(_DROP, f"{TOP}/{name}"))

    # What the install step needs of a place (`install.packages.Place`).

    env = ENV

    async def use(self, interpreter: Interpreter) -> str:
        """Show the interpreter's tree where it believes to live; /usr is seen anyway."""
        if interpreter == self._interpreter:
            return interpreter.path
        self._interpreter, self._interpreter_source = interpreter, ""
        if not Path(interpreter.prefix).is_relative_to("/usr"):
            self._interpreter_source = await self.confinement.stage.bind(
                Path(interpreter.prefix), f"python-{interpreter.version}"
            )
        return interpreter.path

    async def read(self, path: str) -> bytes:
        return await self._base.read(path)

    @property
    def way_out(self) -> Path:
        return self._folder / "way"

    async def see(self, source: Path, inside: str) -> str:
        self._seen.append(Mount(await self.confinement.stage.bind(source, f"seen-{token_hex(4)}"), inside))
        return inside

    async def install_command(self, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        """The installer alone may write the base and the dependencies; both are on disk, so their size is watched."""
        mounts = (Mount(f"{TOP}/repo", REPO, True), *self.shown(), Mount(f"{TOP}/env", ENV, True), *self._seen)
        job = Job(argv, mounts, ENVIRONMENT | dict(env), REPO, INSTALL_SECONDS, output_limit=INSTALL_OUTPUT)
        running = asyncio.create_task(self._base.execute(job))
        try:
            while not (await asyncio.wait((running,), timeout=WATCH_SECONDS))[0]:
                await self._check_disk()
            await self._check_disk()
        finally:
            running.cancel()
            await asyncio.wait((running,))
        return running.result()

    async def _check_disk(self) -> None:
        """Raises `LimitExceeded` when the base and the dependencies together are larger than they may be."""
        limit, used = self.confinement.limits.disk, 0
        for name in ("repo", "env"):
            folder = self._open(name)
            try:
                used += await asyncio.to_thread(Tree(folder).size, limit)
            finally:
                os.close(folder)
        if used > limit:
            raise LimitExceeded("disk", limit)

    def _open(self, name: str) -> int:
        """A descriptor below the stage's top: our own folders, but walked like everybody's."""
        here = os.dup(self.confinement.stage.top)
        for part in name.split("/"):
            below = os.open(part, FOLDER, dir_fd=here)
            os.close(here)
            here = below
        return here


class LocalSandboxes:
    """Opens local sandboxes below `folder`, which is made when needed; `shop` is where packages come from."""

    def __init__(self, folder: Path, shop: Shop) -> None:
        self._folder, self._shop = folder, shop
        self._works = False

    @property
    def isolation(self) -> Isolation:
        return isolation_here()

    @asynccontextmanager
    async def open(self, label: str, limits: Limits | None = None) -> AsyncIterator[LocalSandbox]:
        limits = limits or Limits()
        await self._check()
        async with AsyncExitStack() as closing:
            uid = closing.enter_context(slots.uid_of_a_free_slot()) if os.geteuid() == 0 else None
            folder = await asyncio.to_thread(folders.make, self._folder, label)
            closing.push_async_callback(asyncio.to_thread, folder.remove)
            group = await asyncio.to_thread(cgroup.make, folder.path.name, limits)
            if group is not None:
                closing.push_async_callback(asyncio.to_thread, group.remove)
                folder.note(group)
            binds = [_empty(folder.path / name, uid) for name in ("repo", "env")] + [_empty(folder.path / "tools", None)]
            stage = await open_stage(_empty(folder.path / "stage", None), [(path, path.name) for path in binds])
            closing.callback(stage.close)
            await stage.shell(_WRITE_ETC, *(text for pair in ETC.items() for text in pair))
            sandbox = LocalSandbox(Confinement(stage, uid, group, limits), folder.path, self.isolation, self._shop)
            closing.push_async_callback(sandbox.base.close)
            if not self._works:
                await sandbox.base.run(Command(("/usr/bin/true",), timeout=20.0))
                self._works = True
            await sandbox.use(own())
            yield sandbox

    async def _check(self) -> None:
        """Raises `SandboxUnavailable` for what can be told without trying."""
        if self._works:
            return
        if not bubblewrap.is_installed():
            raise SandboxUnavailable("bubblewrap is not installed; install it with: apt-get install bubblewrap")
        version = await launch.run(launch.Launch((bubblewrap.BWRAP, "--version"), {}, 10.0))
        if bubblewrap.version(version.stdout) < bubblewrap.OLDEST:
            raise SandboxUnavailable(f"{version.stdout.decode().strip()} is too old; version 0.8 or newer is needed")
        try:
            seccomp.program()
        except (ImportError, RuntimeError, OSError) as error:
            raise SandboxUnavailable(f"the kernel filter cannot be made ({error}); apt-get install libseccomp2") from error
        await asyncio.to_thread(folders.sweep, self._folder)


@cache
def isolation_here() -> Isolation:
    """What the local sandbox bounds on this machine, in plain words."""
    shortcomings = ["it is no virtual machine: the kernel is shared with the host"]
    group = cgroup.make(f"probe-{token_hex(6)}", Limits())
    if group is None:
        shortcomings.append("total memory is not bounded: no control group can be had")
    else:
        group.remove()
    if platform.machine() != "x86_64":
        shortcomings.append(f"the kernel filter is untried on {platform.machine()}")
    return Isolation("local", untrusted=True, shortcomings=tuple(shortcomings))


def _empty(path: Path, owner: int | None) -> Path:
    path.mkdir(mode=0o755)
    if owner is not None:
        os.chown(path, owner, owner)
    return path
