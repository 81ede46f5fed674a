"""Server-sent events: how a stream is written, where it goes on, and when a reader is given up.

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

from app.dashboard.feed import Crowded, Feed, News

PATIENCE = 30.0  # seconds in which a reader has to take what was sent
_RETRY = 1000  # milliseconds until a browser comes again
_HIGHEST = 2**53
_ID = re.compile(r"([0-9]{1,16})(?:\.([0-9]{1,16}))?")  # of a message: a `Seen`

Write = Callable[[News], Awaitable[bytes]]


class Seen(NamedTuple):
    """A reader's place: the newest event that it has, and the one where it was last told how the attempt stands."""

    after: int
    since: int

    def __str__(self) -> str:
        return str(self.after) if self.after == self.since else f"{self.after}.{self.since}"


def message(data: str, *, event: str = "", id_: Seen | None = None) -> bytes:
    """One message of a stream."""
    lines = [*([f"id: {id_}"] if id_ is not None else []), *([f"event: {event}"] if event else [])]
    # Every end of line that the format knows, and no other, divides data.
    data = data.replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join([*lines, *(f"data: {line}" for line in data.split("\n")), "", ""]).encode()


def place(request: Request, after: int = 0, since: int = _HIGHEST) -> Seen:
    """Where the reader is: its browser's `Last-Event-ID` says so where it comes again, else `after` and `since`."""
    if known := _ID.fullmatch(request.headers.get("last-event-id", "")):
        after, since = int(known[1]), int(known[2] or known[1])
    return Seen(min(after, _HIGHEST), min(since, after, _HIGHEST))


async def stream(feed: Feed, attempt_id: str, seen: Seen, write: Write) -> Response:
    """The attempt's news as they come, each written by `write`; ends with a message `end` when the attempt has ended."""
    try:
        feed.admit()
    except Crowded as crowded:
        return Response(f"{crowded}\n", 503, {"retry-after": str(crowded.retry_after)}, "text/plain")
    return _Stream(_written(feed, attempt_id, seen, write))


async def _written(feed: Feed, attempt_id: str, seen: Seen, write: Write) -> AsyncGenerator[bytes, None]:
    yield f"retry: {_RETRY}\n\n".encode()
    async with contextlib.aclosing(feed.follow(attempt_id, *seen)) as following:
        async for news in following:
            if news is None:
                yield b": still here\n\n"
                continue
            if news.events or news.moment is not None:
                yield await write(news)
            if news.moment is not None and news.moment.is_last:
                yield message("", event="end")


class _Stream(StreamingResponse):
    """Gives up a reader who takes nothing."""

    media_type = "text/event-stream"

    def __init__(self, content: AsyncGenerator[bytes, None]) -> None:
        super().__init__(content, headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        self._content = content

    async def stream_response(self, send: Send) -> None:
        async def patiently(message: Message) -> None:
            async with asyncio.timeout(PATIENCE):
                await send(message)

        with contextlib.suppress(TimeoutError):  # the connection ends by that
            async with contextlib.aclosing(self._content):  # whose place is free at once
                await super().stream_response(patiently)
