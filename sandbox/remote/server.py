"""Over there: one local sandbox, served on a socket that only root of that machine can reach.

Each connection is one question with a name; its answer is kept as a file, so that whoever lost the line asks again by the same
name and gets the same answer, and nothing is ever done twice. A question whose asker goes away is ended. Knows nothing of the
machine it runs in, and of no network: its code is what `sandbox.local` is everywhere.
"""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

from sandbox.base import MIB, Limits, SandboxError, SandboxLost, Workspace
from sandbox.install import plan as wanting
from sandbox.install import shelf
from sandbox.install.index.access import IndexAccess
from sandbox.install.node import registry as npm_registry
from sandbox.install.packages import Shop
from sandbox.install.python import wheels
from sandbox.install.python.interpreters import Interpreter, choose
from sandbox.install.python.requirements import Lines
from sandbox.local import LocalSandbox, LocalSandboxes
from sandbox.remote import wheel_bundle as parcels
from sandbox.remote import wire
from sandbox.remote.wire import Head
from sandbox.taking import taken

KEPT = 64  # answers that can be asked for again
SYSTEM_MEMORY = 384 * MIB  # bytes that are left to the machine itself
Blobs = tuple[bytes, ...]


@dataclass(slots=True)
class _Work:
    """A question that is being answered, until its answer is kept."""

    doing: asyncio.Task[bytes]
    keeping: asyncio.Task[None]
    askers: int = 0


class Server:
    """Answers questions about one open sandbox."""

    def __init__(self, sandbox: LocalSandbox, shop: Shop, home: Path) -> None:
        self._sandbox, self._shop, self._home = sandbox, shop, home
        self._workspaces: dict[str, Workspace] = {wire.BASE: sandbox.base}
        self._candidates: dict[str, AbstractAsyncContextManager[Workspace]] = {}
        self._running: dict[str, _Work] = {}
        self._kept: deque[str] = deque()
        self._does: dict[str, Callable[[Head, Blobs], Awaitable[bytes]]] = {
            "hello": self._hello, "registry": self._registry, "unpack": self._unpack, "provide": self._provide,
            "amend": self._amend,
            "question": self._question, "fetch": self._fetch, "fill": self._fill, "wheels": self._wheels,
            "install": self._install, "open": self._open, "close": self._close, "run": self._run, "read": self._read,
            "write": self._write, "remove": self._remove, "files": self._files,
        }  # fmt: skip

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: a name, a question, its answer."""
        line, said = asyncio.Event(), list[str]()
        gone = asyncio.create_task(_end_of(reader, line, said))
        try:
            await line.wait()
            name, _, question = (said[0] if said else "").partition(" ")
            if not wire.NAME.fullmatch(name):
                return
            if not (self._home / "answered" / name).exists():
                await self._answer(name, question, gone)
            answer = (self._home / "answered" / name).read_bytes()
            inline = base64.b64encode(answer) if len(answer) <= wire.INLINE else b""
            writer.write(str(len(answer)).encode() + b" " + inline + b"\n")
            await writer.drain()
        except OSError:
            pass  # the asker has gone; the answer stays
        finally:
            gone.cancel()
            writer.close()

    async def _answer(self, name: str, question: str, gone: asyncio.Task[None]) -> None:
        """Do what is asked, or wait for who does it already; end it when its last asker has gone."""
        if name not in self._running:
            doing = asyncio.create_task(self._do(name, question))
            self._running[name] = _Work(doing, asyncio.create_task(self._kept_when_done(name, doing)))
        work = self._running[name]
        work.askers += 1
        await asyncio.wait((work.doing, gone), return_when=asyncio.FIRST_COMPLETED)
        work.askers -= 1
        if not work.askers:
            work.doing.cancel()
        await asyncio.wait((work.keeping,))

    async def _kept_when_done(self, name: str, doing: asyncio.Task[bytes]) -> None:
        """Whoever asks until the answer is kept waits for it: what was done is not done again."""
        await asyncio.wait((doing,))
        answer = wire.error_to(SandboxLost("the command was ended by its asker")) if doing.cancelled() else doing.result()
        try:
            await asyncio.to_thread(self._keep, name, answer)
        finally:
            del self._running[name]

    def _keep(self, name: str, answer: bytes) -> None:
        fresh = self._home / "answered" / f".{name}"
        fresh.write_bytes(answer)
        fresh.rename(self._home / "answered" / name)
        self._kept.append(name)
        while len(self._kept) > KEPT:
            (self._home / "answered" / self._kept.popleft()).unlink(missing_ok=True)

    async def _do(self, name: str, question: str) -> bytes:
        try:
            asked = self._home / "asked" / name
            content = base64.b64decode(question) if question else await asyncio.to_thread(asked.read_bytes)
            head, blobs = wire.unpack(content)
            asked.unlink(missing_ok=True)
            return await self._does[head["do"]](head, blobs)
        except Exception as error:  # noqa: BLE001 - an asker who gets no answer asks again, and it would be done again
            return wire.error_to(error)

    async def _hello(self, head: Head, blobs: Blobs) -> bytes:
        base, promises = self._sandbox.base, sorted(self._sandbox.isolation.promises)
        node = npm_registry.is_there()
        return wire.pack({"root": base.root, "python": base.python, "promises": promises, "node": node})

    async def _registry(self, head: Head, blobs: Blobs) -> bytes:
        """Which hosts npm's own configuration names here: asked where the asker has no npm, before anything is run."""
        return wire.pack({"hosts": sorted((await asyncio.to_thread(npm_registry.configured)).hosts)})

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
        """What the download step will ask for, and whether there is anything to be downloaded."""
        interpreter, sets = await self._asked_for(head)
        asked = wheels.question(interpreter, sets)
        held = await taken(lambda: shelf.newest(self._shop.wheels, asked), shelf.put_back)
        if held is not None:
            await asyncio.to_thread(shelf.put_back, held)
        wants = held is None and any(lines.requirements for lines in sets)
        return wire.pack({"question": asked, "wants": wants})

    async def _fetch(self, head: Head, blobs: Blobs) -> bytes:
        """The download step alone, which executes nothing."""
        interpreter, sets = await self._asked_for(head)
        async with wheels.fetched(self._shop.wheels, interpreter, sets) as found:
            return wire.pack({"whole": not found.missing})

    async def _asked_for(self, head: Head) -> tuple[Interpreter, tuple[Lines, ...]]:
        packages, workspace = wire.packages_from(head["packages"]), self._workspace(head)
        wanted = await wanting.read(packages, workspace.read)
        return await choose(packages.python), (wanted.runs, *wanted.builds)

    async def _fill(self, head: Head, blobs: Blobs) -> bytes:
        """Put wheels that were downloaded for the same question before on the shelf."""
        file = self._upload(head)
        try:
            if not wire.NAME.fullmatch(head["question"]):
                raise ValueError("not a question")
            await asyncio.to_thread(parcels.unpacked, self._shop.wheels, head["question"], file)
        finally:
            file.unlink(missing_ok=True)
        return wire.pack({})

    async def _wheels(self, head: Head, blobs: Blobs) -> bytes:
        """The wheels of a question as a tar of at most so many bytes; nothing where there is none."""
        held = await taken(lambda: shelf.newest(self._shop.wheels, str(head["question"])), shelf.put_back)
        if held is None:
            return wire.pack({}, b"")
        try:
            return wire.pack({}, await asyncio.to_thread(parcels.packed, held.folder, int(head["at_most"])))
        finally:
            await asyncio.to_thread(shelf.put_back, held)

    async def _install(self, head: Head, blobs: Blobs) -> bytes:
        workspace = self._workspace(head)
        installed = await workspace.install(wire.packages_from(head["packages"]))
        return wire.pack({"installed": wire.installed_to(installed), "python": workspace.python})

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


