"""Sends requests to `sandbox.remote.server` on a machine.

Each request has a name. After a lost connection the client repeats it under the same name until the answer arrives or time is
up; the server does the work once. Answers come from a machine that runs hostile code, so they are read as data of an expected
type, and anything else counts as a lost machine.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from contextlib import suppress
from secrets import token_hex
from typing import IO, Any, Literal, TypeVar

import msgspec

from sandbox.base import MIB, SandboxError, SandboxLost
from sandbox.e2b.machine import E2BMachine
from sandbox.remote import wire

T = TypeVar("T")
SECONDS = 60.0  # for a request that runs no repository code
GRACE = 30.0  # for the connection; the server enforces command timeouts
ANSWER = 64 * MIB  # bytes of an answer without a tighter limit
SLOWEST = MIB  # bytes per second of a usable connection
MESSENGER = (wire.INTERPRETER, "-I", "-S", f"{wire.HOME}/code/sandbox/remote/messenger.py", wire.SOCKET)


def frame(content: int) -> int:
    """Size in bytes of an answer with `content` bytes of content, which is sent as base64."""
    return MIB + content // 3 * 4


class _Failure(msgspec.Struct):
    error: str
    reason: str = ""
    output: str = ""
    seconds: float = 0.0
    stdout: bytes = b""
    stderr: bytes = b""
    which: Literal["memory", "disk", "output", "processes"] = "memory"
    limit: int = 0


class Client:
    """The server on one machine."""

    def __init__(self, machine: E2BMachine) -> None:
        self._machine = machine

    async def upload(self, content: bytes | IO[bytes], seconds: float) -> str:
        """Upload a file; returns its name, which a request can refer to."""
        name = token_hex(16)
        await self._machine.put(f"{wire.REQUESTS}/{name}", content, seconds)
        return name

    async def download(self, name: str, limit: int, seconds: float) -> bytes:
        """Download a file that an answer names. Raises `SandboxLost` if it is missing or larger than `limit` bytes."""
        if "/" in name or (content := await self._machine.get(f"{wire.ANSWERS}/{name}", limit, seconds)) is None:
            raise SandboxLost("the machine named a file that does not exist")
        return content

    async def request(self, kind: type[T], do: str, *, seconds: float = SECONDS, longest: int = ANSWER, **arguments: Any) -> T:
        """The server's answer as a `kind`, of at most `longest` bytes, within `seconds`. Raises its error, or `SandboxLost`."""
        name, question = token_hex(16), wire.encode({"do": do, **arguments})
        is_inline = len(shlex.quote(question)) <= wire.INLINE
        if not is_inline:
            await self._machine.put(f"{wire.REQUESTS}/{name}", question.encode(), seconds + GRACE)
        until = time.monotonic() + seconds + GRACE
        try:
            while (left := until - time.monotonic()) > 0:
                printed = await self._send(name, question if is_inline else "", left)
                # An empty line means that the answer is long and in a file. Without a line, the connection was lost.
                content = printed.rstrip() if printed.endswith("\n") else ""
                answer = content or await self._machine.get(f"{wire.ANSWERS}/{name}", longest, max(left, GRACE))
                if answer is not None:
                    return read(answer, kind)
                await asyncio.sleep(0.5)  # the connection was lost before the server had an answer
        except asyncio.CancelledError:
            with suppress(SandboxError):  # the machine may be gone
                await asyncio.shield(self._send(name, wire.CANCEL, GRACE))
            raise
        raise SandboxLost(f"the sandbox no longer answers ({do})")

    async def _send(self, name: str, question: str, seconds: float) -> str:
        return await self._machine.run(shlex.join((*MESSENGER, name, question)), seconds)


def read(answer: str | bytes, kind: type[T]) -> T:
    """The value in an answer. Raises the server's error, and `SandboxLost` for an answer with an unexpected shape."""
    try:
        message = json.loads(answer)
        if "error" not in message:
            return msgspec.convert(message["ok"], kind, builtin_types=())
        failure = msgspec.convert(message, _Failure, builtin_types=())
        error, names = wire.ERRORS[failure.error]
    except (LookupError, RecursionError, TypeError, ValueError) as wrong:
        raise SandboxLost(f"cannot read the machine's answer: {type(wrong).__name__}: {wrong}"[:300]) from wrong
    raise error(*(getattr(failure, name) for name in names))
