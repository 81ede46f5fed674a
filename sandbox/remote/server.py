"""Runs on the machine: serves one local sandbox on a socket that only root can reach.

Each connection carries one named request. The answer is kept as a file: a client that lost the connection repeats the name and
gets the same answer, and no work is done twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tarfile
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

from sandbox.base import MIB, InstallFailed, Limits, Packages, SandboxError, SandboxLost, Workspace
from sandbox.host.folder_locks import acquire
from sandbox.install import folder_cache
from sandbox.install.download import DownloadPolicy
from sandbox.install.node import npm
from sandbox.install.package_index import IndexAccess
from sandbox.install.packages import PackageStore
from sandbox.install.python import requirements, wheels
from sandbox.install.python.interpreters import Interpreter, choose
from sandbox.install.python.requirements import RequirementLines
from sandbox.local import LocalSandbox, LocalSandboxes
from sandbox.remote import wire

KEPT = 64  # number of answers that are kept for repeated requests
SYSTEM_MEMORY = 384 * MIB  # bytes reserved for the machine
_CANCELLED = wire.encode(wire.failure(SandboxLost("the client cancelled the request")))
OF_SANDBOX = frozenset(("amend", "provide"))
OF_WORKSPACE = frozenset(("run", "read", "write", "remove", "files"))


class Server:
    """Handles requests to one open sandbox. `home` has the folders `asked` and `answered`."""

    def __init__(self, sandbox: LocalSandbox, store: PackageStore, home: Path) -> None:
        self._sandbox, self._store = sandbox, store
        self._asked, self._answered = home / "asked", home / "answered"
        self._workspaces: dict[str, Workspace] = {wire.BASE: sandbox.base}
        self._candidates: dict[str, AbstractAsyncContextManager[Workspace]] = {}
        self._running: dict[str, asyncio.Task[str]] = {}
        self._kept: deque[str] = deque()
        named = (self.unpack, self.question, self.fetch, self.fill, self.wheels, self.install, self.open)
        self._handlers: dict[str, Callable[..., Awaitable[object]]] = {each.__name__: each for each in named}

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: a name, a request, its answer."""
        try:
            name, _, request = (await reader.readline()).decode().rstrip("\n").partition(" ")
            if not wire.NAME.fullmatch(name):
                return
            if not (self._answered / name).exists():
                if name not in self._running:
                    self._running[name] = asyncio.create_task(self._answer(name, request))
                    self._running[name].add_done_callback(partial(self._keep, name))
                elif request == wire.CANCEL:
                    self._running[name].cancel()
                await asyncio.wait((self._running[name],))
            answer = (self._answered / name).read_bytes()
            writer.write((answer if len(answer) <= wire.INLINE else b"") + b"\n")
            await writer.drain()
        except (OSError, ValueError):
            pass  # the client is gone, and the answer is kept; or this is not one of our clients
        finally:
            writer.close()

    def _keep(self, name: str, work: asyncio.Task[str]) -> None:
        """Store the answer before anyone who waits for it continues, so that work is never repeated."""
        answer = _CANCELLED if work.cancelled() else work.result()
        try:
            fresh = self._answered / f".{name}"
            fresh.write_text(answer)
            fresh.rename(self._answered / name)
            self._kept.append(name)
            while len(self._kept) > KEPT:
                (self._answered / self._kept.popleft()).unlink(missing_ok=True)
        finally:
            del self._running[name]

    async def _answer(self, name: str, request: str) -> str:
        file = self._asked / name
        try:
            if request == wire.CANCEL:
                return _CANCELLED
            given = json.loads(request or await asyncio.to_thread(file.read_bytes))
            file.unlink(missing_ok=True)
            do, workspace = given.pop("do"), given.pop("workspace", wire.BASE)
            return wire.encode({"ok": await self._do(do, workspace, wire.arguments_of(given))})
        except Exception as error:  # noqa: BLE001 - whatever a handler raises must be answered, or the client would repeat it
            return wire.encode(wire.failure(error))

    async def _do(self, do: str, name: str, arguments: dict[str, Any]) -> object:
        if do in OF_SANDBOX:
            return await getattr(self._sandbox, do)(**arguments)
        if do == "close":
            await self._close(name)
            return None
        if (workspace := self._workspaces.get(name)) is None:
            raise SandboxLost("the workspace is closed")
        if do in OF_WORKSPACE:
            return await getattr(workspace, do)(**arguments)
        return await self._handlers[do](workspace, **arguments)

    async def unpack(self, workspace: Workspace, file: str) -> None:
        upload = self._upload(file)
        try:
            await self._sandbox.unpack(_chunks(upload))
        finally:
            upload.unlink(missing_ok=True)

    async def question(self, workspace: Workspace, packages: Packages) -> tuple[str, bool]:
        """The cache key of the download step, and whether anything must be downloaded."""
        interpreter, sets = await _requested(workspace, packages)
        key = wheels.cache_key(interpreter, sets, self._store.policy)
        entry = await acquire(lambda: folder_cache.newest(self._store.wheels, key), folder_cache.release)
        await asyncio.to_thread(folder_cache.release, entry)
        return key, entry is None and any(lines.requirements for lines in sets)

    async def fetch(self, workspace: Workspace, packages: Packages) -> bool:
        """Run only the download step, which executes no code; returns whether all wheels were found."""
        interpreter, sets = await _requested(workspace, packages)
        policy = self._store.policy.within(self._sandbox.confinement.limits.disk)
        async with wheels.fetched(self._store.wheels, interpreter, sets, policy) as found:
            return not found.missing

    async def fill(self, workspace: Workspace, question: str, file: str) -> None:
        """Add wheels from an earlier machine to the cache."""
        upload = self._upload(file)
        try:
            if not wire.NAME.fullmatch(question):
                raise ValueError("not a cache key")
            await asyncio.to_thread(_unpack_wheels, self._store.wheels, question, upload)
        finally:
            upload.unlink(missing_ok=True)

    async def wheels(self, workspace: Workspace, question: str, at_most: int) -> str:
        """The name of a tar with the wheels of a cache key; empty if there is none or it would exceed `at_most` bytes."""
        entry = await acquire(lambda: folder_cache.newest(self._store.wheels, question), folder_cache.release)
        if entry is None:
            return ""
        file = self._answered / f"{token_hex(8)}.tar"
        self._kept.append(file.name)
        try:
            return file.name if await asyncio.to_thread(_pack_wheels, entry.folder, file, at_most) else ""
        finally:
            await asyncio.to_thread(folder_cache.release, entry)

    async def install(self, workspace: Workspace, packages: Packages) -> tuple[object, str]:
        return await workspace.install(packages), workspace.python

    async def open(self, workspace: Workspace) -> tuple[str, str]:
        name = token_hex(8)
        context = self._sandbox.candidate()
        candidate = await context.__aenter__()
        self._workspaces[name], self._candidates[name] = candidate, context
        return name, candidate.python

    async def _close(self, name: str) -> None:
        context = self._candidates.pop(name, None)
        self._workspaces.pop(name, None)
        if context is not None:
            await context.__aexit__(None, None, None)

    def _upload(self, name: str) -> Path:
        return self._asked / Path(name).name


