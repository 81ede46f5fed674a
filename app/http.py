"""HTTP/1.1 as the web process speaks it: uvicorn's protocol on httptools, whose parser is C, with the one bound that it lacks.

The parser keeps what it has of a head, however long it gets; strangers may write to the webhooks' address.
"""

from __future__ import annotations

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LONGEST_HEAD: Final = 64 * 1024  # bytes of a request's head, or of what follows its body; GitHub's heads have less than one


class Http(HttpToolsProtocol):
    """Answers 400 and hangs up where more than `LONGEST_HEAD`, and one read, comes without any of a body."""

    _headlong = 0  # bytes since the request or a piece of its body began

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
