"""What every sandbox offers, and how it fails.

A sandbox is one attempt's isolated place. It holds a *base* (the repository with its dependencies installed, prepared once) and
hands out *candidates*: copy-on-write workspaces that start as the base and are thrown away. It knows nothing of repairs.

Failures are infrastructure and never a verdict about the code under test:

    SandboxError
    ├── SandboxUnavailable    could not be opened                 retry_after: seconds | None
    ├── SandboxLost           died in the middle                  command: the one that was running
    ├── DeadlinePassed        our own limit on one command        seconds, stdout, stderr so far
    ├── LimitExceeded         memory | disk | output | processes  which, limit
    ├── UnsafeArchive         an archive that would write outside, or is too large    reason
    └── InstallFailed         the dependencies could not be installed                 reason, output

A command that exits non-zero is an ordinary `Completed`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

KIB = 1024
MIB = 1024 * KIB


class SandboxError(Exception):
    """Infrastructure failed; says nothing about the code under test."""


class SandboxUnavailable(SandboxError):
    """The sandbox could not be opened; `retry_after` is in seconds where the provider told us."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.retry_after = reason, retry_after


class SandboxLost(SandboxError):
    """The sandbox died while `command` (its argv) was running, or before."""

    def __init__(self, reason: str, command: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.reason, self.command = reason, command


class DeadlinePassed(SandboxError):
    """One command took longer than its own `timeout`; all its processes are dead."""

    def __init__(self, seconds: float, stdout: bytes = b"", stderr: bytes = b"") -> None:
        super().__init__(f"the command was stopped after {seconds:.1f} s")
        self.seconds, self.stdout, self.stderr = seconds, stdout, stderr


class LimitExceeded(SandboxError):
    """A bound of the sandbox was reached; `limit` is in bytes, or a count for processes."""

    def __init__(self, which: Literal["memory", "disk", "output", "processes"], limit: int) -> None:
        super().__init__(f"the {which} limit of the sandbox was reached ({limit})")
        self.which, self.limit = which, limit


class UnsafeArchive(SandboxError):
    """The archive is not one we unpack: a path that leads outside, a device, a bomb, not an archive at all."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InstallFailed(SandboxError):
    """The dependencies could not be installed; `output` is what the installer said, bounded."""

    def __init__(self, reason: str, output: str = "") -> None:
        super().__init__(reason)
        self.reason, self.output = reason, output


@dataclass(frozen=True, slots=True)
class Command:
    """One process tree to run: no shell unless `argv` names one."""

    argv: tuple[str, ...]
    timeout: float  # seconds of wall time
    cwd: str = "."  # relative to the workspace's root
    env: Mapping[str, str] = field(default_factory=dict)  # added to the sandbox's own small environment
    stdin: bytes = b""
    output_limit: int = MIB  # bytes kept per stream: the first and the last half; the rest is read and dropped
    hosts: tuple[str, ...] = ()  # names that lead to the sandbox itself, beside localhost, where it can give itself names


@dataclass(frozen=True, slots=True)
class Completed:
    """How a command ended. `exit_code` is negative for a signal, as in `subprocess`."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    truncated: bool = False  # some output was dropped
    out_of_memory: bool = False  # something in the tree was killed for memory: results are inconclusive


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one sandbox. Zero never means unlimited."""

    memory: int = 4096 * MIB  # bytes for all processes together, where it can be enforced
    processes: int = 512
    file_size: int = 1024 * MIB  # bytes of one file
    open_files: int = 4096
    disk: int = 4096 * MIB  # bytes that a workspace may add, and the size of /tmp
    cpu_seconds: int = 3600  # per process


@dataclass(frozen=True, slots=True)
class Packages:
    """What the install step puts beside the repository: names and paths, never commands.

    Paths are relative to the repository's root. `projects` are installed editable, with their extras ("." or "sub[test]");
    `node` are folders with a `package.json`, whose dependencies npm brings.
    """

    requirements: tuple[str, ...] = ()  # PEP 508
    requirement_files: tuple[str, ...] = ()
    constraint_files: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()  # dependency groups of the root pyproject.toml
    projects: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    python: str | None = None  # wanted version, "3.12"; the nearest one at hand is used and told in `Installed`

    def __bool__(self) -> bool:
        return bool(self.requirements or self.requirement_files or self.groups or self.projects or self.node)


@dataclass(frozen=True, slots=True)
class Installed:
    """What the install step did. `python` is the version that runs the code ("3.11.7")."""

    python: str
    seconds: float
    built: tuple[str, ...] = ()  # names that had no wheel and were built inside
    output: str = ""
    notes: tuple[
        str, ...
    ] = ()  # what people should know of it, a clause or sentence each: "Not all packages could be had anew; …"


@dataclass(frozen=True, slots=True)
class Entry:
    """One regular file of a workspace (symlinks are listed with `link` set and are never followed)."""

    path: str  # POSIX, relative to the root
    size: int  # bytes
    executable: bool = False
    link: bool = False


Promise = Literal["files", "network", "processes", "disk", "memory"]
"""That code sees and changes no file of this machine, has no network, and that its processes, what it writes and the memory of
all of it together are bounded. What is not among these is a promise of every sandbox (`tests/sandbox/contract`)."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """What a sandbox really bounds here, and told in plain words to people what it does not."""

    name: str  # "local", "process", "e2b", …
    untrusted: bool  # may run code that nobody vouches for
    shortcomings: tuple[str, ...] = ()  # "total memory is not bounded: no cgroup can be had"
    promises: frozenset[Promise] = frozenset()


class Workspace(Protocol):
    """A repository's files inside the sandbox, and a place to run commands on them.

    Paths given to `read`, `write` and `remove` are POSIX and relative; one that would leave the root, or pass a symlink,
    raises `ValueError`. There is no network.
    """

    @property
    def root(self) -> str:
        """Absolute path of the repository as the code inside sees it."""

    @property
    def python(self) -> str:
        """Path of the interpreter, as seen inside, that has the dependencies (after `install`)."""

    async def run(self, command: Command) -> Completed:
        """Raises `DeadlinePassed`, `LimitExceeded`, `SandboxLost`."""

    async def read(self, path: str, limit: int = 16 * MIB) -> bytes:
        """Raises `FileNotFoundError`, `LimitExceeded` when the file has more than `limit` bytes, `ValueError`."""

    async def write(self, path: str, content: bytes, *, executable: bool | None = None) -> None:
        """Create or replace a regular file, with its folders; `executable=None` keeps the mode. Raises `ValueError`."""

    async def remove(self, path: str) -> None:
        """Remove one file; a missing one is no error. Raises `ValueError`."""

    async def files(self) -> tuple[Entry, ...]:
        """Every file, sorted by path, without `.git` and installed dependencies."""

    async def install(self, packages: Packages) -> Installed:
        """Give this workspace an environment of its own, from its own files; without, a candidate has that of its base.

        So a change to what the repository depends on can be tried: write it, plan anew, install, run. While it installs there
        is a way to the package index, for the installer alone. Raises `InstallFailed`, `SandboxError`.
        """


class Sandbox(Protocol):
    """One attempt's isolated place: a base and its candidates."""

    @property
    def isolation(self) -> Isolation: ...

    @property
    def base(self) -> Workspace:
        """The prepared repository. Run nothing in it that may change files: that is what candidates are for."""

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        """Fill the base from a gzipped tar whose single top folder is dropped (GitHub's tarball). Raises `UnsafeArchive`."""

    async def amend(self, command: Command) -> Completed:
        """Run one command of ours, and nothing of the repository's, that may change the base; before there are candidates.

        Raises `DeadlinePassed`, `LimitExceeded`, `SandboxLost`.
        """

    async def install(self, packages: Packages) -> Installed:
        """Install the base's dependencies, once. Raises `InstallFailed`, `SandboxError`.

        With nothing to install it still makes the interpreter ready.
        """

    async def provide(self, name: str, content: bytes) -> str:
        """Put a read-only tool beside the repository and return its path as seen inside (same for every workspace)."""

    def candidate(self) -> AbstractAsyncContextManager[Workspace]:
        """A copy-on-write workspace that starts as the base; its processes and files are gone at exit."""


@runtime_checkable
class Housed(Protocol):
    """`Sandboxes` whose code runs in an image, where another one can be asked for."""

    def with_image(self, image: str) -> Sandboxes | None:
        """None where the operator does not allow it. Raises `SandboxUnavailable` for a name that no image can have."""


class Sandboxes(Protocol):
    """Opens sandboxes of one kind."""

    @property
    def isolation(self) -> Isolation: ...

    def open(self, label: str, limits: Limits | None = None) -> AbstractAsyncContextManager[Sandbox]:
        """A fresh sandbox; everything of it is gone at exit. `label` names it for people. Raises `SandboxUnavailable`."""
