"""This side: a sandbox whose every word is a question to a machine (`sandbox.remote.serving` answers there).

A question has a name. Whatever happens on the line, it is asked again by the same name until its answer is here or its time is
over, and what it asks for is done once. Knows no provider: a `Machine` runs one small command and takes and gives files.
"""

from __future__ import annotations

import asyncio
import base64
import shlex
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import IO, Protocol

from sandbox.base import (
    MIB,
    Command,
    Completed,
    Entry,
    Installed,
    InstallFailed,
    Isolation,
    Packages,
    SandboxLost,
    UnsafeArchive,
    Workspace,
)
from sandbox.host.archive import ArchiveLimits
from sandbox.host.running_commands import Running
from sandbox.host.tree import check_tool_name, parts_of
from sandbox.install.placing import INSTALL_SECONDS
from sandbox.remote import keeping, wire
from sandbox.remote.wire import BASE, FRAME, Head

SECONDS = 60.0  # that a question may take which runs nothing of the repository
ARCHIVE_SECONDS = 300.0
PREPARING_SECONDS = 3 * INSTALL_SECONDS  # an install step is several commands
GRACE = 30.0  # for the line: the other side keeps the time of a command itself
ANSWER = 64 * MIB  # bytes of one answer, where the question bounds it no better
SLOWEST = MIB  # bytes a second, of a line that is worth using
MESSENGER = f"{wire.HOME}/code/sandbox/remote/messenger.py"


class Machine(Protocol):
    """Where the other side lives."""

    async def put(self, path: str, content: bytes | IO[bytes], seconds: float) -> None:
        """Make a file. Raises `SandboxError`."""

    async def get(self, path: str, limit: int, seconds: float) -> bytes | None:
        """A file of at most `limit` bytes; None where there is none. Raises `SandboxError`."""

    async def run(self, script: str, seconds: float) -> bytes:
        """What a short command of ours says; it may have lost some of it on the way. Raises `SandboxError`."""


class Way(Protocol):
    """The machine's way to the package index, which is closed but while somebody installs."""

    def opened(self) -> AbstractAsyncContextManager[None]: ...

    async def closed(self) -> None:
        """Make sure that there is none. Raises `SandboxError` where that cannot be had: then nothing may run."""


class Line:
    """Questions and answers."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def put(self, content: bytes | IO[bytes], seconds: float) -> str:
        """Bring a file to the other side, for a question that names it."""
        name = token_hex(16)
        await self._machine.put(f"{wire.ASKED}/{name}", content, seconds)
        return name

    async def ask(
        self, head: Head, *blobs: bytes, seconds: float = SECONDS, longest: int = ANSWER
    ) -> tuple[Head, tuple[bytes, ...]]:
        """`seconds` bound what is asked for, `longest` the bytes of the answer. Raises what it tells, and `SandboxLost`."""
        name, question = token_hex(16), wire.pack(head, *blobs)
        inline = base64.b64encode(question).decode() if len(question) <= wire.INLINE else ""
        if not inline:
            await self._machine.put(f"{wire.ASKED}/{name}", question, seconds + GRACE)
        until = time.monotonic() + seconds + GRACE
        while (left := until - time.monotonic()) > 0:
            script = shlex.join((wire.INTERPRETER, "-I", "-S", MESSENGER, wire.SOCKET, name, inline))
            said = await self._machine.run(script, left)
            answer = _whole(said) or await self._machine.get(f"{wire.ANSWERED}/{name}", longest, max(left, GRACE))
            if answer is not None:
                with wire.understood():
                    told, content = wire.unpack(answer)
                    failure = wire.error_from(told, content)
                if failure is not None:
                    raise failure
                return told, content
            if said.startswith(b"no server"):
                break
            await asyncio.sleep(0.5)  # the line was lost before the question was heard
        raise SandboxLost(f"the sandbox does not answer any more ({head['do']})")


def _whole(said: bytes) -> bytes | None:
    """The answer, if it came with the messenger's own output and nothing of it was lost."""
    size, _, packed = said.partition(b" ")
    if not packed.endswith(b"\n") or not size.isdigit():
        return None
    try:
        answer = base64.b64decode(packed.strip(), validate=True)
    except ValueError:
        return None
    return answer if len(answer) == int(size) else None


