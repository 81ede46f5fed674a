"""uvicorn's HTTP/1.1 protocol on httptools, with the limits that it lacks.

Anyone can connect to the webhook address. uvicorn buffers a head of any length, waits for an incomplete head without limit, and
skips the body of an upgrade request, so the rest of that body would be parsed as another request. Routes limit how long a body
may take.
"""

from __future__ import annotations

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD: Final = 64 * 1024  # bytes of a request's head or trailer; GitHub's heads have less than 1 KiB
HEAD_SECONDS: Final = 10.0  # for a complete head, from the start of the connection or head, or from the previous response


class _UpgradeWithBody(Exception):
    """The parser turns this into an `HttpParserError`, and the response is 400."""


class Http(HttpToolsProtocol):
    """Answers 400 and closes the connection if a head exceeds `LONGEST_HEAD` (by more than one read) or an upgrade request
    announces a body. Closes it if a head is incomplete after `HEAD_SECONDS`."""

    _head_size = 0  # bytes since the start of the request or the last piece of its body
    _due = 0.0  # when the next head must be complete, by the loop's clock
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]  # asyncio declares the base class
        self._due = self.loop.time() + HEAD_SECONDS
        self._timer = self.loop.call_later(HEAD_SECONDS, self._check_deadline)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_size += len(data)
        super().data_received(data)
        if self._head_size > LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        self._head_size = 0
        self._due = self.loop.time() + HEAD_SECONDS
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and any(_announces_body(name, value) for name, value in self.headers):
            raise _UpgradeWithBody
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._head_size = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        self._due = self.loop.time() + HEAD_SECONDS
        super().on_response_complete()

    def _check_deadline(self) -> None:
        """Runs on one timer per connection, which is cheaper than one per request."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        left = HEAD_SECONDS if is_answering else self._due - self.loop.time()
        if left <= 0:
            self.transport.close()
        else:
            self._timer = self.loop.call_later(left, self._check_deadline)


def _announces_body(name: bytes, value: bytes) -> bool:
    return name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
