"""The two sockets: API and git on one origin, downloads on the other, and what happens around every request."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.standins.github.auth import Tokens
from tests.standins.github.faults import ConnectionReset, Faults
from tests.standins.github.git_http import GitOverHttp
from tests.standins.github.routing import Actor, Answer, Call, Refusal, Routes, parse_query, serve
from tests.standins.github.state import World

Judge = Callable[[Call, Answer], list[str]]


class Api:
    """One request: admitted, struck by faults, served, judged and logged."""

    def __init__(self, world: World, tokens: Tokens, faults: Faults, routes: Routes, judge: Judge | None) -> None:
        self.world = world
        self.tokens = tokens
        self.faults = faults
        self.routes = routes
        self.judge = judge
        self.git = GitOverHttp(world, tokens)
        self.requests: list[str] = []
        self.violations: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if self.git.wants(scope["path"]):
            response = await self.git(request)
            self.requests.append(f"{request.method} {request.url.path} > {response.status_code}")
            await response(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in request.headers.items()}
        query = parse_query(request.url.query)
        call = Call(self.world, request.method, scope["path"], query, headers, await request.body())
        try:
            answer = await self._answer(call)
        except ConnectionReset:
            self.requests.append(f"{call.method} {call.path} > reset")
            reset_connection(scope)
            return
        self.requests.append(f"{call.method} {call.path} > {answer.status}")
        answer.headers = {
            "x-ratelimit-limit": "5000",
            "x-ratelimit-remaining": "4999",
            "x-ratelimit-used": "1",
            "x-ratelimit-reset": "4102444800",
            "x-ratelimit-resource": "core",
            "x-github-media-type": "github.v3; format=json",
        } | answer.headers
        await Response(answer.body, answer.status, answer.headers)(scope, receive, send)

    async def _answer(self, call: Call) -> Answer:
        await self.faults.run_hooks(call, "before")
        if (struck := await self.faults.before(call)) is not None:
            return struck
        try:
            call.actor = self.tokens.actor(call.headers.get("authorization"))
        except Refusal as refusal:
            call.actor = Actor()
            return refusal.answer()
        try:
            answer = await serve(self.routes, call)
        except Exception as error:
            self.violations.append(f"the stand-in failed at {call.method} {call.path}: {error!r}")
            raise
        if answer is None:
            self.violations.append(f"no route for {call.method} {call.path}")
            return Refusal(404, "Not Found").answer()
        if self.judge is not None:
            self.violations += [f"{call.method} {call.path} > {answer.status}: {wrong}" for wrong in self.judge(call, answer)]
        answer = self.faults.lagged(call, answer)
        await self.faults.run_hooks(call, "after")
        return await self.faults.after(call) or answer


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
    """Cut the connection that a request came over; its peer sees a TCP reset."""
    transport = _TRANSPORTS[tuple(scope["client"])]
    linger = struct.pack("ii", 1, 0)
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.abort()


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        yield  # signals belong to the program that runs us


@contextlib.asynccontextmanager
async def listening(app: ASGIApp, port: int = 0) -> AsyncIterator[int]:
    """Serve an ASGI app on a port of 127.0.0.1 (0: any free one) while the context is open; yields the port."""
    # asyncio turns Nagle off only for sockets that say they are TCP; without it every answer waits 40 ms.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        config = uvicorn.Config(
            app, http=_Protocol, lifespan="off", log_level="error", access_log=False, timeout_graceful_shutdown=1
        )
        server = _Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            while not server.started:
                if serving.done():
                    serving.result()
                await asyncio.sleep(0.005)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await serving
