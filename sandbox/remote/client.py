"""This side of a remote sandbox: every operation is a request to `sandbox.remote.server` on a machine.

Each request has a name. After a lost connection the client repeats it under the same name until the answer arrives or time is
up; the server does the work once. The provider is abstract: a `Machine` runs one short command and takes and returns files.
"""

from __future__ import annotations

import asyncio
import base64
import shlex
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import asdict, dataclass
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
from sandbox.host.running_commands import RunningCommands
from sandbox.host.tree import check_tool_name, parts_of
from sandbox.install.backend import INSTALL_SECONDS
from sandbox.remote import wheel_cache, wire
from sandbox.remote.wire import BASE, FRAME, Head

SECONDS = 60.0  # of a request that runs no repository code
ARCHIVE_SECONDS = 300.0
PREPARING_SECONDS = 3 * INSTALL_SECONDS  # an install step is several commands
GRACE = 30.0  # for the connection; the server enforces command timeouts
ANSWER = 64 * MIB  # bytes of an answer without a tighter limit
SLOWEST = MIB  # bytes per second of a usable connection
MESSENGER = f"{wire.HOME}/code/sandbox/remote/messenger.py"


class Machine(Protocol):
    """The machine that the server runs on."""

    async def put(self, path: str, content: bytes | IO[bytes], seconds: float) -> None:
        """Write a file. Raises `SandboxError`."""

    async def get(self, path: str, limit: int, seconds: float) -> bytes | None:
        """Read a file of at most `limit` bytes; None if it does not exist. Raises `SandboxError`."""

    async def run(self, script: str, seconds: float) -> bytes:
        """Run a short command of ours; returns its output, possibly incomplete. Raises `SandboxError`."""


class NetworkGate(Protocol):
    """Opens the machine's access to the package index, which is closed except during installs."""

    def opened(self) -> AbstractAsyncContextManager[None]: ...

    async def closed(self) -> None:
        """Ensure that access is closed. Raises `SandboxError` if it is not: nothing may run then."""


class Client:
    """Sends requests to the server on a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def upload(self, content: bytes | IO[bytes], seconds: float) -> str:
        """Upload a file; returns its name, for a request that refers to it."""
        name = token_hex(16)
        await self._machine.put(f"{wire.REQUESTS}/{name}", content, seconds)
        return name

    async def request(
        self, head: Head, *blobs: bytes, seconds: float = SECONDS, longest: int = ANSWER
    ) -> tuple[Head, tuple[bytes, ...]]:
        """`seconds` limits the work, `longest` the bytes of the answer. Raises the server's error, or `SandboxLost`."""
        name, question = token_hex(16), wire.pack(head, *blobs)
        inline = base64.b64encode(question).decode() if len(question) <= wire.INLINE else ""
        if not inline:
            await self._machine.put(f"{wire.REQUESTS}/{name}", question, seconds + GRACE)
        until = time.monotonic() + seconds + GRACE
        while (left := until - time.monotonic()) > 0:
            script = shlex.join((wire.INTERPRETER, "-I", "-S", MESSENGER, wire.SOCKET, name, inline))
            output = await self._machine.run(script, left)
            answer = _inline_answer(output) or await self._machine.get(f"{wire.ANSWERS}/{name}", longest, max(left, GRACE))
            if answer is not None:
                with wire.reading_answer():
                    answered, content = wire.unpack(answer)
                    failure = wire.error_from(answered, content)
                if failure is not None:
                    raise failure
                return answered, content
            if output.startswith(b"no server"):
                break
            await asyncio.sleep(0.5)  # the connection was lost before the server got the request
        raise SandboxLost(f"the sandbox no longer answers ({head['do']})")