async def _end_of(reader: asyncio.StreamReader, first: asyncio.Event, said: list[str]) -> None:
    """The first line, then the end of the connection."""
    try:
        said.append((await reader.readline()).decode().rstrip("\n"))
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
    """No more memory than the machine has to give: without, its own kernel would choose who dies."""
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return replace(limits, memory=min(limits.memory, max(there - SYSTEM_MEMORY, there // 2)))


async def serve(home: Path, label: str, limits: Limits, index: IndexAccess) -> None:
    """Open one sandbox, and answer until the process is killed. Says `ready`, or why not, on its standard output."""
    shop = Shop(home / "packages", index)
    for name in ("asked", "answered"):
        (home / name).mkdir(mode=0o700)
    try:
        async with LocalSandboxes(home / "open", shop).open(label, _fitting(limits)) as sandbox:
            server = await asyncio.start_unix_server(Server(sandbox, shop, home).accept, home / "socket", limit=wire.INLINE * 2)
            os.chmod(home / "socket", 0o600)
            print("ready", flush=True)  # noqa: T201 - whoever started us listens
            async with server:
                await server.serve_forever()
    except SandboxError as error:
        print(f"refused {error}", flush=True)  # noqa: T201


def main() -> None:
    head, _ = wire.unpack(base64.b64decode(sys.argv[1]))
    certificates = Path(head["certificates"]) if head["certificates"] else None
    index = IndexAccess(tuple(head["urls"]), frozenset(head["hosts"]), certificates)
    asyncio.run(serve(Path(wire.HOME), head["label"], wire.limits_from(head["limits"]), index))


if __name__ == "__main__":
    main()
