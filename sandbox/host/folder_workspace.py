"""What workspaces of this machine share: files reached through a descriptor."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from sandbox.base import MIB, Completed, Entry, LimitExceeded, SandboxError, SandboxLost
from sandbox.host import archive
from sandbox.host.running_commands import Running
from sandbox.host.tree import PATH_FAULTS, Tree

T = TypeVar("T")


class HeldWorkspace:
    """The file half of a `Workspace` at an open `folder`, which it owns. `disk` is the bound to name when it is full."""

    def __init__(self, folder: int, disk: int, owner: int | None = None) -> None:
        self._folder, self._disk = folder, disk
        self._tree = Tree(folder, owner)
        self._running = Running()

    async def read(self, path: str, limit: int = 16 * MIB) -> bytes:
        return await self._on_files(lambda tree: tree.read(path, limit))

    async def write(self, path: str, content: bytes, *, executable: bool | None = None) -> None:
        await self._on_files(lambda tree: tree.write(path, content, executable))

    async def remove(self, path: str) -> None:
        await self._on_files(lambda tree: tree.remove(path))

    async def files(self) -> tuple[Entry, ...]:
        return await self._on_files(lambda tree: tree.files())

    async def unpack(self, content: AsyncIterator[bytes]) -> None:
        """Fill it from a repository's archive. Raises `UnsafeArchive`, `LimitExceeded`, `SandboxLost`."""
        try:
            await archive.unpack(content, self._tree)
        except OSError as error:
            raise self._trouble(error) from error

    async def close(self) -> None:
        """End the commands that still run, and give the folder back."""
        await self._running.end()
        folder, self._folder = self._folder, -1
        os.close(folder)

    async def _held(self, argv: tuple[str, ...], work: Coroutine[Any, Any, Completed]) -> Completed:
        return await self._running.hold(argv, work)

    async def _on_files(self, work: Callable[[Tree], T]) -> T:
        if self._folder < 0:
            raise SandboxLost("the workspace is closed")
        try:
            return await asyncio.to_thread(work, self._tree)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno in PATH_FAULTS:
                raise ValueError(f"not a path that a file can have here: {error.strerror}") from error
            raise self._trouble(error) from error

    def _trouble(self, error: OSError) -> SandboxError:
        """This machine's own trouble, which says nothing about the repository."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return LimitExceeded("disk", self._disk)
        return SandboxLost(f"the workspace's files cannot be reached: {error.strerror or error}")
