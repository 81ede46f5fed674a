"""What an install step needs of a sandbox, and where things are then seen inside. Knows neither bubblewrap nor packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from sandbox.base import Completed
from sandbox.install.python.interpreters import Interpreter
from sandbox.install.shelf import Held

INSTALL_SECONDS = 900.0
INSTALL_OUTPUT = 128 * 1024  # bytes
ASKED, WAY, CERTIFICATES = "/asked", "/way", "/installer/certificates.pem"
SOCKET = "index.sock"


class Place(Protocol):
    """What the install step needs of a sandbox: one workspace, and the environment that it makes there."""

    @property
    def env(self) -> str:
        """Path of the virtual environment, as seen inside."""

    @property
    def sharing(self) -> Sharing | None:
        """How environments are shared here; None where code could write to one that others use too."""

    @property
    def way_out(self) -> Path | None:
        """A folder of ours for the proxy's socket; None where commands have the network anyway."""

    async def use(self, interpreter: Interpreter) -> str:
        """Make the interpreter usable; returns its path as seen inside."""

    async def read(self, path: str) -> bytes:
        """One of the repository's files."""

    async def see(self, source: Path, inside: str) -> str:
        """Show a host file or folder, read-only, to the commands of this step, at `inside` if the place can; returns where."""

    async def install_command(self, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        """Run one command that may write the repository and the environment."""


class Sharing(Protocol):
    """A place where an environment can be made aside, and be used without being written."""

    async def prepare(self, folder: Path, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        """Run one command that sees no repository, the host's `folder` at `ASKED`, and its tree, writable, as environment."""

    async def start_with(self, prepared: Held, *, writable: bool) -> None:
        """Take `prepared` over as the environment: as it is, or below what the commands of this step will write."""
