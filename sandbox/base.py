"""The interface of all sandboxes, and their errors.

A sandbox isolates one attempt. It holds a *base* (the repository with its dependencies installed, prepared once) and creates
*candidates*: copy-on-write workspaces that start as copies of the base and are discarded. It knows nothing about repairs.

Errors mean infrastructure and are never a verdict about the code under test:

    SandboxError
    ├── SandboxUnavailable    could not be opened                 retry_after: seconds | None
    ├── SandboxLost           died during use                     command that was running
    ├── DeadlinePassed        a command exceeded its timeout      seconds, stdout and stderr so far
    ├── LimitExceeded         memory | disk | output | processes  which, limit
    ├── UnsafeArchive         the archive was refused             reason
    └── InstallFailed         the installation failed             reason, output

A command that exits non-zero is an ordinary `Completed`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

KIB = 1024
MIB = 1024 * KIB


class SandboxError(Exception):
    """Infrastructure failed. This says nothing about the code under test."""


class SandboxUnavailable(SandboxError):
    """The sandbox could not be opened; `retry_after` is in seconds if the provider named a delay."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.retry_after = reason, retry_after


class SandboxLost(SandboxError):
    """The sandbox died while `command` (its argv) was running, or before."""

    def __init__(self, reason: str, command: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason, self.command = reason, command


class DeadlinePassed(SandboxError):
    """A command exceeded its `timeout`; all its processes are dead."""

    def __init__(self, seconds: float, stdout: bytes = b"", stderr: bytes = b"") -> None:
        super().__init__(f"the command was stopped after {seconds:.1f} s")
        self.seconds, self.stdout, self.stderr = seconds, stdout, stderr


class LimitExceeded(SandboxError):
    """A limit of the sandbox was reached; `limit` is in bytes, or a number of processes."""

    def __init__(self, which: Literal["memory", "disk", "output", "processes"], limit: int) -> None:
        super().__init__(f"the {which} limit of the sandbox was reached ({limit})")
        self.which, self.limit = which, limit


class UnsafeArchive(SandboxError):
    """The archive was refused: it is invalid or too large, or contains a device or a path that points outside."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InstallFailed(SandboxError):
    """The dependencies could not be installed. `output` is the installer's output, limited in size."""

    def __init__(self, reason: str, output: str = "") -> None:
        super().__init__(reason)
        self.reason, self.output = reason, output


@dataclass(frozen=True, slots=True)
class Command:
    """One process tree to run, without a shell unless `argv` names one."""

    argv: tuple[str, ...]
    timeout: float  # seconds of wall time
    cwd: str = "."  # relative to the workspace's root
    env: Mapping[str, str] = field(default_factory=dict)  # in addition to the sandbox's own small environment
    stdin: bytes = b""
    output_limit: int = MIB  # bytes kept per stream, half from its start and half from its end; the rest is dropped
    hosts: tuple[str, ...] = ()  # additional host names of the sandbox itself, if the backend supports them
    heard: Callable[[bytes], None] | None = None  # gets standard error as it arrives, if the backend can tell it; never raises


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command ended. `exit_code` is negative for a signal, as in `subprocess`."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    truncated: bool = False  # some output was dropped
    out_of_memory: bool = False  # a process was killed for lack of memory, so results are inconclusive


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one sandbox. Zero never means unlimited."""

    memory: int = 4096 * MIB  # bytes for all processes together, if this can be enforced
    processes: int = 512
    file_size: int = 1024 * MIB  # bytes of one file
    open_files: int = 4096
    disk: int = 4096 * MIB  # bytes that a workspace may add, and the size of /tmp
    cpu_seconds: int = 3600  # per process


@dataclass(frozen=True, slots=True)
class Packages:
    """What the install step installs: names and paths, never commands.

    Paths are relative to the repository's root. `projects` are installed in editable mode, with their extras ("." or
    "sub[test]"). `node` lists the folders with a `package.json` for npm.
    """

    requirements: tuple[str, ...] = ()  # PEP 508
    requirement_files: tuple[str, ...] = ()
    constraint_files: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()  # dependency groups of the root pyproject.toml
    projects: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    crates: tuple[str, ...] = ()  # folders with a Cargo.toml
    go_modules: tuple[str, ...] = ()  # folders with a go.sum
    without: tuple[str, ...] = ()  # distributions that are left out, whatever requires them (needs uv); normalised names
    python: str | None = None  # requested version, "3.12"; the nearest available one is used and reported in `Installed`
    node_version: str | None = None  # "22": npm's scripts run with this Node.js, if the registry has it
    as_of: str | None = None  # "2026-07-08": npm takes no version from after this day, where no lock file names the versions

    def __bool__(self) -> bool:
        named = self.requirements or self.requirement_files or self.groups or self.projects
        return bool(named or self.node or self.crates or self.go_modules)


@dataclass(frozen=True, slots=True)
class Installed:
    """What the install step did. `python` is the version that runs the code ("3.11.7")."""

    python: str
    seconds: float
    built: tuple[str, ...] = ()  # packages without a wheel, built inside the sandbox
    output: str = ""
    notes: tuple[str, ...] = ()  # for people: "Unpinned dependencies resolved as of …"


@dataclass(frozen=True, slots=True)
class Entry:
    """A regular file or a symlink of a workspace. A symlink has `link` set and is never followed."""

    path: str  # POSIX, relative to the root
    size: int  # bytes
    executable: bool = False
    link: bool = False


Promise = Literal["files", "network", "processes", "disk", "memory"]
"""Guarantees that differ between sandboxes: no access to this machine's files, no network, and limits on processes, disk and
total memory. Every sandbox gives all other guarantees (`tests/sandbox/contract`)."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """What a sandbox isolates and limits on this machine, and its shortcomings in plain words."""

    name: str  # "local", "process", "e2b", …
    untrusted: bool  # suitable for untrusted code
    shortcomings: tuple[str, ...] = ()  # "total memory is not limited: no control group available"
    promises: frozenset[Promise] = frozenset()


class Workspace(Protocol):
    """A repository's files inside the sandbox, and commands on them.

    Paths given to `read`, `write` and `remove` are POSIX and relative. A path that leaves the root or passes through a symlink
    raises `ValueError`. There is no network.
    """

    @property
    def root(self) -> str:
        """Absolute path of the repository inside the sandbox."""

    @property
    def python(self) -> str:
        """Path of the Python interpreter inside the sandbox; after `install`, it has the dependencies."""

    async def run(self, command: Command) -> Completed:
        """Run a command. Raises `DeadlinePassed`, `LimitExceeded`, `SandboxLost`."""

    async def read(self, path: str, limit: int = 16 * MIB) -> bytes:
        """Return a file's content. Raises `FileNotFoundError`, `LimitExceeded` for more than `limit` bytes, `ValueError`."""

    async def write(self, path: str, content: bytes, *, executable: bool | None = None) -> None:
        """Create or replace a regular file and its folders; `executable=None` keeps the mode. Raises `ValueError`."""

    async def remove(self, path: str) -> None:
        """Remove one file; a missing file is no error. Raises `ValueError`."""

    async def files(self) -> tuple[Entry, ...]:
        """Every file, sorted by path, without `.git` and installed dependencies."""

    async def install(self, packages: Packages) -> Installed:
        """Create an environment for this workspace from its own files. Without one, a candidate uses the base's environment.

        To test a change of dependencies, write it, plan again, install, and run. During the install, only the installer can
        reach the package index. Raises `InstallFailed`, `SandboxError`.
        """


