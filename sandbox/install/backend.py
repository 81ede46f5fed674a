"""What an install step needs from a sandbox, and the paths of its files inside the sandbox."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from sandbox.base import Completed
from sandbox.install.folder_cache import CacheEntry
from sandbox.install.python.interpreters import Interpreter

INSTALL_SECONDS = 900.0
INSTALL_OUTPUT = 128 * 1024  # bytes
RECIPE_FOLDER, PROXY_FOLDER, CERTIFICATES = "/asked", "/way", "/installer/certificates.pem"
SOCKET = "index.sock"


Keep: TypeAlias = Callable[[CacheEntry, str, Mapping[str, str]], Awaitable[None]]
"""Takes a folder, its path inside the sandbox, and variables that all commands get too."""


class InstallBackend(Protocol):
    """One workspace, and the environment that the install step creates for it."""

    @property
    def env(self) -> str:
        """Path of the virtual environment inside the sandbox."""

    @property
    def disk(self) -> int:
        """The sandbox's disk limit in bytes."""

    @property
    def shared_environments(self) -> SharedEnvironments | None:
        """How environments are shared; None if untrusted code could write to a shared one."""

    @property
    def proxy_folder(self) -> Path | None:
        """A folder for the proxy's socket; None if commands have network access anyway."""

    async def use(self, interpreter: Interpreter) -> str:
        """Make the interpreter available; returns its path inside the sandbox."""

    async def read(self, path: str) -> bytes:
        """One of the repository's files."""

    async def show(self, source: Path, inside: str) -> str:
        """Mount a host file or folder read-only for this step, at `inside` if possible; returns its path in the sandbox."""

    @property
    def keep(self) -> Keep | None:
        """Mounts a cached folder read-only for all commands of the workspace; None if that is impossible."""

    async def run_installer(self, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        """Run one command that may write to the repository and the environment."""


class SharedEnvironments(Protocol):
    """Creates environments outside of any workspace, and uses them read-only."""

    async def prepare(self, folder: Path, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        """Run one command without the repository: it sees `folder` at `RECIPE_FOLDER`, and its tree as writable environment."""

    async def start_with(self, prepared: CacheEntry, *, writable: bool) -> None:
        """Use `prepared` as the environment; `writable` adds a writable overlay."""
