"""One sandbox at E2B, as the worker sees it: every operation is a request to the server on its machine."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sandbox.base import (
    MIB,
    Command,
    Completed,
    Entry,
    Installed,
    InstallFailed,
    Isolation,
    Packages,
    SandboxError,
    SandboxLost,
    UnsafeArchive,
    Workspace,
)
from sandbox.e2b.client import GRACE, SECONDS, SLOWEST, Client, frame
from sandbox.e2b.machine import E2BNetworkGate
from sandbox.host.archive import ArchiveLimits
from sandbox.host.folder_locks import acquire
from sandbox.host.folder_workspace import RunningCommands
from sandbox.host.tree import check_tool_name, parts_of
from sandbox.install import folder_cache
from sandbox.install.backend import INSTALL_SECONDS
from sandbox.install.python.wheels import FRESH_SECONDS
from sandbox.remote import wire

ARCHIVE_SECONDS = 300.0
PREPARING_SECONDS = 3 * INSTALL_SECONDS  # an install step consists of several commands
TRANSFER_SECONDS = 300.0  # for cached wheels
MOST_WHEELS = 256 * MIB  # bytes; larger sets are not transferred
WHEELS = "wheels.tar"
_log = logging.getLogger(__name__)


class E2BWorkspace:
    """The base, or one candidate."""

    def __init__(self, sandbox: E2BSandbox, name: str, python: str) -> None:
        self._sandbox, self._client, self._name = sandbox, sandbox.client, name
        self.root, self.python = sandbox.root, python
        self._running = RunningCommands()

    async def run(self, command: Command, do: str = "run") -> Completed:
        """Run `command`. If `do` is "amend", it may change the base."""
        if command.cwd not in ("", "."):
            parts_of(command.cwd)
        return await self._running.run(command.argv, self._run(command, do))

    async def _run(self, command: Command, do: str) -> Completed:
        seconds, longest = command.timeout + GRACE, frame(2 * command.output_limit)
        try:
            await self._sandbox.gate.closed()
            return await self._client.request(
                Completed, do, workspace=self._name, command=replace(command, heard=None), seconds=seconds, longest=longest
            )
        except SandboxLost as lost:
            raise SandboxLost(lost.reason, command.argv) from lost

    async def read(self, path: str, limit: int = 16 * MIB) -> bytes:
        self._check(path)
        seconds, longest = SECONDS + limit / SLOWEST, frame(limit)
        return await self._client.request(
            bytes, "read", workspace=self._name, path=path, limit=limit, seconds=seconds, longest=longest
        )

    async def write(self, path: str, content: bytes, *, executable: bool | None = None) -> None:
        self._check(path)
        given: dict[str, Any] = {"workspace": self._name, "path": path, "content": content, "executable": executable}
        await self._client.request(object, "write", seconds=SECONDS + len(content) / SLOWEST, **given)

    async def remove(self, path: str) -> None:
        self._check(path)
        await self._client.request(object, "remove", workspace=self._name, path=path)

    async def files(self) -> tuple[Entry, ...]:
        self._running.check_open()
        return await self._client.request(tuple[Entry, ...], "files", workspace=self._name)

    async def install(self, packages: Packages) -> Installed:
        installed, self.python = await self._sandbox.prepare(self._name, packages)
        return installed

    async def close(self) -> None:
        """Cancel running commands."""
        await self._running.cancel_all()

    def _check(self, path: str) -> None:
        parts_of(path)
        self._running.check_open()


@dataclass(frozen=True, slots=True)
class PackageSupply:
    """Where packages come from: network access, wheels cached on the worker's side, and the reason if npm is missing.

    `bound` is that of the cache, as in `folder_cache.keep`.
    """

    gate: E2BNetworkGate
    cache: Path
    no_node: str = ""
    bound: int | None = None


class E2BSandbox:
    """The server's sandbox; `root` and `python` are those of its base."""

    def __init__(self, client: Client, root: str, python: str, isolation: Isolation, supply: PackageSupply) -> None:
        self.client, self.root, self.isolation, self.gate, self._supply = client, root, isolation, supply.gate, supply
        self.base = E2BWorkspace(self, wire.BASE, python)

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        """Upload the archive; the server checks it."""
        bound = ArchiveLimits().packed
        with tempfile.TemporaryFile() as packed:
            async for chunk in archive:
                if packed.tell() + len(chunk) > bound:
                    raise UnsafeArchive(f"the archive is larger than {bound // MIB} MiB")
                await asyncio.to_thread(packed.write, chunk)
            name = await self.client.upload(packed, ARCHIVE_SECONDS)
        await self.client.request(object, "unpack", file=name, seconds=ARCHIVE_SECONDS)

    async def amend(self, command: Command) -> Completed:
        return await self.base.run(command, "amend")

    async def install(self, packages: Packages) -> Installed:
        return await self.base.install(packages)

    async def provide(self, name: str, content: bytes) -> str:
        check_tool_name(name)
        return await self.client.request(str, "provide", name=name, content=content)

    @asynccontextmanager
    async def candidate(self) -> AsyncIterator[Workspace]:
        opening = asyncio.ensure_future(self.client.request(tuple[str, str], "open"))
        try:
            name, python = await asyncio.shield(opening)
        except asyncio.CancelledError:
            with suppress(SandboxError):  # without a machine there is nothing to close, and the task must end as cancelled
                await asyncio.shield(self._close(E2BWorkspace(self, *await opening), opening.result()[0]))
            raise
        workspace = E2BWorkspace(self, name, python)
        try:
            yield workspace
        finally:
            await asyncio.shield(self._close(workspace, name))

    async def _close(self, workspace: E2BWorkspace, name: str) -> None:
        await workspace.close()
        with suppress(SandboxLost):  # a lost machine is closed too; keep the original error
            await self.client.request(object, "close", workspace=name)

    async def prepare(self, workspace: str, packages: Packages) -> tuple[Installed, str]:
        """Install for one workspace. Opens the network to download wheels, which executes no code; later only if needed.

        Also returns the path of the workspace's Python.
        """
        if packages.node and self._supply.no_node:
            raise InstallFailed(self._supply.no_node)
        request: dict[str, Any] = {"packages": packages, "workspace": workspace}
        question, wants = await self.client.request(tuple[str, bool], "question", **request)
        if not wire.NAME.fullmatch(question):
            raise SandboxLost("cannot read the machine's answer: not a cache key")
        if wants and not await self._fill(question):
            async with self.gate.opened():
                if not await self.client.request(bool, "fetch", seconds=PREPARING_SECONDS, **request):
                    return await self._install(request)
            if workspace == wire.BASE:  # before a candidate's install, untrusted code has run on the machine
                await self._keep(question)
        if packages.node:  # npm downloads while it installs, and runs no package scripts
            async with self.gate.opened():
                return await self._install(request)
        await self.gate.closed()
        try:
            return await self._install(request)
        except InstallFailed:
            if not packages:
                raise
        async with self.gate.opened():
            return await self._install(request)

    async def _install(self, request: dict[str, Any]) -> tuple[Installed, str]:
        return await self.client.request(tuple[Installed, str], "install", seconds=PREPARING_SECONDS, **request)

    async def _fill(self, key: str) -> bool:
        """Upload the wheels that an earlier machine downloaded for the same request; returns whether there were any."""
        cache = self._supply.cache
        with _optional():
            entry = await acquire(lambda: folder_cache.newest(cache, key), folder_cache.release)
            try:
                if entry is None or time.time() - entry.made > FRESH_SECONDS:
                    return False
                content = await asyncio.to_thread((entry.folder / WHEELS).read_bytes)
            finally:
                await asyncio.to_thread(folder_cache.release, entry)
            name = await self.client.upload(content, TRANSFER_SECONDS)
            await self.client.request(object, "fill", question=key, file=name, seconds=TRANSFER_SECONDS)
            return True
        return False

    async def _keep(self, key: str) -> None:
        """Cache the machine's wheels on the worker's side, for the next machine."""
        with _optional():
            most, seconds = MOST_WHEELS, TRANSFER_SECONDS
            if name := await self.client.request(str, "wheels", question=key, at_most=most, seconds=seconds):
                content = await self.client.download(name, most, seconds)
                await asyncio.to_thread(_store, self._supply, key, content)


def _store(supply: PackageSupply, key: str, content: bytes) -> None:
    fresh = folder_cache.create(supply.cache, key)
    try:
        (fresh.folder / WHEELS).write_bytes(content)
        fresh = folder_cache.keep(fresh, supply.bound)
    finally:
        folder_cache.release(fresh)


@contextmanager
def _optional() -> Iterator[None]:
    """Cached wheels are an optimization: after any failure here, the install step continues without them."""
    try:
        yield
    except (SandboxError, OSError, ValueError, LookupError) as error:  # the next request reports a lost machine
        _log.warning("could not transfer cached wheels: %s", error)
