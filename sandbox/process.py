"""A plain subprocess with limits, for trusted code only: the demo's sample, or a person's own checkout.

It isolates nothing: the code can use this user's files and network. It does have limits, a deadline, and a kill of the whole
process tree. Base and candidates are separate folders. They take turns at one path (a rename before and after each command), so
that editable installs and paths in tracebacks are the same in all of them. So commands of one sandbox never run in parallel.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from sandbox import folders
from sandbox.base import (
    Command,
    Completed,
    DeadlinePassed,
    Installed,
    Isolation,
    Limits,
    Packages,
    SandboxUnavailable,
    Workspace,
)
from sandbox.host import disk, launch
from sandbox.host.folder_workspace import FolderWorkspace
from sandbox.host.job import environment, with_limits
from sandbox.host.tree import check_tool_name, parts_of
from sandbox.install.backend import INSTALL_OUTPUT, INSTALL_SECONDS
from sandbox.install.packages import PackageStore, install
from sandbox.install.python.interpreters import Interpreter, own
from sandbox.jail.cgroup import Group

MARK = "SELFHEAL_COMMAND"
COPY_SECONDS = 120.0
ISOLATION = Isolation(
    "process",
    untrusted=False,
    shortcomings=(
        "the code runs as this user, with this user's files and network",
        "disk use is not limited; memory and processes are limited only if a control group is available",
        "a process that hides its environment and leaves its process group may keep running after its command ends",
    ),
)


class ProcessWorkspace(FolderWorkspace):
    """A folder of files that is moved to `root` while one of its commands runs."""

    def __init__(self, sandbox: ProcessSandbox, home: Path) -> None:
        # The descriptor survives every rename.
        super().__init__(os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), sandbox.limits.disk)
        self._sandbox, self._home = sandbox, home
        self._env: Path | None = None  # its own environment

    @property
    def root(self) -> str:
        return str(self._sandbox.active)

    @property
    def python(self) -> str:
        return self._sandbox.python if self._env is None else f"{self._env}/bin/python"

    @property
    def env(self) -> Path:
        return self._env or self._sandbox.env

    async def install(self, packages: Packages) -> Installed:
        env = self._sandbox.folder / "envs" / token_hex(6)
        installed = await install(packages, _ProcessInstallBackend(self, env, self._sandbox.limits.disk), self._sandbox.store)
        if self._env is not None:
            await asyncio.to_thread(disk.remove, self._env)
        self._env = env
        return installed

    async def run(self, command: Command) -> Completed:
        cwd = "." if command.cwd in ("", ".") else "/".join(parts_of(command.cwd))
        return await self.execute(replace(command, cwd=cwd), self.env)

    async def execute(self, command: Command, programs: Path) -> Completed:
        """Run `command` when it is its turn, with an environment's programs; it is cancelled when the workspace closes."""
        env = environment(str(self._sandbox.folder / "home"), f"{programs}/bin") | dict(command.env)
        return await self._run_tracked(command.argv, self._take_a_turn(command, self._sandbox.active / command.cwd, env))

    async def close(self) -> None:
        await super().close()
        if self._env is not None:
            await asyncio.to_thread(disk.remove, self._env)

    async def _take_a_turn(self, command: Command, cwd: Path, env: Mapping[str, str]) -> Completed:
        async with self._sandbox.turn:
            active = self._sandbox.active
            os.rename(self._home, active)
            try:
                return await self._sandbox.execute(command, cwd, env)
            finally:
                os.rename(active, self._home)


