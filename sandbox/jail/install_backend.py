"""Where the install step works in the local sandbox: one workspace's environment, from nothing or over a prepared one.

A prepared environment is shown read-only; what is installed on top of it lies in an overlay of this sandbox alone. Knows mounts
and folders; what is installed, and why, is the business of `install.packages`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from sandbox.base import Completed, LimitExceeded, SandboxUnavailable
from sandbox.host import bounds
from sandbox.host.tree import FOLDER, Tree
from sandbox.install import shelf
from sandbox.install.placing import ASKED, INSTALL_OUTPUT, INSTALL_SECONDS
from sandbox.install.python.environments import TREE
from sandbox.install.python.interpreters import Interpreter
from sandbox.install.shelf import Held
from sandbox.jail.bubblewrap import ENV, REPO, Mount
from sandbox.jail.confinement import Confinement, Job
from sandbox.jail.stage import TOP, Stage

WATCH_SECONDS = 1.0
ENVIRONMENTS = "envs"  # of the stage: private ones, on the disk
_EMPTY = 'mkdir "$1" "$1/root"; [ -z "$2" ] || chown "$2:$2" "$1/root"'
# Folders get a new owner so that what is in them can be replaced; the files below stay whose they are.
_LAYER = """
mkdir "$1" "$1/changes" "$1/work" "$1/root"
if [ "$4" = overlay ]; then
    mount -t overlay -o "lowerdir=$3,upperdir=$1/changes,workdir=$1/work,index=off,metacopy=off$5" overlay "$1/root"
    [ -z "$2" ] || find "$1/root" -type d -exec chown "$2:$2" {} +
else
    cp -a "$3/." "$1/root/"
    [ -z "$2" ] || chown -Rh "$2:$2" "$1/root"
fi
"""
_DROP = 'umount -l "$1/root" 2>/dev/null || :; rm -rf --one-file-system "$1"'


@dataclass(frozen=True, slots=True)
class Ground:
    """What a workspace's commands run on: the mounts of its interpreter and environment, and its Python as seen inside."""

    python: str
    mounts: tuple[Mount, ...] = ()


