"""The way out of an install step, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from sandbox.install import package_index
from sandbox.install.package_index import IndexProxy


@asynccontextmanager
async def far_server() -> AsyncIterator[tuple[str, list[bytes]]]:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", heard


async def ask(socket: Path, request: str) -> bytes:
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(request.encode())
    await writer.drain()
    async with asyncio.timeout(10):
        answer = await reader.read(-1)
    writer.close()
    return answer


async def test_an_allowed_host_is_reached_by_a_plain_request(tmp_path: Path) -> None:
    async with far_server() as (host, heard), IndexProxy(frozenset({host})).serve(tmp_path / "s"):
        request = f"GET http://{host}/simple/?a=b HTTP/1.1\r\nHost: {host}\r\nProxy-Authorization: x\r\n"
        request += "Connection: keep-alive\r\n\r\n"
        assert (await ask(tmp_path / "s", request)).endswith(b"hello")
        assert heard == [f"GET /simple/?a=b HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()]


async def test_an_allowed_host_is_reached_by_connect(tmp_path: Path) -> None:
    async with far_server() as (host, heard), IndexProxy(frozenset({host})).serve(tmp_path / "s"):
        answer = await ask(tmp_path / "s", f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\nGET / HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\n")
        assert answer.endswith(b"hello")
        assert heard == [b"GET / HTTP/1.1\r\n\r\n"]


@pytest.mark.parametrize(
    "method", ["CONNECT {}", "GET http://{}/", "GET http://allowed.invalid:1@{}/", "CONNECT allowed.invalid:1@{}"]
)
async def test_another_host_is_refused(method: str, tmp_path: Path) -> None:
    proxy = IndexProxy(frozenset({"allowed.invalid:1", "127.0.0.1:1"}))
    async with far_server() as (host, heard), proxy.serve(tmp_path / "s"):
        answer = await ask(tmp_path / "s", f"{method.format(host)} HTTP/1.1\r\nHost: allowed.invalid:1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert heard == []


@pytest.mark.parametrize(
    "request_",
    [
        "nonsense\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET file:///etc/passwd HTTP/1.1\r\n\r\n",
        "CONNECT h:99999 HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_proxy_request_is_refused(request_: str, tmp_path: Path) -> None:
    async with IndexProxy(frozenset()).serve(tmp_path / "s"):
        assert (await ask(tmp_path / "s", request_)).startswith(b"HTTP/1.1 400 Bad Request\r\n")


async def test_an_endless_head_is_cut_off(tmp_path: Path) -> None:
    async with IndexProxy(frozenset()).serve(tmp_path / "s"):
        with suppress(ConnectionError):
            assert await ask(tmp_path / "s", "GET http://x/ HTTP/1.1\r\nA: " + "a" * 300_000) == b""


async def test_an_allowed_host_that_is_down_is_a_bad_gateway(tmp_path: Path) -> None:
    async with IndexProxy(frozenset({"127.0.0.1:1"})).serve(tmp_path / "s"):
        assert (await ask(tmp_path / "s", "CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 502")


async def test_nothing_is_left_when_it_closes_even_with_an_open_connection(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)  # longer than a socket address may be
    folder.mkdir()
    async with far_server() as (host, _):
        async with IndexProxy(frozenset({host})).serve(folder / "s"):
            (tmp_path / "l").symlink_to(folder)
            reader, writer = await asyncio.open_unix_connection(tmp_path / "l" / "s")
            writer.write(f"CONNECT {host} HTTP/1.1\r\n\r\n".encode())
            assert await reader.readuntil(b"\r\n\r\n")
        assert not list(folder.iterdir())
        async with asyncio.timeout(10):
            assert await reader.read(-1) == b""
        writer.close()


@asynccontextmanager
async def drop_by_drop(drops: int, pause: float) -> AsyncIterator[str]:
    """A server that says one byte at a time, and nothing at all with no drops."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(drops):
            writer.write(b".")
            await writer.drain()
            await asyncio.sleep(pause)
        if drops:
            writer.write_eof()
        await reader.read(-1)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_who_only_receives_is_not_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_index, "IDLE", 0.8)
    async with drop_by_drop(16, 0.1) as host, IndexProxy(frozenset({host})).serve(tmp_path / "s"):
        answer = await ask(tmp_path / "s", f"CONNECT {host} HTTP/1.1\r\n\r\n")
    assert answer.endswith(b"." * 16)


async def test_a_connection_on_which_nobody_speaks_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_index, "IDLE", 0.2)
    async with drop_by_drop(0, 0) as host, IndexProxy(frozenset({host})).serve(tmp_path / "s"):
        answer = await ask(tmp_path / "s", f"CONNECT {host} HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")


async def test_the_public_index_brings_its_host_of_files_also_with_a_slash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    hosts = set[frozenset[str]]()
    for slash in ("", "/"):
        monkeypatch.setenv("PIP_INDEX_URL", package_index.public_index() + slash)
        hosts.add((await package_index.configured()).hosts)
    assert len(hosts) == 1
    assert any(package_index.public_files() in host for host in hosts.pop())
