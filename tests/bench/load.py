"""A client that puts an HTTP/1.1 server under load over kept connections, with as little of its own as Python allows.

Knows nothing of webhooks: it sends the bytes that it is given and keeps each answer's status and time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

MakeRequest = Callable[[], tuple[bytes, str]]
"""The next request as it goes over the wire, and a name for it."""


@dataclass(slots=True)
class Answers:
    """What came back. `seconds` of each answer, from when it was due; `taken` are the names that were answered with 2xx."""

    lasted: float = 0.0
    seconds: list[float] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Answers of 2xx per second."""
        return len(self.taken) / self.lasted

    def percentile(self, share: float) -> float:
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))]


async def saturate(host: str, port: int, request: MakeRequest, connections: int, seconds: float) -> Answers:
    """Every connection sends its next request as soon as it has an answer. Raises `OSError`."""
    return await _run(host, port, request, connections, seconds, None)


async def steady(host: str, port: int, request: MakeRequest, connections: int, seconds: float, rate: float) -> Answers:
    """So many requests a second, evenly, whatever the server does; one that waits for a free connection waits on the clock."""
    return await _run(host, port, request, connections, seconds, rate)


async def _run(host: str, port: int, request: MakeRequest, connections: int, seconds: float, rate: float | None) -> Answers:
    loop = asyncio.get_running_loop()
    answers, due = Answers(), deque[float]()
    idle: list[_Connection] = []
    began = time.perf_counter()
    until = began + seconds

    def free(connection: _Connection) -> None:
        now = time.perf_counter()
        if now >= until:
            connection.finish()
        elif rate is None:
            connection.send(request(), now)
        elif due:
            connection.send(request(), due.popleft())
        else:
            idle.append(connection)

    opened = [(await loop.create_connection(lambda: _Connection(answers, free), host, port))[1] for _ in range(connections)]
    began = time.perf_counter()
    until = began + seconds
    for connection in opened:
        free(connection)
    if rate is not None:
        sent = 0
        while (now := time.perf_counter()) < until:
            while sent < (now - began) * rate:
                due.append(began + sent / rate)
                sent += 1
                if idle:
                    idle.pop().send(request(), due.popleft())
            await asyncio.sleep(0.001)
        for connection in idle:
            connection.finish()
    async with asyncio.timeout(30):
        await asyncio.gather(*(connection.done for connection in opened))
    answers.lasted = time.perf_counter() - began
    return answers


class _Connection(asyncio.Protocol):
    """One request at a time; `free` is called whenever the next may be sent."""

    def __init__(self, answers: Answers, free: Callable[[_Connection], None]) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answers, self._free = answers, free
        self._buffer = b""
        self._name, self._due = "", 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, request: tuple[bytes, str], due: float) -> None:
        content, self._name = request
        self._due = due
        self._transport.write(content)

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        self._answers.seconds.append(time.perf_counter() - self._due)
        status = int(head[9:12])
        if 200 <= status < 300:
            self._answers.taken.append(self._name)
        else:
            self._answers.refused[status] = self._answers.refused.get(status, 0) + 1
        self._free(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the server hung up"))
