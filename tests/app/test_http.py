from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from app.http import LONGEST_HEAD, Http, _Joined
from tests.app.waiting import until

PIECE = 8 * 1024


async def length(scope: Scope, receive: Receive, send: Send) -> None:
    body = await Request(scope, receive).body()
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


async def test_an_answer_leaves_in_one_piece_and_a_long_one_is_not_held_back() -> None:
    sent: list[int] = []

    class Wire(asyncio.Transport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            sent.append(len(data))

        def close(self) -> None:
            sent.append(0)

    joined = _Joined(Wire(), asyncio.get_running_loop())
    joined.write(b"head")
    joined.write(b"body")
    assert sent == []
    await asyncio.sleep(0)
    assert sent == [8]
    joined.write(b"x" * 100_000)
    assert sent == [8, 100_000]
    joined.write(b"last")
    joined.close()
    await asyncio.sleep(0)
    assert sent == [8, 100_000, 4, 0]
