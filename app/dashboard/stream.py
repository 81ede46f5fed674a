"""Server-sent events: writing a stream, resuming it, and dropping slow readers.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import NamedTuple

from fastapi import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Send

from app.dashboard.feed import Feed, TooManyFollowers, Update

PATIENCE = 30.0  # seconds that a reader may take to accept a message
_RETRY = 1000  # milliseconds until a browser reconnects
_HIGHEST = 2**53
_ID = re.compile(r"([0-9]{1,16})(?:\.([0-9]{1,16}))?")  # of a message: a `Position`

Write = Callable[[Update], Awaitable[bytes]]


class Position(NamedTuple):
    """A reader's position: the newest event that it has, and the newest event in its last snapshot."""

    after: int
    since: int

    def __str__(self) -> str:
        return str(self.after) if self.after == self.since else f"{self.after}.{self.since}"


def message(data: str, *, event: str = "", id_: Position | None = None) -> bytes:
    """Format one message."""
    lines = [*([f"id: {id_}"] if id_ is not None else []), *([f"event: {event}"] if event else [])]
    # Split data at every line end that the format knows, and at no other.
    data = data.replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join([*lines, *(f"data: {line}" for line in data.split("\n")), "", ""]).encode()


def position_of(request: Request, after: int = 0, since: int = _HIGHEST) -> Position:
    """The reader's position: `Last-Event-ID` if its browser reconnects, else `after` and `since`."""
    if known := _ID.fullmatch(request.headers.get("last-event-id", "")):
        after, since = int(known[1]), int(known[2] or known[1])
    return Position(min(after, _HIGHEST), min(since, after, _HIGHEST))


async def stream(feed: Feed, attempt_id: str, seen: Position, write: Write) -> Response:
    """Stream the attempt's updates, each formatted by `write`, and a message `end` when the attempt has ended."""
    try:
        feed.admit()
    except TooManyFollowers as crowded:
        return Response(f"{crowded}\n", 503, {"retry-after": str(crowded.retry_after)}, "text/plain")
    return _Stream(_written(feed, attempt_id, seen, write))


async def _written(feed: Feed, attempt_id: str, seen: Position, write: Write) -> AsyncGenerator[bytes, None]:
    yield f"retry: {_RETRY}\n\n".encode()
    async with contextlib.aclosing(feed.follow(attempt_id, *seen)) as following:
        async for update in following:
            if update is None:
                yield b": still here\n\n"
                continue
            if update.events or update.snapshot is not None:
                yield await write(update)
            if update.snapshot is not None and update.snapshot.is_last:
                yield message("", event="end")


class _Stream(StreamingResponse):
    """Disconnects a reader that does not accept a message in time."""

    media_type = "text/event-stream"

    def __init__(self, content: AsyncGenerator[bytes, None]) -> None:
        super().__init__(content, headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        self._content = content

    async def stream_response(self, send: Send) -> None:
        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(PATIENCE):
                await send(message)

        with contextlib.suppress(TimeoutError):  # ends the connection
            async with contextlib.aclosing(self._content):  # frees the follower's slot immediately
                await super().stream_response(send_in_time)
