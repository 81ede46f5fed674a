"""The file half of workspaces on this machine."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from sandbox.base import MIB, Completed, Entry, LimitExceeded, SandboxError, SandboxLost
from sandbox.host import archive
from sandbox.host.running_commands import RunningCommands
from sandbox.host.tree import PATH_FAULTS, Tree

T = TypeVar("T")


class FolderWorkspace:
    """Files below an open `folder`, which it owns and closes. `disk` is the limit that a full workspace reports."""

    def __init__(self, folder: int, disk: int, owner: int | None = None) -> None:
        self._folder, self._disk = folder, disk
        self._tree = Tree(folder, owner)
        self._running = RunningCommands()

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
            raise self._infrastructure_error(error) from error

    async def close(self) -> None:
        """Cancel running commands and close the folder."""
        await self._running.cancel_all()
        folder, self._folder = self._folder, -1
        os.close(folder)

    async def _run_tracked(self, argv: tuple[str, ...], work: Coroutine[Any, Any, Completed]) -> Completed:
        return await self._running.run(argv, work)

    async def _on_files(self, work: Callable[[Tree], T]) -> T:
        if self._folder < 0:
            raise SandboxLost("the workspace is closed")
        try:
            return await asyncio.to_thread(work, self._tree)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno in PATH_FAULTS:
                raise ValueError(f"not a valid file path here: {error.strerror}") from error
            raise self._infrastructure_error(error) from error

    def _infrastructure_error(self, error: OSError) -> SandboxError:
        """An infrastructure error, which says nothing about the repository."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return LimitExceeded("disk", self._disk)
        return SandboxLost(f"cannot access the workspace's files: {error.strerror or error}")