class Sandbox(Protocol):
    """One attempt's base and candidates."""

    @property
    def isolation(self) -> Isolation: ...

    @property
    def base(self) -> Workspace:
        """The prepared repository. Use candidates for commands that may change files."""

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        """Unpack a gzipped tar (GitHub's tarball) into the base, without its single top folder. Raises `UnsafeArchive`."""

    async def amend(self, command: Command) -> Completed:
        """Run one of Selfheal's own commands, which may change the base. Call this before any candidate exists.

        Raises `DeadlinePassed`, `LimitExceeded`, `SandboxLost`.
        """

    async def install(self, packages: Packages) -> Installed:
        """Install the base's dependencies. Call this once. Raises `InstallFailed`, `SandboxError`.

        Without packages, it still prepares the interpreter.
        """

    async def provide(self, name: str, content: bytes) -> str:
        """Add a read-only tool; returns its path inside the sandbox, which is the same in every workspace."""

    def candidate(self) -> AbstractAsyncContextManager[Workspace]:
        """A copy-on-write workspace that starts as a copy of the base; its processes and files are removed at exit."""


@runtime_checkable
class ImageSandboxes(Protocol):
    """`Sandboxes` whose code runs in an image that can be chosen."""

    def with_image(self, image: str) -> Sandboxes | None:
        """The same sandboxes with another image; None if it is not allowed. Raises `SandboxUnavailable` for a bad name."""


class Sandboxes(Protocol):
    """Opens sandboxes of one kind."""

    @property
    def isolation(self) -> Isolation: ...

    def open(self, label: str, limits: Limits | None = None) -> AbstractAsyncContextManager[Sandbox]:
        """A new sandbox, removed at exit. `label` names it for people. Raises `SandboxUnavailable`."""