class ProcessSandbox:
    """One attempt's folder."""

    isolation = ISOLATION

    def __init__(self, folder: Path, limits: Limits, group: Group | None, store: PackageStore) -> None:
        self.folder, self.limits, self._group, self.store = folder, limits, group, store
        self.turn = asyncio.Lock()
        self.active = folder / "repo"
        for name in ("base", "tools", "home", "candidates", "envs"):
            (folder / name).mkdir()
        self.python, self.env = own().path, folder / "envs" / "none"  # of workspaces without their own
        self.base = ProcessWorkspace(self, folder / "base")

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        await self.base.unpack(archive)

    async def amend(self, command: Command) -> Completed:
        return await self.base.run(command)

    async def install(self, packages: Packages) -> Installed:
        installed = await self.base.install(packages)
        self.python, self.env = self.base.python, self.base.env
        return installed

    async def provide(self, name: str, content: bytes) -> str:
        check_tool_name(name)
        path = self.folder / "tools" / name
        await asyncio.to_thread(path.write_bytes, content)
        return str(path)

    @asynccontextmanager
    async def candidate(self) -> AsyncIterator[Workspace]:
        home = self.folder / "candidates" / token_hex(6)
        async with self.turn:  # keep the base in its folder while it is copied
            copy = ("/bin/cp", "-a", "--reflink=auto", str(self.folder / "base"), str(home))
            copied = await launch.run(launch.Launch(copy, environment("/", str(self.env)), COPY_SECONDS))
        if copied.returncode:
            raise SandboxUnavailable(f"cannot copy the base: {copied.stderr.decode(errors='replace').strip()[:300]}")
        workspace = ProcessWorkspace(self, home)
        try:
            yield workspace
        finally:
            await asyncio.shield(workspace.close())
            await asyncio.shield(asyncio.to_thread(disk.remove, home))

    async def execute(self, command: Command, cwd: Path, env: Mapping[str, str]) -> Completed:
        """Run one command in `cwd`. Raises `DeadlinePassed`, `SandboxUnavailable`."""
        mark = token_hex(8)
        group = None if self._group is None else await asyncio.to_thread(self._group.child, mark)
        try:
            ended = await launch.run(
                launch.Launch(
                    (
                        *(() if group is None else group.join),
                        *("/usr/bin/setpriv", "--pdeathsig", "KILL", "--"),
                        *with_limits(self.limits, command.argv, processes=False),
                    ),
                    {**env, MARK: mark},
                    command.timeout,
                    command.stdin,
                    command.output_limit,
                    cwd=str(cwd),
                    heard=command.heard,
                    kill=(lambda: _kill_marked(mark)) if group is None else group.kill,
                )
            )
            starved = group is not None and group.memory_kills() > 0
        finally:
            if group is not None:
                await asyncio.shield(asyncio.to_thread(group.remove))
        if ended.timed_out:
            raise DeadlinePassed(command.timeout, ended.stdout, ended.stderr)
        return Completed(ended.returncode, ended.stdout, ended.stderr, ended.seconds, ended.truncated, starved)


class _ProcessInstallBackend:
    """One install step of one workspace (`install.backend.InstallBackend`)."""

    shared_environments = None  # untrusted code could write to shared environments
    proxy_folder = None  # the code has network access anyway

    def __init__(self, workspace: ProcessWorkspace, env: Path, disk: int) -> None:
        self._workspace, self._env, self.disk = workspace, env, disk

    @property
    def env(self) -> str:
        return str(self._env)

    async def use(self, interpreter: Interpreter) -> str:
        return interpreter.path

    async def read(self, path: str) -> bytes:
        return await self._workspace.read(path)

    async def show(self, source: Path, inside: str) -> str:
        return str(source)

    keep = None

    async def run_installer(self, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        command = Command(tuple(argv), INSTALL_SECONDS, env=env, output_limit=INSTALL_OUTPUT)
        return await self._workspace.execute(command, self._env)


class ProcessSandboxes:
    """Opens process sandboxes below `folder`, which is created when needed; packages come from `store`."""

    isolation = ISOLATION

    def __init__(self, folder: Path, store: PackageStore) -> None:
        self._folder, self._store = folder, store

    @asynccontextmanager
    async def open(self, label: str, limits: Limits | None = None) -> AsyncIterator[ProcessSandbox]:
        limits = limits or Limits()
        await asyncio.to_thread(folders.sweep, self._folder)
        async with AsyncExitStack() as closing:
            folder, group = await closing.enter_async_context(folders.open_folder(self._folder, label, limits))
            sandbox = ProcessSandbox(folder.path, limits, group, self._store)
            closing.push_async_callback(sandbox.base.close)
            yield sandbox


def _kill_marked(mark: str) -> None:
    """Kill processes that left the process group but have our mark in their environment; twice, to catch new children."""
    wanted = f"{MARK}={mark}".encode()
    for _ in range(2):
        for entry in os.scandir("/proc"):
            if entry.name.isdecimal():
                with suppress(OSError):
                    environ = Path(entry.path, "environ").read_bytes()
                    if wanted in environ.split(b"\0"):
                        os.kill(int(entry.name), signal.SIGKILL)