class RemoteWorkspace:
    """The base, or one candidate, of a sandbox on another machine."""

    def __init__(self, sandbox: RemoteSandbox, name: str, python: str) -> None:
        self._sandbox, self._line, self._name = sandbox, sandbox.line, name
        self.root, self.python = sandbox.root, python
        self._open = True
        self._running = Running()

    async def run(self, command: Command) -> Completed:
        if command.cwd not in ("", "."):
            parts_of(command.cwd)
        return await self._running.hold(command.argv, self._run(command, "run"))

    async def amend(self, command: Command) -> Completed:
        """Of the base alone."""
        return await self._running.hold(command.argv, self._run(command, "amend"))

    async def _run(self, command: Command, do: str) -> Completed:
        asked = {"do": do, "workspace": self._name, "command": wire.command_to(command)}
        try:
            await self._sandbox.way.closed()
            longest = 2 * command.output_limit + FRAME
            head, blobs = await self._line.ask(asked, command.stdin, seconds=command.timeout + GRACE, longest=longest)
            with wire.understood():
                return wire.completed_from(head, blobs)
        except SandboxLost as lost:
            raise SandboxLost(lost.reason, command.argv) from lost

    async def read(self, path: str, limit: int = 16 * MIB) -> bytes:
        parts_of(path)
        asked = {"do": "read", "path": path, "limit": limit, "workspace": self._name}
        self._check_open()
        _, blobs = await self._line.ask(asked, seconds=SECONDS + limit / SLOWEST, longest=limit + FRAME)
        with wire.understood():
            (content,) = blobs
        return content

    async def write(self, path: str, content: bytes, *, executable: bool | None = None) -> None:
        parts_of(path)
        asked = {"do": "write", "path": path, "executable": executable, "workspace": self._name}
        self._check_open()
        await self._line.ask(asked, content, seconds=SECONDS + len(content) / SLOWEST)

    async def remove(self, path: str) -> None:
        parts_of(path)
        await self._ask({"do": "remove", "path": path})

    async def files(self) -> tuple[Entry, ...]:
        _, blobs = await self._ask({"do": "files"})
        with wire.understood():
            return wire.entries_from(*blobs)

    async def install(self, packages: Packages) -> Installed:
        installed, self.python = await self._sandbox.prepare(self._name, packages)
        return installed

    async def close(self) -> None:
        """End the commands that still run."""
        self._open = False
        await self._running.end()

    async def _ask(self, head: Head) -> tuple[Head, tuple[bytes, ...]]:
        self._check_open()
        return await self._line.ask({**head, "workspace": self._name})

    def _check_open(self) -> None:
        if not self._open:
            raise SandboxLost("the workspace is closed")


@dataclass(frozen=True, slots=True)
class Supply:
    """Where packages come from: the way to their indexes, what was downloaded before (`cache`, on this side), and why there is
    no npm, if there is none."""

    way: Way
    cache: Path
    no_node: str = ""


class RemoteSandbox:
    """One sandbox on another machine."""

    def __init__(self, line: Line, hello: Head, isolation: Isolation, supply: Supply) -> None:
        self.line, self.isolation, self.way, self._supply = line, isolation, supply.way, supply
        with wire.understood():
            self.root = str(hello["root"])
            self._base = RemoteWorkspace(self, BASE, str(hello["python"]))

    @property
    def base(self) -> RemoteWorkspace:
        return self._base

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        """The archive goes over as it is; what is in it is looked at there."""
        bound = ArchiveLimits().packed
        with tempfile.TemporaryFile() as packed:
            async for chunk in archive:
                if packed.tell() + len(chunk) > bound:
                    raise UnsafeArchive(f"the archive is larger than {bound // MIB} MiB")
                await asyncio.to_thread(packed.write, chunk)
            name = await self.line.put(packed, ARCHIVE_SECONDS)
        await self.line.ask({"do": "unpack", "file": name}, seconds=ARCHIVE_SECONDS)

    async def amend(self, command: Command) -> Completed:
        return await self._base.amend(command)

    async def install(self, packages: Packages) -> Installed:
        return await self._base.install(packages)

    async def provide(self, name: str, content: bytes) -> str:
        check_tool_name(name)
        head, _ = await self.line.ask({"do": "provide", "name": name}, content)
        with wire.understood():
            return str(head["path"])

    @asynccontextmanager
    async def candidate(self) -> AsyncIterator[Workspace]:
        opening = asyncio.ensure_future(self.line.ask({"do": "open"}))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            name, workspace = self._candidate(*await opening)
            await self._end(workspace, name)
            raise
        name, workspace = self._candidate(*opening.result())
        try:
            yield workspace
        finally:
            await asyncio.shield(self._end(workspace, name))

    def _candidate(self, head: Head, _: tuple[bytes, ...]) -> tuple[str, RemoteWorkspace]:
        with wire.understood():
            name = str(head["workspace"])
            return name, RemoteWorkspace(self, name, str(head["python"]))

    async def _end(self, workspace: RemoteWorkspace, name: str) -> None:
        await workspace.close()
        with suppress(SandboxLost):  # what is lost is closed, and must not hide why
            await self.line.ask({"do": "close", "workspace": name})

    async def prepare(self, workspace: str, packages: Packages) -> tuple[Installed, str]:
        """Install for one workspace. The way is open while packages are downloaded, which executes nothing, and after that
        only if they are not enough."""
        if packages.node and self._supply.no_node:
            raise InstallFailed(self._supply.no_node)
        asked = {"packages": wire.packages_to(packages), "workspace": workspace}
        head, _ = await self.line.ask({"do": "question", **asked})
        with wire.understood():
            question, wants = str(head["question"]), bool(head["wants"])
            if not wire.NAME.fullmatch(question):
                raise ValueError("not a name")
        if wants and not await keeping.fill(self.line, self._supply.cache, question):
            async with self.way.opened():
                fetched, _ = await self.line.ask({"do": "fetch", **asked}, seconds=PREPARING_SECONDS)
                if not fetched.get("whole"):
                    return await self._install(asked)
            if workspace == BASE:  # later, code that nobody vouches for has run beside them
                await keeping.keep(self.line, self._supply.cache, question)
        if packages.node:  # npm downloads as it installs, and runs no package's scripts
            async with self.way.opened():
                return await self._install(asked)
        await self.way.closed()
        try:
            return await self._install(asked)
        except InstallFailed:
            if not packages:
                raise
        async with self.way.opened():
            return await self._install(asked)

    async def _install(self, asked: Head) -> tuple[Installed, str]:
        head, _ = await self.line.ask({"do": "install", **asked}, seconds=PREPARING_SECONDS)
        with wire.understood():
            return wire.installed_from(head["installed"]), str(head["python"])
