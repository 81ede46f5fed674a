"""On the machine: serves one local sandbox on a socket that only root can reach.

Each connection carries one named request. The answer is kept as a file: a client that lost the connection repeats the name and
gets the same answer, and nothing is done twice. Work whose last client disconnects is cancelled.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from secrets import token_hex

from sandbox.base import MIB, Limits, SandboxError, SandboxLost, Workspace
from sandbox.host.acquisition import acquire
from sandbox.install import folder_cache
from sandbox.install import plan as install_plan
from sandbox.install.index.access import IndexAccess
from sandbox.install.node import registry
from sandbox.install.packages import PackageStore
from sandbox.install.python import wheels
from sandbox.install.python.interpreters import Interpreter, choose
from sandbox.install.python.requirements import RequirementLines
from sandbox.local import LocalSandbox, LocalSandboxes
from sandbox.remote import wheel_bundle, wire
from sandbox.remote.wire import Head

KEPT = 64  # answers that can be repeated
SYSTEM_MEMORY = 384 * MIB  # bytes reserved for the machine
Blobs = tuple[bytes, ...]


@dataclass(slots=True)
class _PendingRequest:
    """A request in progress, until its answer is stored."""

    doing: asyncio.Task[bytes]
    keeping: asyncio.Task[None]
    clients: int = 0


class Server:
    """Handles requests to one open sandbox."""

    def __init__(self, sandbox: LocalSandbox, store: PackageStore, home: Path) -> None:
        self._sandbox, self._store, self._home = sandbox, store, home
        self._workspaces: dict[str, Workspace] = {wire.BASE: sandbox.base}
        self._candidates: dict[str, AbstractAsyncContextManager[Workspace]] = {}
        self._running: dict[str, _PendingRequest] = {}
        self._kept: deque[str] = deque()
        names = "hello registry unpack provide amend question fetch fill wheels install open close run read write remove files"
        self._handlers: dict[str, Callable[[Head, Blobs], Awaitable[bytes]]] = {
            name: getattr(self, f"_{name}") for name in names.split()
        }

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: a name, a request, its answer."""
        line, lines = asyncio.Event(), list[str]()
        gone = asyncio.create_task(_end_of(reader, line, lines))
        try:
            await line.wait()
            name, _, question = (lines[0] if lines else "").partition(" ")
            if not wire.NAME.fullmatch(name):
                return
            if not (self._home / "answered" / name).exists():
                await self._answer(name, question, gone)
            answer = (self._home / "answered" / name).read_bytes()
            inline = base64.b64encode(answer) if len(answer) <= wire.INLINE else b""
            writer.write(str(len(answer)).encode() + b" " + inline + b"\n")
            await writer.drain()
        except OSError:
            pass  # the client is gone; the answer stays
        finally:
            gone.cancel()
            writer.close()

    async def _answer(self, name: str, question: str, gone: asyncio.Task[None]) -> None:
        """Start the work or join it if it is running; cancel it when its last client is gone."""
        if name not in self._running:
            doing = asyncio.create_task(self._do(name, question))
            self._running[name] = _PendingRequest(doing, asyncio.create_task(self._store_when_done(name, doing)))
        work = self._running[name]
        work.clients += 1
        await asyncio.wait((work.doing, gone), return_when=asyncio.FIRST_COMPLETED)
        work.clients -= 1
        if not work.clients:
            work.doing.cancel()
        await asyncio.wait((work.keeping,))

    async def _store_when_done(self, name: str, doing: asyncio.Task[bytes]) -> None:
        """Store the answer when the work is done; requests wait for that, so that work is never repeated."""
        await asyncio.wait((doing,))
        answer = wire.error_to(SandboxLost("the client cancelled the command")) if doing.cancelled() else doing.result()
        try:
            await asyncio.to_thread(self._store_answer, name, answer)
        finally:
            del self._running[name]

    def _store_answer(self, name: str, answer: bytes) -> None:
        fresh = self._home / "answered" / f".{name}"
        fresh.write_bytes(answer)
        fresh.rename(self._home / "answered" / name)
        self._kept.append(name)
        while len(self._kept) > KEPT:
            (self._home / "answered" / self._kept.popleft()).unlink(missing_ok=True)

    async def _do(self, name: str, question: str) -> bytes:
        try:
            file = self._home / "asked" / name
            content = base64.b64decode(question) if question else await asyncio.to_thread(file.read_bytes)
            head, blobs = wire.unpack(content)
            file.unlink(missing_ok=True)
            return await self._handlers[head["do"]](head, blobs)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises must be answered, or the client would repeat it
            return wire.error_to(error)

    async def _hello(self, head: Head, blobs: Blobs) -> bytes:
        base, promises = self._sandbox.base, sorted(self._sandbox.isolation.promises)
        node = registry.is_installed()
        return wire.pack({"root": base.root, "python": base.python, "promises": promises, "node": node})

    async def _registry(self, head: Head, blobs: Blobs) -> bytes:
        """The hosts in npm's configuration here, for a client without npm; requested before any code runs."""
        return wire.pack({"hosts": sorted((await asyncio.to_thread(registry.configured)).hosts)})

    async def _unpack(self, head: Head, blobs: Blobs) -> bytes:
        file = self._upload(head)
        try:
            await self._sandbox.unpack(_chunks(file))
        finally:
            file.unlink(missing_ok=True)
        return wire.pack({})

    async def _amend(self, head: Head, blobs: Blobs) -> bytes:
        return wire.completed_to(await self._sandbox.amend(wire.command_from(head["command"], blobs[0])))

    async def _provide(self, head: Head, blobs: Blobs) -> bytes:
        return wire.pack({"path": await self._sandbox.provide(head["name"], blobs[0])})

    async def _question(self, head: Head, blobs: Blobs) -> bytes:
        """The cache key of the download step, and whether anything must be downloaded."""
        interpreter, sets = await self._requested(head)
        key = wheels.cache_key(interpreter, sets)
        entry = await acquire(lambda: folder_cache.newest(self._store.wheels, key), folder_cache.release)
        if entry is not None:
            await asyncio.to_thread(folder_cache.release, entry)
        wants = entry is None and any(lines.requirements for lines in sets)
        return wire.pack({"question": key, "wants": wants})

    async def _fetch(self, head: Head, blobs: Blobs) -> bytes:
        """Run the download step alone, which executes nothing."""
        interpreter, sets = await self._requested(head)
        async with wheels.fetched(self._store.wheels, interpreter, sets) as found:
            return wire.pack({"whole": not found.missing})

    async def _requested(self, head: Head) -> tuple[Interpreter, tuple[RequirementLines, ...]]:
        packages, workspace = wire.packages_from(head["packages"]), self._workspace(head)
        plan = await install_plan.read(packages, workspace.read)
        return await choose(packages.python), (plan.runtime, *plan.builds)

    async def _fill(self, head: Head, blobs: Blobs) -> bytes:
        """Add wheels from an earlier machine to the cache."""
        file = self._upload(head)
        try:
            if not wire.NAME.fullmatch(head["question"]):
                raise ValueError("not a question")
            await asyncio.to_thread(wheel_bundle.unpacked, self._store.wheels, head["question"], file)
        finally:
            file.unlink(missing_ok=True)
        return wire.pack({})

    async def _wheels(self, head: Head, blobs: Blobs) -> bytes:
        """The wheels of a key as a tar of limited size; empty if there are none."""
        entry = await acquire(lambda: folder_cache.newest(self._store.wheels, str(head["question"])), folder_cache.release)
        if entry is None:
            return wire.pack({}, b"")
        try:
            return wire.pack({}, await asyncio.to_thread(wheel_bundle.packed, entry.folder, int(head["at_most"])))
        finally:
            await asyncio.to_thread(folder_cache.release, entry)

    async def _install(self, head: Head, blobs: Blobs) -> bytes:
        workspace = self._workspace(head)
        installed = await workspace.install(wire.packages_from(head["packages"]))
        return wire.pack({"installed": asdict(installed), "python": workspace.python})

    async def _open(self, head: Head, blobs: Blobs) -> bytes:
        name = token_hex(8)
        context = self._sandbox.candidate()
        workspace = await context.__aenter__()
        self._workspaces[name], self._candidates[name] = workspace, context
        return wire.pack({"workspace": name, "python": workspace.python})

    async def _close(self, head: Head, blobs: Blobs) -> bytes:
        context = self._candidates.pop(head["workspace"], None)
        self._workspaces.pop(head["workspace"], None)
        if context is not None:
            await context.__aexit__(None, None, None)
        return wire.pack({})

    async def _run(self, head: Head, blobs: Blobs) -> bytes:
        return wire.completed_to(await self._workspace(head).run(wire.command_from(head["command"], blobs[0])))

    async def _read(self, head: Head, blobs: Blobs) -> bytes:
        return wire.pack({}, await self._workspace(head).read(head["path"], head["limit"]))

    async def _write(self, head: Head, blobs: Blobs) -> bytes:
        await self._workspace(head).write(head["path"], blobs[0], executable=head["executable"])
        return wire.pack({})

    async def _remove(self, head: Head, blobs: Blobs) -> bytes:
        await self._workspace(head).remove(head["path"])
        return wire.pack({})

    async def _files(self, head: Head, blobs: Blobs) -> bytes:
        return wire.pack({}, wire.entries_to(await self._workspace(head).files()))

    def _workspace(self, head: Head) -> Workspace:
        try:
            return self._workspaces[head["workspace"]]
        except KeyError:
            raise SandboxLost("the workspace is closed") from None

    def _upload(self, head: Head) -> Path:
        return self._home / "asked" / Path(head["file"]).name


