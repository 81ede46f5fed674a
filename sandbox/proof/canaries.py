"""Canaries on the worker's side: files, variables, a process, sockets and shared memory that code without a sandbox would find.

Each contains a random token. The listeners also record connections, so that a way out is noticed even if the attack itself saw
no answer. Everything is removed when the block ends; if the worker is killed, everything except the files disappears with it.
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
LARGEST = 1 << 20  # bytes of a file that are compared
_READING_SECONDS = 10.0
_IPC_PRIVATE, _IPC_CREAT, _IPC_RMID = 0, 0o1000, 0
_RESOLVERS = Path("/etc/resolv.conf")


class FileMark(TypedDict):
    """Identifies a file by its content or its inode, because an attack may read a copy, and the file may change meanwhile."""

    digest: str  # SHA-256 of its first `LARGEST` bytes
    device: int
    inode: int


@dataclass(slots=True)
class Canaries:
    """`files`: path → its mark. `ports`: on 127.0.0.1. `segment`: id of System V shared memory."""

    token: str
    files: dict[str, FileMark]
    ports: list[int]
    abstract: str
    segment: int | None
    reached_by: list[str] = field(default_factory=list)  # kinds of connections that reached the listeners


@asynccontextmanager
async def planted(folders: Sequence[Path], files: Sequence[Path]) -> AsyncIterator[Canaries]:
    """Plant all canaries. Each writable folder of `folders` gets a canary file; `files` are existing secrets."""
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
            canaries.reached_by.append(kind)
            writer.close()

        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), came)

    loop = asyncio.get_running_loop()
    tcp = await loop.create_server(lambda: accept("tcp"), "127.0.0.1", 0)
    opened.callback(tcp.close)
    port = tcp.sockets[0].getsockname()[1]
    with suppress(OSError):  # another program may use this port for UDP
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
            self._canaries.reached_by.append("udp")


async def _process(token: str, opened: AsyncExitStack) -> None:
    """A process with the worker's uid and the token in its arguments and environment; ends when the worker ends in any way."""
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
        # Private where the folder is, as the worker's own files there.
        mode = 0o644 if path.parent.stat().st_mode & 0o077 else 0o600
        with open(path, "x", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(token)
    except OSError:  # a folder that the worker cannot write to contains none of its files
        yield
        return
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _marked(path: Path) -> dict[str, FileMark]:
    """The mark of a file that we can read; empty for any other. Blocks.

    Another process reads it, because closing a file releases all POSIX locks that the closing process has on it. The worker
    would lose SQLite's locks on its database, and the next process that closes the database would remove its WAL.
    """
    argv = ("head", "-c", str(LARGEST), "--", str(path.resolve()))
    try:
        content = subprocess.run(argv, capture_output=True, check=True, timeout=_READING_SECONDS).stdout
        about = path.stat()
    except (OSError, subprocess.SubprocessError):
        return {}
    mark = FileMark(digest=hashlib.sha256(content).hexdigest(), device=about.st_dev, inode=about.st_ino)
    return {str(path.resolve()): mark}


def _segment(opened: AsyncExitStack) -> int | None:
    """Shared memory marked for removal while the worker is attached: the kernel removes it when the worker detaches or ends."""
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
