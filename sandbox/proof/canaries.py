"""What is planted on the worker's side before the attacks: things that are easy to find for whoever is not shut in.

Each carries a random token. The listeners also tell who came, so that a way out is known even where the attack itself
did not see an answer. Everything is gone when the block ends, and with the worker when it is killed.
"""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import TypedDict

VARIABLE = "SELFHEAL_TEST_CANARY"
LARGEST = 1 << 20  # bytes of a file that is compared
_READING_SECONDS = 10.0
_IPC_PRIVATE, _IPC_CREAT, _IPC_RMID = 0, 0o1000, 0
_RESOLVERS = Path("/etc/resolv.conf")


class Mark(TypedDict):
    """A file may be read as a copy, and may change while the attacks run: its content or its place tells that it is ours."""

    digest: str  # SHA-256 of its first `LARGEST` bytes
    device: int
    inode: int


@dataclass(slots=True)
class Canaries:
    """`files`: path → what tells it from a namesake. `ports`: on 127.0.0.1. `segment`: id of System V shared memory."""

    token: str
    files: dict[str, Mark]
    ports: list[int]
    abstract: str
    segment: int | None
    came: list[str] = field(default_factory=list)  # what reached us from wherever it may not


@asynccontextmanager
async def planted(folders: Sequence[Path], files: Sequence[Path]) -> AsyncIterator[Canaries]:
    """`folders` get a canary file each where they can be written; `files` are secrets that are there already."""
    token = token_hex(12)
    async with AsyncExitStack() as opened:
        canaries = Canaries(token, {}, [], f"selfheal-{token}", _segment(opened))
        for folder in folders:
            opened.enter_context(_file(folder / f".canary-{token}", token))
            canaries.files |= await asyncio.to_thread(_marked, folder / f".canary-{token}")
        for file in files:
            canaries.files |= await asyncio.to_thread(_marked, file)
        opened.enter_context(_variable(token))
        await _listen(canaries, opened)
        await _process(token, opened)
        yield canaries


def resolvers() -> list[str]:
    """Addresses of this machine's name servers."""
    try:
        words = [line.split() for line in _RESOLVERS.read_text(errors="replace").splitlines()]
    except OSError:
        return []
    return [word[1].partition("%")[0] for word in words if len(word) > 1 and word[0] == "nameserver"]


def cgroup_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/cgroup")
    except OSError:
        return ""


async def _listen(canaries: Canaries, opened: AsyncExitStack) -> None:
    def accept(kind: str) -> asyncio.StreamReaderProtocol:
        async def came(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            canaries.came.append(kind)
            writer.close()

        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), came)

    loop = asyncio.get_running_loop()
    tcp = await loop.create_server(lambda: accept("tcp"), "127.0.0.1", 0)
    opened.callback(tcp.close)
    port = tcp.sockets[0].getsockname()[1]
    with suppress(OSError):  # somebody else's datagrams may have this number
        udp, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(canaries), local_addr=("127.0.0.1", port))
        opened.callback(udp.close)
    canaries.ports.append(port)
    abstract = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    abstract.bind(f"\0{canaries.abstract}")
    server = await loop.create_unix_server(lambda: accept("unix"), sock=abstract)
    opened.callback(server.close)


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, canaries: Canaries) -> None:
        self._canaries = canaries

    def datagram_received(self, data: bytes, _: object) -> None:
        if data == self._canaries.token.encode():
            self._canaries.came.append("udp")


async def _process(token: str, opened: AsyncExitStack) -> None:
    """A process of the worker's own uid whose arguments and environment carry the token; ends with us, however we end."""
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", "read -r _", token, stdin=asyncio.subprocess.PIPE, env={VARIABLE: token}
    )

    async def end() -> None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    opened.push_async_callback(end)


@contextmanager
def _variable(token: str) -> Iterator[None]:
    os.environ[VARIABLE] = token
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)


@contextmanager
def _file(path: Path, token: str) -> Iterator[None]:
    try:
        path.write_text(token)
    except OSError:  # nothing of ours can be there, so nothing of ours can be read there
        yield
        return
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _marked(path: Path) -> dict[str, Mark]:
    """Of a file that we may read; empty for any other. Blocks.

    Another process reads it. Whoever closes a file, wherever in a process, lets go of all locks (POSIX) that this process has
    on it: the worker would lose those that SQLite has on its database, and the next to close that would take its WAL away.
    """
    argv = ("head", "-c", str(LARGEST), "--", str(path.resolve()))
    try:
        content = subprocess.run(argv, capture_output=True, check=True, timeout=_READING_SECONDS).stdout
        about = path.stat()
    except (OSError, subprocess.SubprocessError):
        return {}
    mark = Mark(digest=hashlib.sha256(content).hexdigest(), device=about.st_dev, inode=about.st_ino)
    return {str(path.resolve()): mark}


def _segment(opened: AsyncExitStack) -> int | None:
    """Marked for removal while we are attached: the kernel drops it with us, and lists it as long."""
    libc = ctypes.CDLL(None)
    libc.shmat.restype, libc.shmat.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
    libc.shmdt.argtypes = (ctypes.c_void_p,)
    segment = int(libc.shmget(_IPC_PRIVATE, ctypes.c_size_t(4096), _IPC_CREAT | 0o600))
    if segment < 0:
        return None
    address = libc.shmat(segment, None, 0)
    libc.shmctl(segment, _IPC_RMID, None)
    if address in (None, ctypes.c_void_p(-1).value):
        return None
    opened.callback(libc.shmdt, address)
    return segment