async def _requested(workspace: Workspace, packages: Packages) -> tuple[Interpreter, tuple[RequirementLines, ...]]:
    plan = await requirements.read_plan(packages, workspace.read)
    return await choose(packages.python), (plan.runtime, *plan.builds)


def _pack_wheels(folder: Path, file: Path, at_most: int) -> bool:
    """Write the files of `folder` as a tar; False if they are too large."""
    found = sorted(folder.iterdir())
    if sum(each.stat().st_size for each in found) > at_most:
        return False
    with tarfile.open(file, "w") as tar:
        for each in found:
            tar.add(each, each.name)
    return True


def _unpack_wheels(cache: Path, key: str, bundle: Path) -> None:
    """Add the contents of a `_pack_wheels` file to the cache: plain files with plain names only."""
    fresh = folder_cache.create(cache, key)
    try:
        with tarfile.open(bundle, "r:") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() and "/" not in member.name else None
                if content is not None:
                    with (fresh.folder / member.name).open("xb") as file:
                        shutil.copyfileobj(content, file)
        fresh = folder_cache.commit(fresh)
    finally:
        folder_cache.release(fresh)


async def _chunks(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as content:
        while chunk := await asyncio.to_thread(content.read, MIB):
            yield chunk


def _fitting(limits: Limits) -> Limits:
    """Limit memory to what the machine can spare; otherwise its kernel would choose what to kill."""
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return replace(limits, memory=min(limits.memory, max(there - SYSTEM_MEMORY, there // 2)))


def _npm(is_asked: bool) -> tuple[list[str], str]:
    """The hosts in npm's configuration on this machine, for a worker without npm, or why there are none."""
    try:
        return sorted(npm.configured().hosts) if is_asked else [], ""
    except InstallFailed as error:
        return [], error.reason


async def serve(home: Path, given: dict[str, Any]) -> None:
    """Open one sandbox and serve it until killed. Prints one line: a greeting, or why there is no sandbox."""
    index = IndexAccess(
        tuple(given["urls"]), frozenset(given["hosts"]), Path(given["certificates"]) if given["certificates"] else None
    )
    store = PackageStore(home / "packages", index, policy=DownloadPolicy(**given["downloads"]))
    for name in ("asked", "answered"):
        (home / name).mkdir(mode=0o700)
    try:
        async with LocalSandboxes(home / "open", store).open(given["label"], _fitting(Limits(**given["limits"]))) as sandbox:
            server = Server(sandbox, store, home)
            listening = await asyncio.start_unix_server(server.accept, home / "socket", limit=wire.INLINE * 2)
            os.chmod(home / "socket", 0o600)
            node = npm.is_installed()
            npm_hosts, npm_trouble = await asyncio.to_thread(_npm, node and given["npm"])
            base, promises = sandbox.base, sorted(sandbox.isolation.promises)
            greeting = {"root": base.root, "python": base.python, "promises": promises, "node": node}
            answer = {"ok": greeting | {"npm_hosts": npm_hosts, "npm_trouble": npm_trouble}}
            print(wire.encode(answer), flush=True)  # noqa: T201 - the starter reads it
            async with listening:
                await listening.serve_forever()
    except SandboxError as error:
        print(wire.encode(wire.failure(error)), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(serve(Path(wire.HOME), json.loads(sys.argv[1])))