@dataclass(frozen=True, slots=True)
class Hall:
    """What the workspaces of one sandbox have in common. `folder` is the sandbox's own, on this side."""

    confinement: Confinement
    folder: Path
    shown: tuple[Mount, ...]  # to every command
    programs: tuple[str, ...] = ()  # folders of further commands, as seen inside
    _interpreters: dict[Interpreter, tuple[Mount, ...]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What every command starts with."""
        env = bounds.environment("/tmp", f"{ENV}/bin")  # noqa: S108 - inside the sandbox
        return env | {"PATH": ":".join((env["PATH"], *self.programs))}

    async def interpreter(self, interpreter: Interpreter) -> tuple[Mount, ...]:
        """Its tree where it believes to live; /usr is seen anyway."""
        if interpreter not in self._interpreters:
            mounts: tuple[Mount, ...] = ()
            if not Path(interpreter.prefix).is_relative_to("/usr"):
                name = f"python-{interpreter.version}-{token_hex(4)}"
                source = await self.confinement.stage.bind(Path(interpreter.prefix), name)
                mounts = (Mount(source, interpreter.prefix),)
            self._interpreters[interpreter] = mounts
        return self._interpreters[interpreter]

    def open(self, name: str) -> int:
        """A descriptor below the stage's top: our own folders, but walked like everybody's."""
        here = os.dup(self.confinement.stage.top)
        for part in name.split("/"):
            below = os.open(part, FOLDER, dir_fd=here)
            os.close(here)
            here = below
        return here


class Files(Protocol):
    """The workspace that an environment is made for."""

    async def read(self, path: str) -> bytes: ...

    async def execute(self, job: Job) -> Completed:
        """Run `job` as long as the workspace is open."""


class JailPlace:
    """One install step of one workspace (`install.placing.Place`). What it made stays until `kept` is closed."""

    env = ENV

    def __init__(self, hall: Hall, repo: str, files: Files, kept: AsyncExitStack) -> None:
        self._hall, self._repo, self._files, self._kept = hall, repo, files, kept
        self._interpreter: tuple[Mount, ...] = ()
        self._env: Mount | None = None
        self._seen: list[Mount] = []
        self._asked: dict[Path, str] = {}

    @property
    def sharing(self) -> JailPlace:
        return self

    @property
    def ground(self) -> Ground:
        """What was made, as every command of the workspace will see it."""
        mounts = () if self._env is None else (Mount(self._env.source, ENV),)
        return Ground(f"{ENV}/bin/python", (*self._interpreter, *mounts))

    @cached_property
    def way_out(self) -> Path:
        """The folder of the proxy's socket: no command but the installer's is ever shown it."""
        path = self._hall.folder / f"way-{token_hex(4)}"
        path.mkdir(mode=0o711)
        return path

    async def use(self, interpreter: Interpreter) -> str:
        self._interpreter = await self._hall.interpreter(interpreter)
        return interpreter.path

    async def read(self, path: str) -> bytes:
        return await self._files.read(path)

    async def see(self, source: Path, inside: str) -> str:
        self._seen.append(Mount(await self._stage.bind(source, f"seen-{token_hex(4)}"), inside))
        return inside

    async def prepare(self, folder: Path, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        if folder not in self._asked:
            if self._owner:
                os.chown(folder / TREE, int(self._owner), int(self._owner))
            self._asked[folder] = await self._stage.bind(folder, f"asked-{token_hex(4)}")
        source = self._asked[folder]
        mounts = (Mount(source, ASKED), Mount(f"{source}/{TREE}", ENV, writable=True))
        return await self._run(argv, mounts, env, "/", [f"{source}/{TREE}"])

    async def start_with(self, prepared: Held, *, writable: bool) -> None:
        self._kept.push_async_callback(asyncio.to_thread, shelf.put_back, prepared)
        source = await self._stage.bind(prepared.folder / TREE, f"env-{token_hex(4)}")
        self._env = await self._layer_over(source) if writable else Mount(source, ENV)

    async def install_command(self, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        """The installer alone may write the repository and the dependencies."""
        if self._env is None:
            home = self._home()
            await self._stage.shell(_EMPTY, home, self._owner)
            self._env = Mount(f"{home}/root", ENV, writable=True)
        mounts = (Mount(self._repo, REPO, writable=True), self._env)
        return await self._run(argv, mounts, env, REPO, [self._repo, self._env.source])

    async def _layer_over(self, source: str) -> Mount:
        home = self._home()
        # In a user namespace overlayfs keeps its notes in attributes that their owner may write.
        options = "" if self._stage.root else ",userxattr"
        try:
            await self._stage.shell(_LAYER, home, self._owner, source, "overlay", options)
        except SandboxUnavailable:  # no overlay can be had on this disk: a copy costs time, and shares nothing
            await self._stage.shell(_DROP, home)
            await self._stage.shell(_LAYER, home, self._owner, source, "copy", "")
        return Mount(f"{home}/root", ENV, writable=True)

    def _home(self) -> str:
        home = f"{TOP}/{ENVIRONMENTS}/{token_hex(6)}"
        self._kept.push_async_callback(self._stage.shell, _DROP, home)
        return home

    async def _run(
        self, argv: Sequence[str], mounts: Sequence[Mount], env: Mapping[str, str], cwd: str, written: Sequence[str]
    ) -> Completed:
        """`written` are places of the stage that are on the disk, so their size is watched."""
        seen = (*self._interpreter, *self._hall.shown, *mounts, *self._seen)
        job = Job(argv, seen, self._hall.environment | dict(env), cwd, INSTALL_SECONDS, output_limit=INSTALL_OUTPUT)
        running = asyncio.create_task(self._files.execute(job))
        try:
            while not (await asyncio.wait((running,), timeout=WATCH_SECONDS))[0]:
                await asyncio.to_thread(self._check_disk, written)
            await asyncio.to_thread(self._check_disk, written)
        finally:
            running.cancel()
            await asyncio.wait((running,))
        return running.result()

    def _check_disk(self, written: Sequence[str]) -> None:
        """Raises `LimitExceeded` when what was written is together larger than it may be."""
        limit, used = self._hall.confinement.limits.disk, 0
        for source in written:
            folder = self._hall.open(source.removeprefix(f"{TOP}/"))
            try:
                used += Tree(folder).size(limit)
            finally:
                os.close(folder)
        if used > limit:
            raise LimitExceeded("disk", limit)

    @property
    def _stage(self) -> Stage:
        return self._hall.confinement.stage

    @property
    def _owner(self) -> str:
        """The slot's uid where the worker is root."""
        uid = self._hall.confinement.uid
        return "" if uid is None else str(uid)
