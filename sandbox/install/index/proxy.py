"""An install step's only network access: an HTTP proxy on a Unix socket that reaches the allowed hosts and nothing else.

It runs in the worker. `CONNECT` is spliced (TLS stays between installer and index); plain `http://` requests are forwarded, one
per connection. Anything else gets 403 or 400 and is cut off.

It restricts names, not destinations. Only host and port of a `CONNECT` are visible: if a content network serves an allowed
name, TLS traffic may address another tenant of that network. The content is not visible either: a build can send what it can
read (the repository) to an allowed host.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from sandbox.install.backend import PROXY_FOLDER, SOCKET, InstallBackend
from sandbox.install.index import forwarder

HEAD_LIMIT = 64 * 1024  # bytes of a request's head
CONNECTIONS = 64
IDLE = 120.0  # seconds without a byte in either direction
CHUNK = 1 << 16


@asynccontextmanager
async def proxied(
    backend: InstallBackend, hosts: frozenset[str], python: str, argv: Sequence[str]
) -> AsyncIterator[tuple[str, ...]]:
    """`argv` with a proxy to `hosts` as its only network access; unchanged where commands have the network anyway.

    `python`, a path inside, runs the forwarder.
    """
    if backend.proxy_folder is None:
        yield tuple(argv)
        return
    async with IndexProxy(hosts).serve(backend.proxy_folder / SOCKET):
        folder = await backend.show(backend.proxy_folder, PROXY_FOLDER)
        script = await backend.show(Path(forwarder.__file__), "/installer/forwarder.py")
        yield (python, "-I", script, f"{folder}/{SOCKET}", *argv)


class IndexProxy:
    """Serves one install step. `refused` lists the hosts that were requested but not allowed."""

    def __init__(self, hosts: frozenset[str]) -> None:
        self._hosts = hosts
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._open: set[asyncio.Task[None]] = set()
        self.refused: set[str] = set()

    @asynccontextmanager
    async def serve(self, socket: Path) -> AsyncIterator[None]:
        """Listen at `socket` while the context is open."""
        # The path may exceed the length of a socket address: use the folder's descriptor.
        folder = os.open(socket.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            server = await asyncio.start_unix_server(self._accept, f"/proc/self/fd/{folder}/{socket.name}", limit=HEAD_LIMIT)
            os.chmod(socket.name, 0o666, dir_fd=folder)  # noqa: S103 - the uid inside differs
            try:
                yield
            finally:
                server.close()
                for task in (left := tuple(self._open)):
                    task.cancel()
                if left:
                    await asyncio.wait(left)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(socket.name, dir_fd=folder)
            os.close(folder)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            async with self._slots:
                await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # a broken client or index ends only its own connection
        finally:
            writer.close()
            self._open.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(IDLE):
            head = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = head.partition(b"\r\n")
        try:
            method, target, version = line.decode("ascii").split(" ")
            url = urlsplit(f"//{target}" if method == "CONNECT" else target)
            host, port = url.hostname, url.port or 80
        except ValueError:
            await _answer(writer, "400 Bad Request")
            return
        if not host or (method != "CONNECT" and url.scheme != "http"):
            await _answer(writer, "400 Bad Request")
            return
        if f"{host}:{port}" not in self._hosts:
            self.refused.add(f"{host}:{port}")
            await _answer(writer, "403 Forbidden")
            return
        try:
            async with asyncio.timeout(30.0):
                far_reader, far_writer = await asyncio.open_connection(host, port)
        except OSError:
            await _answer(writer, "502 Bad Gateway")
            return
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = (url.path or "/") + (f"?{url.query}" if url.query else "")
                far_writer.write(f"{method} {path} {version}\r\n".encode() + _closing(rest))
            # One clock for both directions: a connection that only receives is not idle.
            async with asyncio.timeout(IDLE) as idle, asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, far_writer, idle))
                both.create_task(_copy(far_reader, writer, idle))
        except* (OSError, TimeoutError):
            pass
        finally:
            far_writer.close()


def _closing(headers: bytes) -> bytes:
    """`headers` with `Connection: close`, so that every request is checked."""
    kept = [
        line
        for line in headers.split(b"\r\n")
        if line and not line.lower().startswith((b"connection:", b"proxy-connection:", b"proxy-authorization:"))
    ]
    return b"\r\n".join([*kept, b"Connection: close", b"", b""])


async def _answer(writer: asyncio.StreamWriter, status: str) -> None:
    writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    await writer.drain()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, idle: asyncio.Timeout) -> None:
    """Copy bytes to the end of `source`; each chunk extends `idle`."""
    while chunk := await source.read(CHUNK):
        sink.write(chunk)
        await sink.drain()
        if not idle.expired():
            idle.reschedule(asyncio.get_running_loop().time() + IDLE)
    with suppress(OSError):
        sink.write_eof()
