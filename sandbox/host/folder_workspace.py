"""Tracks a workspace's running commands, and accesses the files of workspaces on this machine."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from sandbox.base import MIB, Completed, Entry, LimitExceeded, SandboxError, SandboxLost
from sandbox.host import archive
from sandbox.host.tree import PATH_FAULTS, Tree


class RunningCommands:
    """Tracks running commands until `cancel_all`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Completed]] = set()
        self._ended = False

    async def run(self, argv: tuple[str, ...], work: Coroutine[Any, Any, Completed]) -> Completed:
        """Run `work`, which its caller or `cancel_all` can cancel. Raises `SandboxLost` in the latter case."""
        if self._ended:
            work.close()
            raise SandboxLost("the workspace is closed", argv)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        try:
            await asyncio.wait((task,))
        finally:
            task.cancel()
            await asyncio.wait((task,))
            self._tasks.discard(task)
        if task.cancelled():
            raise SandboxLost("the workspace was closed while its command was running", argv)
        return task.result()

    def check_open(self) -> None:
        """Raises `SandboxLost` after `cancel_all`."""
        if self._ended:
            raise SandboxLost("the workspace is closed")

    async def cancel_all(self) -> None:
        """Cancel the running commands and refuse new ones."""
        self._ended = True
        for task in (running := tuple(self._tasks)):
            task.cancel()
        if running:
            await asyncio.wait(running)


T = TypeVar("T")


async def run_watched(work: Awaitable[T], check: Callable[[], Awaitable[None]], seconds: float) -> T:
    """Run `work`; call `check` every `seconds` and once at the end. If `check` raises, `work` is cancelled."""
    running = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait((running,), timeout=seconds))[0]:
            await check()
        await check()
    finally:
        running.cancel()
        await asyncio.wait((running,))
    return running.result()


class FolderWorkspace:
    """Files below an open `folder`, which it owns and closes. `disk` is the limit that is reported if the workspace is full."""

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
        """Unpack a repository's archive into it. Raises `UnsafeArchive`, `LimitExceeded`, `SandboxLost`."""
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
                raise ValueError(f"invalid file path: {error.strerror}") from error
            raise self._infrastructure_error(error) from error

    def _infrastructure_error(self, error: OSError) -> SandboxError:
        """The infrastructure error for `error`; it says nothing about the repository."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return LimitExceeded("disk", self._disk)
        return SandboxLost(f"cannot access the workspace's files: {error.strerror or error}")
