"""The base or a candidate of a local sandbox, and its install step, with a new environment or on top of a prepared one.

A prepared environment is mounted read-only; whatever is installed on top goes into an overlay that only this sandbox uses.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from secrets import token_hex

from sandbox.base import Command, Completed, Installed, Packages
from sandbox.host import disk
from sandbox.host.folder_workspace import FolderWorkspace, run_watched
from sandbox.host.job import Job, Mount, environment, job_of
from sandbox.host.tree import FOLDER
from sandbox.install import folder_cache
from sandbox.install.backend import INSTALL_OUTPUT, INSTALL_SECONDS, RECIPE_FOLDER
from sandbox.install.folder_cache import CacheEntry
from sandbox.install.packages import PackageStore, install
from sandbox.install.python.environments import TREE
from sandbox.install.python.interpreters import Interpreter
from sandbox.jail.bubblewrap import ENV, REPO, scratch_bytes
from sandbox.jail.confinement import Confinement
from sandbox.jail.disk_watch import LOOK_SECONDS, DiskWatch
from sandbox.jail.stage import TOP, Stage

ENVIRONMENTS = "envs"  # below the stage's top: private environments, on disk
_EMPTY = 'mkdir "$1" "$1/root"; [ -z "$2" ] || chown "$2:$2" "$1/root"'


@dataclass(frozen=True, slots=True)
class Runtime:
    """A workspace's Python, as seen inside, with the mounts of its interpreter, environment and packages."""

    python: str
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)  # variables that its packages need


