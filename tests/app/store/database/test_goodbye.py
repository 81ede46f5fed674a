"""A PostgreSQL server that shuts down while a connection is idle: the driver only notices with the next statement."""

from __future__ import annotations

import struct
from asyncio import StreamReader, StreamWriter, start_server
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import text

from app.store.database import postgres
from app.store.database.address import Postgres, read
from app.store.database.retries import is_transient


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body


_READY = _message(b"Z", b"I")
_WELCOME = _message(b"R", struct.pack("!I", 0)) + _message(b"S", b"server_version\x0016.1\0") + _READY
_DONE = _message(b"C", b"SET\0") + _READY
_GOODBYE = _message(b"E", b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0")


@asynccontextmanager
async def leaving(after: int) -> AsyncIterator[Postgres]:
    """A server that answers `after` statements of a connection, and then says goodbye without being asked."""

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        (length,) = struct.unpack("!I", await reader.readexactly(4))
        await reader.readexactly(length - 4)
        writer.write(_WELCOME)
        for _ in range(after):
            await reader.read(4096)
            writer.write(_DONE)
        writer.write(_GOODBYE)
        await reader.read()  # until the client leaves
        writer.close()

    server = await start_server(serve, "127.0.0.1", 0)
    async with server:
        address = read(f"postgresql://u:p@127.0.0.1:{server.sockets[0].getsockname()[1]}/d?sslmode=disable")
        assert isinstance(address, Postgres)
        yield address


@pytest.mark.parametrize("after", [0, 1], ids=["while its session begins", "before the first statement"])
async def test_it_is_tried_again(after: int) -> None:
    async with leaving(after) as address:
        engine = postgres.pool(address)
        with pytest.raises(Exception, match=r".") as raised:
            async with engine.connect() as connection:
                await connection.execute(text("SELECT 1"))
        await engine.dispose()
    assert is_transient(raised.value), repr(raised.value)