async def _end_of(reader: asyncio.StreamReader, first: asyncio.Event, lines: list[str]) -> None:
    """Read the first line, then wait for the end of the connection."""
    try:
        lines.append((await reader.readline()).decode().rstrip("\n"))
        first.set()
        await reader.read()
    except (OSError, ValueError):
        pass
    finally:
        first.set()


async def _chunks(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as content:
        while chunk := await asyncio.to_thread(content.read, MIB):
            yield chunk


def _fitting(limits: Limits) -> Limits:
    """Limit memory to what the machine can give; otherwise its kernel would choose what to kill."""
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return replace(limits, memory=min(limits.memory, max(there - SYSTEM_MEMORY, there // 2)))


async def serve(home: Path, label: str, limits: Limits, index: IndexAccess) -> None:
    """Open one sandbox and serve it until killed. Prints `ready`, or `refused` with the reason."""
    store = PackageStore(home / "packages", index)
    for name in ("asked", "answered"):
        (home / name).mkdir(mode=0o700)
    try:
        async with LocalSandboxes(home / "open", store).open(label, _fitting(limits)) as sandbox:
            server = await asyncio.start_unix_server(
                Server(sandbox, store, home).accept, home / "socket", limit=wire.INLINE * 2
            )
            os.chmod(home / "socket", 0o600)
            print("ready", flush=True)  # noqa: T201 - the starter reads it
            async with server:
                await server.serve_forever()
    except SandboxError as error:
        print(f"refused {error}", flush=True)  # noqa: T201


def main() -> None:
    head, _ = wire.unpack(base64.b64decode(sys.argv[1]))
    certificates = Path(head["certificates"]) if head["certificates"] else None
    index = IndexAccess(tuple(head["urls"]), frozenset(head["hosts"]), certificates)
    asyncio.run(serve(Path(wire.HOME), head["label"], Limits(**head["limits"]), index))


if __name__ == "__main__":
    main()