def _inline_answer(output: bytes) -> bytes | None:
    """The answer from the messenger's output; None if it is missing or incomplete."""
    size, _, packed = output.partition(b" ")
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
        self._sandbox, self._client, self._name = sandbox, sandbox.client, name
        self.root, self.python = sandbox.root, python
        self._open = True
        self._running = RunningCommands()

    async def run(self, command: Command) -> Completed:
        if command.cwd not in ("", "."):
            parts_of(command.cwd)
        return await self._running.run(command.argv, self._run(command, "run"))

    async def amend(self, command: Command) -> Completed:
        """Run a command that may change the base."""
        return await self._running.run(command.argv, self._run(command, "amend"))

    async def _run(self, command: Command, do: str) -> Completed:
        request = {"do": do, "workspace": self._name, "command": wire.command_to(command)}
        try:
            await self._sandbox.gate.closed()
            longest = 2 * command.output_limit + FRAME
            head, blobs = await self._client.request(request, command.stdin, seconds=command.timeout + GRACE, longest=longest)
            with wire.reading_answer():
                return wire.completed_from(head, blobs)
        except SandboxLost as lost:
            raise SandboxLost(lost.reason, command.argv) from lost

    async def read(self, path: str, limit: int = 16 * MIB) -> bytes:
        parts_of(path)
        request = {"do": "read", "path": path, "limit": limit, "workspace": self._name}
        self._check_open()
        _, blobs = await self._client.request(request, seconds=SECONDS + limit / SLOWEST, longest=limit + FRAME)
        with wire.reading_answer():
            (content,) = blobs
        return content

    async def write(self, path: str, content: bytes, *, executable: bool | None = None) -> None:
        parts_of(path)
        request = {"do": "write", "path": path, "executable": executable, "workspace": self._name}
        self._check_open()
        await self._client.request(request, content, seconds=SECONDS + len(content) / SLOWEST)

    async def remove(self, path: str) -> None:
        parts_of(path)
        await self._ask({"do": "remove", "path": path})

    async def files(self) -> tuple[Entry, ...]:
        _, blobs = await self._ask({"do": "files"})
        with wire.reading_answer():
            return wire.entries_from(*blobs)

    async def install(self, packages: Packages) -> Installed:
        installed, self.python = await self._sandbox.prepare(self._name, packages)
        return installed

    async def close(self) -> None:
        """Cancel running commands."""
        self._open = False
        await self._running.cancel_all()

    async def _ask(self, head: Head) -> tuple[Head, tuple[bytes, ...]]:
        self._check_open()
        return await self._client.request({**head, "workspace": self._name})

    def _check_open(self) -> None:
        if not self._open:
            raise SandboxLost("the workspace is closed")


@dataclass(frozen=True, slots=True)
class PackageSupply:
    """Where packages come from: network access, cached wheels on this side, and why npm is missing, if it is."""

    gate: NetworkGate
    cache: Path
    no_node: str = ""


class RemoteSandbox:
    """One sandbox on another machine."""

    def __init__(self, client: Client, hello: Head, isolation: Isolation, supply: PackageSupply) -> None:
        self.client, self.isolation, self.gate, self._supply = client, isolation, supply.gate, supply
        with wire.reading_answer():
            self.root = str(hello["root"])
            self._base = RemoteWorkspace(self, BASE, str(hello["python"]))

    @property
    def base(self) -> RemoteWorkspace:
        return self._base

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        """Upload the archive; the server checks it."""
        bound = ArchiveLimits().packed
        with tempfile.TemporaryFile() as packed:
            async for chunk in archive:
                if packed.tell() + len(chunk) > bound:
                    raise UnsafeArchive(f"the archive is larger than {bound // MIB} MiB")
                await asyncio.to_thread(packed.write, chunk)
            name = await self.client.upload(packed, ARCHIVE_SECONDS)
        await self.client.request({"do": "unpack", "file": name}, seconds=ARCHIVE_SECONDS)

    async def amend(self, command: Command) -> Completed:
        return await self._base.amend(command)

    async def install(self, packages: Packages) -> Installed:
        return await self._base.install(packages)

    async def provide(self, name: str, content: bytes) -> str:
        check_tool_name(name)
        head, _ = await self.client.request({"do": "provide", "name": name}, content)
        with wire.reading_answer():
            return str(head["path"])

    @asynccontextmanager
    async def candidate(self) -> AsyncIterator[Workspace]:
        opening = asyncio.ensure_future(self.client.request({"do": "open"}))
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
        with wire.reading_answer():
            name = str(head["workspace"])
            return name, RemoteWorkspace(self, name, str(head["python"]))

    async def _end(self, workspace: RemoteWorkspace, name: str) -> None:
        await workspace.close()
        with suppress(SandboxLost):  # a lost machine is closed too; keep the original error
            await self.client.request({"do": "close", "workspace": name})

    async def prepare(self, workspace: str, packages: Packages) -> tuple[Installed, str]:
        """Install for one workspace; opens the network to download wheels, which executes nothing, and later only if needed."""
        if packages.node and self._supply.no_node:
            raise InstallFailed(self._supply.no_node)
        request = {"packages": asdict(packages), "workspace": workspace}
        head, _ = await self.client.request({"do": "question", **request})
        with wire.reading_answer():
            question, wants = str(head["question"]), bool(head["wants"])
            if not wire.NAME.fullmatch(question):
                raise ValueError("not a name")
        if wants and not await wheel_cache.fill(self.client, self._supply.cache, question):
            async with self.gate.opened():
                fetched, _ = await self.client.request({"do": "fetch", **request}, seconds=PREPARING_SECONDS)
                if not fetched.get("whole"):
                    return await self._install(request)
            if workspace == BASE:  # later, untrusted code has run on the machine
                await wheel_cache.keep(self.client, self._supply.cache, question)
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

    async def _install(self, request: Head) -> tuple[Installed, str]:
        head, _ = await self.client.request({"do": "install", **request}, seconds=PREPARING_SECONDS)
        with wire.reading_answer():
            return wire.installed_from(head["installed"]), str(head["python"])
