"""Which package index an install step may reach, and its only access to it: an HTTP proxy on a Unix socket.

The index comes from the package client's own configuration. The proxy runs in the worker and reaches the allowed hosts and
nothing else. `CONNECT` is spliced (TLS stays between installer and index); plain `http://` requests are forwarded, one per
connection. Anything else gets 403 or 400, and the connection is closed.

The proxy restricts host names, not destinations. It sees only host and port of a `CONNECT`: if a content delivery network
serves an allowed name, TLS traffic may address another tenant of that network. It does not see the content either: a build can
send what it can read (the repository) to an allowed host.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from urllib.parse import urlsplit

from sandbox.install import forwarder
from sandbox.install.backend import PROXY_FOLDER, SOCKET, InstallBackend
from sandbox.install.download import IndexStrategy
from sandbox.install.python.pip_configuration import configured_settings, indexes_of, public_files, public_index

PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class IndexAccess:
    """`urls` are for the installer in the sandbox, first the one that takes precedence.

    `hosts` ("name:port") are the hosts that the proxy lets it reach.
    """

    urls: tuple[str, ...]
    hosts: frozenset[str]
    certificates: Path | None = None


class LazyIndexAccess:
    """The result of `configured`, determined on first use, because asking pip is slow and most attempts never need it."""

    def __init__(self, hosts: Sequence[str] = (), strategy: IndexStrategy = "first") -> None:
        self._hosts, self._strategy = hosts, strategy
        self._access: IndexAccess | None = None
        self._lock = asyncio.Lock()

    async def access(self) -> IndexAccess:
        async with self._lock:  # several jobs may ask at once
            if self._access is None:
                self._access = await configured(self._hosts, self._strategy)
        return self._access


async def configured(hosts: Sequence[str] = (), strategy: IndexStrategy = "first") -> IndexAccess:
    """The access that pip's configuration names, or pip's default index. The operator's `hosts` take precedence.

    An index URL with a password is used only outside the sandbox: no secret enters a sandbox. If the first index that has a
    project provides it, the indexes after such a URL are not used inside either: they could replace its projects.
    """
    settings = await configured_settings()
    found = indexes_of(settings)
    urls = tuple(takewhile(is_usable_inside, found) if strategy == "first" else filter(is_usable_inside, found))
    derived = {host_of(url) for url in urls}
    if any(url.rstrip("/") == public_index() for url in urls):
        derived.add(f"{public_files()}:{PORTS['https']}")
    named = frozenset(host if ":" in host else f"{host}:{PORTS['https']}" for host in hosts)
    return IndexAccess(urls, named or frozenset(derived), certificates_here(settings.get("cert")))


def host_of(url: str) -> str:
    """`https://a.example/simple` → `a.example:443`."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or PORTS.get(parts.scheme, 443)}"


def is_usable_inside(url: str) -> bool:
    """Whether an installer in the sandbox can use an index: over HTTP and without a password."""
    parts = urlsplit(url)
    return parts.scheme in PORTS and bool(parts.hostname) and "@" not in parts.netloc


def certificates_here(configured_path: str | None = None) -> Path | None:
    """The file with this machine's certificates, or the one that a client's configuration names."""
    for path in (configured_path, os.environ.get("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt"):
        if path and Path(path).is_file():
            return Path(path)
    return None


HEAD_LIMIT = 64 * 1024  # bytes of a request's head
CONNECTIONS = 64
IDLE = 120.0  # seconds without a byte in either direction
CHUNK = 1 << 16


@asynccontextmanager
async def proxied(
    backend: InstallBackend, hosts: frozenset[str], python: str, argv: Sequence[str]
) -> AsyncIterator[tuple[str, ...]]:
    """`argv` with a proxy to `hosts` as its only network access; unchanged if commands have network access anyway.

    `python`, a path in the sandbox, runs the forwarder.
    """
    if backend.proxy_folder is None:
        yield tuple(argv)
        return
    async with IndexProxy(hosts).serve(backend.proxy_folder / SOCKET):
        folder = await backend.show(backend.proxy_folder, PROXY_FOLDER)
        script = await backend.show(Path(forwarder.__file__), "/installer/forwarder.py")
        yield (python, "-I", script, f"{folder}/{SOCKET}", *argv)


class IndexProxy:
    """Serves one install step."""

    def __init__(self, hosts: frozenset[str]) -> None:
        self._hosts = hosts
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._open: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serve(self, socket: Path) -> AsyncIterator[None]:
        """Listen at `socket` while the context is open."""
        # The path may be too long for a socket address, so use the folder's descriptor.
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
        except asyncio.CancelledError:
            pass  # only the end of the proxy cancels it, and asyncio would log that as an error
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
    """`headers` with `Connection: close`: each request needs its own connection, so each is checked."""
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
