from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from app.service.http import LONGEST_HEAD, Http
from tests.app.waiting import until

PIECE = 8 * 1024


async def length(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/slow":
        await asyncio.sleep(1)
    body = b"" if scope["path"] == "/at-once" else await Request(scope, receive).body()
    await PlainTextResponse(str(len(body)))(scope, receive, send)


@pytest.fixture
async def port() -> AsyncIterator[int]:
    server = uvicorn.Server(uvicorn.Config(length, http=Http, ws="none", lifespan="off", log_config=None, port=0))
    serving = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving


async def answer(port: int, beginning: bytes, pieces: int, piece: bytes, end: bytes = b"") -> bytes:
    """What is answered to so many pieces, or before all of them were sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(beginning)
        for _ in range(pieces):
            writer.write(piece)
            await asyncio.wait_for(writer.drain(), 10)
            await asyncio.sleep(0)  # each for itself
        writer.write(end)
        return await asyncio.wait_for(reader.read(4096), 10)
    except ConnectionError:  # it hung up while we still wrote
        return b""
    finally:
        writer.close()


async def everything(port: int, reads: list[bytes]) -> bytes:
    """What is answered until it hangs up, each piece sent when the one before must have been read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for read in reads:
            writer.write(read)
            await asyncio.sleep(0.2)
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        (b"POST / HTTP/1.1\r\n", b"X-More: %b\r\n" % (b"x" * PIECE)),
        (b"POST / HTTP/1.1\r\nX-Long: ", b"x" * PIECE),
        (b"POST /", b"x" * PIECE),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", b"X-More: %b\r\n" % (b"x" * PIECE)),
    ],
    ids=["many headers", "one long header", "a long path", "what follows the body"],
)
async def test_a_head_without_end_is_refused_and_not_kept(port: int, beginning: bytes, piece: bytes) -> None:
    told = await answer(port, beginning, 1000, piece)
    assert told == b"" or told.startswith(b"HTTP/1.1 400")


async def test_a_long_body_is_no_head(port: int) -> None:
    pieces = 4 * LONGEST_HEAD // PIECE
    head = b"POST / HTTP/1.1\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (pieces * PIECE)
    assert (await answer(port, head, pieces, b"x" * PIECE)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("announced", [b"Content-Length: %d", b"Transfer-Encoding: chunked"], ids=["length", "chunked"])
@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize("method", [b"POST", b"GET", b"CONNECT"])
async def test_an_upgrade_with_a_body_is_refused_and_its_body_is_no_request(
    port: int, announced: bytes, pieces: int, method: bytes
) -> None:
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    announced = announced.replace(b"%d", b"%d" % len(smuggled))
    head = b"%b / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n%b\r\n\r\n" % (method, announced)
    told = await everything(port, [head + smuggled] if pieces == 1 else [head, smuggled])
    assert told.startswith(b"HTTP/1.1 400")
    assert told.count(b"HTTP/1.1 ") == 1, "one answer, and then the end"


async def test_an_upgrade_without_a_body_is_answered_as_if_it_had_not_asked(port: int) -> None:
    for more in (b"", b"Content-Length: 0\r\n"):
        asked = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n%b\r\n" % more
        assert (await answer(port, asked, 0, b"")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHo",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HT",
        b"GET /at-once HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
    ],
    ids=["nothing", "half a head", "half a second head", "a body after its answer"],
)
async def test_what_is_no_whole_head_is_not_waited_for_without_end(
    port: int, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.service.http.HEAD_SECONDS", 0.5)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        await asyncio.sleep(0.1)
        writer.write(b"\r" if not sent else b"x")  # ends uvicorn's own wait for the next request
        told = await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()
    assert told.count(b"HTTP/1.1 200") == sent.count(b"\r\n\r\n")


async def test_a_slow_answer_is_no_slow_head(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.service.http.HEAD_SECONDS", 0.2)
    told = await answer(port, b"GET /slow HTTP/1.1\r\nConnection: close\r\n\r\n", 0, b"")
    assert told.startswith(b"HTTP/1.1 200")
