"""A plain subprocess with limits, for trusted code only: the demo's own sample, or a person's own checkout.

Nothing is isolated: the code has this user's files and network. What it has is limits, a deadline, death as a tree, and
copies: base and candidates are folders of their own. They take turns at one path (a rename before and after each command), so
that what was installed editable, and paths in tracebacks, are the same in all of them; commands of one sandbox therefore
never run side by side.
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
from sandbox.host import bounds, launch
from sandbox.host.folder_workspace import HeldWorkspace
from sandbox.host.tree import check_tool_name, parts_of
from sandbox.install.packages import Shop, install
from sandbox.install.placing import INSTALL_OUTPUT, INSTALL_SECONDS
from sandbox.install.python.interpreters import Interpreter, own
from sandbox.jail.cgroup import Group

MARK = "SELFHEAL_COMMAND"
COPY_SECONDS = 120.0
ISOLATION = Isolation(
    "process",
    untrusted=False,
    shortcomings=(
        "the code runs as this user, with its files and its network",
        "disk is not bounded, and memory and processes only where a control group can be had",
        "what hides its environment and its process group may outlive its command",
    ),
)


class ProcessWorkspace(HeldWorkspace):
    """A folder of files that stands at `root` while one of its commands runs."""

    def __init__(self, sandbox: ProcessSandbox, home: Path) -> None:
        # The descriptor stays right through every rename.
        super().__init__(os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), sandbox.limits.disk)
        self._sandbox, self._home = sandbox, home
        self._env: Path | None = None  # its own

    @property
    def root(self) -> str:
        return str(self._sandbox.stand)

    @property
    def python(self) -> str:
        return self._sandbox.python if self._env is None else f"{self._env}/bin/python"

    @property
    def env(self) -> Path:
        return self._env or self._sandbox.env

    async def install(self, packages: Packages) -> Installed:
        env = self._sandbox.folder / "envs" / token_hex(6)
        installed = await install(packages, _Place(self, env), self._sandbox.shop)
        if self._env is not None:
            await asyncio.to_thread(folders.remove, self._env)
        self._env = env
        return installed

    async def run(self, command: Command) -> Completed:
        cwd = "." if command.cwd in ("", ".") else "/".join(parts_of(command.cwd))
        return await self.execute(replace(command, cwd=cwd), self.env)

    async def execute(self, command: Command, programs: Path) -> Completed:
        """Run `command` when its turn has come, as long as the workspace is open, with the commands of an environment."""
        env = bounds.environment(str(self._sandbox.folder / "home"), f"{programs}/bin") | dict(command.env)
        return await self._held(command.argv, self._take_a_turn(command, self._sandbox.stand / command.cwd, env))

    async def close(self) -> None:
        await super().close()
        if self._env is not None:
            await asyncio.to_thread(folders.remove, self._env)

    async def _take_a_turn(self, command: Command, cwd: Path, env: Mapping[str, str]) -> Completed:
        async with self._sandbox.turn:
            stand = self._sandbox.stand
            os.rename(self._home, stand)
            try:
                return await self._sandbox.execute(command, cwd, env)
            finally:
                os.rename(stand, self._home)


class ProcessSandbox:
    """One attempt's folder."""

    isolation = ISOLATION

    def __init__(self, folder: Path, limits: Limits, group: Group | None, shop: Shop) -> None:
        self.folder, self.limits, self._group, self.shop = folder, limits, group, shop
        self.turn = asyncio.Lock()
        self.stand = folder / "repo"
        for name in ("base", "tools", "home", "candidates", "envs"):
            (folder / name).mkdir()
        self.python, self.env = own().path, folder / "envs" / "none"  # what a workspace without its own environment has
        self._base = ProcessWorkspace(self, folder / "base")

    @property
    def base(self) -> ProcessWorkspace:
        return self._base

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        await self._base.unpack(archive)

    async def amend(self, command: Command) -> Completed:
        return await self._base.run(command)

    async def install(self, packages: Packages) -> Installed:
        installed = await self._base.install(packages)
        self.python, self.env = self._base.python, self._base.env
        return installed

    async def provide(self, name: str, content: bytes) -> str:
        check_tool_name(name)
        path = self.folder / "tools" / name
        await asyncio.to_thread(path.write_bytes, content)
        return str(path)

    @asynccontextmanager
    async def candidate(self) -> AsyncIterator[Workspace]:
        home = self.folder / "candidates" / token_hex(6)
        async with self.turn:  # the base stays where it is while it is copied
            copy = ("/bin/cp", "-a", "--reflink=auto", str(self.folder / "base"), str(home))
            copied = await launch.run(launch.Launch(copy, bounds.environment("/", str(self.env)), COPY_SECONDS))
        if copied.returncode:
            raise SandboxUnavailable(f"the base cannot be copied: {copied.stderr.decode(errors='replace').strip()[:300]}")
        workspace = ProcessWorkspace(self, home)
        try:
            yield workspace
        finally:
            await asyncio.shield(workspace.close())
            await asyncio.shield(asyncio.to_thread(folders.remove, home))

    async def execute(self, command: Command, cwd: Path, env: Mapping[str, str]) -> Completed:
        """Run one command now. Raises `DeadlinePassed`, `SandboxUnavailable`."""
        mark = token_hex(8)
        group = None if self._group is None else await asyncio.to_thread(self._group.child, mark)
        try:
            ended = await launch.run(
                launch.Launch(
                    (
                        *(() if group is None else group.join),
                        *("/usr/bin/setpriv", "--pdeathsig", "KILL", "--"),
                        *bounds.bounded(self.limits, command.argv, processes=False),
                    ),
                    {**env, MARK: mark},
                    command.timeout,
                    command.stdin,
                    command.output_limit,
                    cwd=str(cwd),
                    kill=(lambda: _kill_marked(mark)) if group is None else group.kill,
                )
            )
            starved = group is not None and group.memory_kills() > 0
        finally:
            if group is not None:
                await asyncio.shield(asyncio.to_thread(group.remove))
        if ended.late:
            raise DeadlinePassed(command.timeout, ended.stdout, ended.stderr)
        return Completed(ended.returncode, ended.stdout, ended.stderr, ended.seconds, ended.truncated, starved)