@dataclass(frozen=True, slots=True)
class JailContext:
    """What the workspaces of one sandbox share. `folder` is the sandbox's folder on the host."""

    confinement: Confinement
    folder: Path
    mounts: tuple[Mount, ...]  # of every command
    programs: tuple[str, ...] = ()  # folders of additional commands, as seen inside
    _interpreters: dict[Interpreter, tuple[Mount, ...]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of every command."""
        env = environment("/tmp", f"{ENV}/bin")  # noqa: S108 - inside the sandbox
        return env | {"PATH": ":".join((env["PATH"], *self.programs))}

    @property
    def owner(self) -> str:
        """The slot's uid if the worker is root, else empty."""
        return "" if self.confinement.uid is None else str(self.confinement.uid)

    async def interpreter(self, interpreter: Interpreter) -> tuple[Mount, ...]:
        """The mount of an interpreter's tree at its own prefix; empty if it is below /usr, which is mounted anyway."""
        if interpreter not in self._interpreters:
            mounts: tuple[Mount, ...] = ()
            if not Path(interpreter.prefix).is_relative_to("/usr"):
                name = f"python-{interpreter.version}-{token_hex(4)}"
                source = await self.confinement.stage.bind(Path(interpreter.prefix), name)
                mounts = (Mount(source, interpreter.prefix),)
            self._interpreters[interpreter] = mounts
        return self._interpreters[interpreter]

    def open(self, name: str) -> int:
        """Open a folder below the stage's top without following symlinks; returns its descriptor."""
        here = os.dup(self.confinement.stage.top)
        for part in name.split("/"):
            below = os.open(part, FOLDER, dir_fd=here)
            os.close(here)
            here = below
        return here


class LocalWorkspace(FolderWorkspace):
    """The base, or one candidate, of a local sandbox."""

    root = REPO

    def __init__(self, context: JailContext, source: str, runtime: Runtime, store: PackageStore, *, writable: bool) -> None:
        limits, uid = context.confinement.limits, context.confinement.uid
        super().__init__(context.open(source.removeprefix(f"{TOP}/")), scratch_bytes(limits), uid)
        self._context, self._source, self._store, self._writable = context, source, store, writable
        self.runtime = runtime
        self._kept = AsyncExitStack()

    @property
    def python(self) -> str:
        return self.runtime.python

    async def install(self, packages: Packages) -> Installed:
        backend = JailInstallBackend(self._context, self._source, self, self._kept)
        installed = await install(packages, backend, self._store)
        self.runtime = backend.runtime
        return installed

    async def run(self, command: Command) -> Completed:
        return await self.perform(command, writable=self._writable)

    async def perform(self, command: Command, *, writable: bool) -> Completed:
        """Run `command` with the workspace's files writable or read-only."""
        mounts = (Mount(self._source, REPO, writable), *self._context.mounts, *self.runtime.mounts)
        job = job_of(command, REPO, mounts, self._context.environment | dict(self.runtime.env))
        is_on_disk = writable and not self._writable
        return await (self.execute_watched(job, [self._source]) if is_on_disk else self.execute(job))

    async def execute(self, job: Job) -> Completed:
        """Run `job`; it is cancelled when the workspace closes."""
        return await self._run_tracked(tuple(job.argv), self._context.confinement.run(job))

    async def execute_watched(self, job: Job, written: Sequence[str]) -> Completed:
        """As `execute`; also raises `LimitExceeded` if folders of the stage on disk grow beyond the disk limit."""
        confinement = self._context.confinement
        watch = DiskWatch(confinement.stage, written, confinement.limits.disk)
        completed = await run_watched(self.execute(replace(job, started=watch.started)), watch.look, LOOK_SECONDS)
        await watch.measure()
        return completed

    async def close(self) -> None:
        await super().close()
        await self._kept.aclose()


class JailInstallBackend:
    """One install step of one workspace (`install.backend.InstallBackend`). Its environment lasts until `kept` closes."""

    env = ENV

    def __init__(self, context: JailContext, repo: str, files: LocalWorkspace, kept: AsyncExitStack) -> None:
        self._context, self._repo, self._files, self._kept = context, repo, files, kept
        self._interpreter: tuple[Mount, ...] = ()
        self._env: Mount | None = None
        self._fetched: list[Mount] = []
        self._variables: dict[str, str] = {}
        self._seen: list[Mount] = []
        self._asked: dict[Path, str] = {}

    @property
    def disk(self) -> int:
        return self._context.confinement.limits.disk

    @property
    def shared_environments(self) -> JailInstallBackend:
        return self

    @property
    def runtime(self) -> Runtime:
        """The environment, as the workspace's commands will see it."""
        mounts = () if self._env is None else (Mount(self._env.source, ENV),)
        return Runtime(f"{ENV}/bin/python", (*self._interpreter, *mounts, *self._fetched), self._variables)

    @cached_property
    def proxy_folder(self) -> Path:
        """The folder of the proxy's socket, which only the installer's commands see."""
        path = self._context.folder / f"way-{token_hex(4)}"
        disk.make_folder(path, 0o711)
        return path

    async def use(self, interpreter: Interpreter) -> str:
        self._interpreter = await self._context.interpreter(interpreter)
        return interpreter.path

    async def read(self, path: str) -> bytes:
        return await self._files.read(path)

    async def show(self, source: Path, inside: str) -> str:
        self._seen.append(Mount(await self._stage.bind(source, f"seen-{token_hex(4)}"), inside))
        return inside

    async def prepare(self, folder: Path, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        if folder not in self._asked:
            if self._context.owner:
                os.chown(folder / TREE, int(self._context.owner), int(self._context.owner))
            self._asked[folder] = await self._stage.bind(folder, f"asked-{token_hex(4)}")
        source = self._asked[folder]
        mounts = (Mount(source, RECIPE_FOLDER), Mount(f"{source}/{TREE}", ENV, writable=True))
        return await self._run(argv, mounts, env, "/", [f"{source}/{TREE}"])

    async def start_with(self, prepared: CacheEntry, *, writable: bool) -> None:
        self._kept.push_async_callback(asyncio.to_thread, folder_cache.release, prepared)
        source = await self._stage.bind(prepared.folder / TREE, f"env-{token_hex(4)}")
        if writable:
            source = await self._stage.layer(self._home(), source, self._context.owner)
        self._env = Mount(source, ENV, writable)

    async def keep(self, entry: CacheEntry, inside: str, env: Mapping[str, str]) -> None:
        self._kept.push_async_callback(asyncio.to_thread, folder_cache.release, entry)
        self._fetched.append(Mount(await self._stage.bind(entry.folder, f"fetched-{token_hex(4)}"), inside))
        self._variables |= env

    async def run_installer(self, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        """Run the installer: only its commands may write to the repository and the environment."""
        if self._env is None:
            home = self._home()
            await self._stage.shell(_EMPTY, home, self._context.owner)
            self._env = Mount(f"{home}/root", ENV, writable=True)
        mounts = (Mount(self._repo, REPO, writable=True), self._env)
        return await self._run(argv, mounts, env, REPO, [self._repo, self._env.source])

    def _home(self) -> str:
        home = f"{TOP}/{ENVIRONMENTS}/{token_hex(6)}"
        self._kept.push_async_callback(self._stage.drop, home)
        return home

    async def _run(
        self, argv: Sequence[str], mounts: Sequence[Mount], env: Mapping[str, str], cwd: str, written: Sequence[str]
    ) -> Completed:
        """Run a command and watch how much it writes to `written`, which are folders of the stage on disk."""
        seen = (*self._interpreter, *self._context.mounts, *mounts, *self._seen)
        job = Job(argv, seen, self._context.environment | dict(env), cwd, INSTALL_SECONDS, output_limit=INSTALL_OUTPUT)
        return await self._files.execute_watched(job, written)

    @property
    def _stage(self) -> Stage:
        return self._context.confinement.stage
