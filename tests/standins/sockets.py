"""Real listening sockets for the stand-ins: an ASGI app on a port of 127.0.0.1, in this event loop or in one of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 1.0  # seconds for requests that are being answered when the server ends


class _Protocol(H11Protocol):
    """Remembers its transport, so that a connection can be cut in the middle of a request."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        _TRANSPORTS[transport.get_extra_info("peername")[:2]] = transport

    def connection_lost(self, exc: Exception | None) -> None:
        _TRANSPORTS.pop(self.transport.get_extra_info("peername")[:2], None)
        super().connection_lost(exc)


_TRANSPORTS: dict[tuple[str, int], Any] = {}


def reset_connection(scope: Scope) -> None:
    """Cut the connection that a request came over; its peer sees a TCP reset, unless it has gone by itself."""
    transport = _TRANSPORTS.get(tuple(scope["client"]))
    if transport is None:
        return
    linger = struct.pack("ii", 1, 0)
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.abort()


class _Server(uvicorn.Server):
    """Ends at once: uvicorn's own looks every tenth of a second whether it should, and waits as long for its connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ending = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield  # signals belong to the program that runs us

    async def main_loop(self) -> None:
        while not self.ending.is_set():
            await self.on_tick(0)  # the time of the answers
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.ending.wait(), 1.0)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        loop = asyncio.get_running_loop()
        latest = loop.time() + PATIENCE
        while (self.server_state.connections or self.server_state.tasks) and loop.time() < latest:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        for task in self.server_state.tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def listening(app: ASGIApp, port: int = 0) -> AsyncIterator[int]:
    """Serve an ASGI app on a port of 127.0.0.1 (0: any free one) while the context is open; yields the port."""
    # asyncio turns Nagle off only for sockets that say they are TCP; without it every answer waits 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        config = uvicorn.Config(app, http=_Protocol, lifespan="off", log_level="error", access_log=False)
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            while not server.started:
                if serving.done():
                    serving.result()
                await asyncio.sleep(0.005)
            yield listener.getsockname()[1]
        finally:
            server.ending.set()
            await serving


@contextlib.contextmanager
def listening_in_a_thread(app: ASGIApp, port: int = 0) -> Iterator[int]:
    """As `listening`, in a thread with its own event loop: for clients that block theirs."""
    ready: Future[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        stop = asyncio.Event()
        try:
            async with listening(app, port) as bound:
                ready.set_result((bound, asyncio.get_running_loop(), stop))
                await stop.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name="stand-in", daemon=True)
    thread.start()
    bound, loop, stop = ready.result(timeout=10)
    try:
        yield bound
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(timeout=10)


@contextlib.contextmanager
def silent() -> Iterator[socket.socket]:
    """A port of which no connection is ever answered, as behind a firewall that drops packets: its queue is full."""
    with socket.socket() as listener, socket.socket() as first:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        first.connect(listener.getsockname())
        yield listener