class _Place:
    """One install step of one workspace (`install.placing.Place`)."""

    sharing = None  # the code could write whatever others use too
    way_out = None  # and has the network anyway

    def __init__(self, workspace: ProcessWorkspace, env: Path) -> None:
        self._workspace, self._env = workspace, env

    @property
    def env(self) -> str:
        return str(self._env)

    async def use(self, interpreter: Interpreter) -> str:
        return interpreter.path

    async def read(self, path: str) -> bytes:
        return await self._workspace.read(path)

    async def see(self, source: Path, inside: str) -> str:
        return str(source)

    async def install_command(self, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        command = Command(tuple(argv), INSTALL_SECONDS, env=env, output_limit=INSTALL_OUTPUT)
        return await self._workspace.execute(command, self._env)


class ProcessSandboxes:
    """Opens process sandboxes below `folder`, which is made when needed; `shop` is where packages come from."""

    isolation = ISOLATION

    def __init__(self, folder: Path, shop: Shop) -> None:
        self._folder, self._shop = folder, shop

    @asynccontextmanager
    async def open(self, label: str, limits: Limits | None = None) -> AsyncIterator[ProcessSandbox]:
        limits = limits or Limits()
        await asyncio.to_thread(folders.sweep, self._folder)
        async with AsyncExitStack() as closing:
            folder, group = await closing.enter_async_context(folders.held(self._folder, label, limits))
            sandbox = ProcessSandbox(folder.path, limits, group, self._shop)
            closing.push_async_callback(sandbox.base.close)
            yield sandbox


def _kill_marked(mark: str) -> None:
    """Kill what left the process group but still carries our mark in its environment; twice, for what was being born."""
    wanted = f"{MARK}={mark}".encode()
    for _ in range(2):
        for entry in os.scandir("/proc"):
            if entry.name.isdecimal():
                with suppress(OSError):
                    environ = Path(entry.path, "environ").read_bytes()
                    if wanted in environ.split(b"\0"):
                        os.kill(int(entry.name), signal.SIGKILL)
