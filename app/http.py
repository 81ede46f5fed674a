"""HTTP/1.1 as the web process speaks it: uvicorn's protocol on httptools, whose parser is C, with the bounds that it lacks,
and with answers that leave in one piece.

Strangers may write to the webhooks' address. The parser keeps what it has of a head, however long it gets; whoever connects
and sends no whole head would be waited for without end; and the body of a request that asks for another protocol is skipped,
so that what comes of it later would be read as another request. How long a body may take is its route's to say.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD: Final = 64 * 1024  # bytes of a request's head, or of what follows its body; GitHub's heads have less than one
HEAD_SECONDS: Final = 10.0  # from the connection's or the head's beginning, or the answer before, until the head is whole
_MOST_HELD: Final = 64 * 1024  # bytes that wait for what is written after them


class _UpgradeWithBody(Exception):
    """The parser makes an `HttpParserError` of it, which is answered with 400."""


class Http(HttpToolsProtocol):
    """Answers 400 and hangs up where more than `LONGEST_HEAD`, and one read, comes without any of a body, and where a request
    with a body asks for an upgrade. Hangs up where a head is not whole after `HEAD_SECONDS`."""

    _headlong = 0  # bytes since the request or a piece of its body began
    _due = 0.0  # when the next head must be whole, by the loop's clock
    _looking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(_Joined(transport, self.loop))  # type: ignore[arg-type]  # it is one in all that is used
        self._due = self.loop.time() + HEAD_SECONDS
        self._looking = self.loop.call_later(HEAD_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._headlong += len(data)
        super().data_received(data)
        if self._headlong > LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        self._headlong = 0
        self._due = self.loop.time() + HEAD_SECONDS
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and any(_announces_body(name, value) for name, value in self.headers):
            raise _UpgradeWithBody
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._headlong = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        self._due = self.loop.time() + HEAD_SECONDS
        super().on_response_complete()

    def _look(self) -> None:
        """One timer a connection, instead of one set and cancelled for each request."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        left = HEAD_SECONDS if is_answering else self._due - self.loop.time()
        if left <= 0:
            self.transport.close()
        else:
            self._looking = self.loop.call_later(left, self._look)


def _announces_body(name: bytes, value: bytes) -> bool:
    return name == b"transfer-encoding" or (name == b"content-length" and value != b"0")


class _Joined:
    """A transport that sends together what is written in one pass of the loop: uvicorn writes an answer's head and its body
    apart, and each piece costs a call of the kernel, and wakes whoever reads it."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self._send)
        self._held.append(data)
        self._size += len(data)
        if self._size > _MOST_HELD:  # then the transport is to say whether to go on
            self._send()

    def _send(self) -> None:
        if self._held:
            held, self._held, self._size = b"".join(self._held), [], 0
            self._transport.write(held)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
