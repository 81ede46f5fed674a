"""HTTP/1.1 as the web process speaks it: uvicorn's protocol on httptools, whose parser is C, with the one bound that it lacks,
and with answers that leave in one piece.

The parser keeps what it has of a head, however long it gets; strangers may write to the webhooks' address.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD: Final = 64 * 1024  # bytes of a request's head, or of what follows its body; GitHub's heads have less than one


_MOST_HELD: Final = 64 * 1024  # bytes that wait for what is written after them


class Http(HttpToolsProtocol):
    """Answers 400 and hangs up where more than `LONGEST_HEAD`, and one read, comes without any of a body."""

    _headlong = 0  # bytes since the request or a piece of its body began

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(_Joined(transport, self.loop))  # type: ignore[arg-type]  # it is one in all that is used

    def data_received(self, data: bytes) -> None:
        self._headlong += len(data)
        super().data_received(data)
        if self._headlong > LONGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        self._headlong = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        self._headlong = 0
        super().on_body(body)


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
