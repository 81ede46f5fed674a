"""Wheels that one machine downloaded, kept on this side for the next one that asks for the same.

All of it is a shortcut: whatever goes wrong here, the install step goes on without.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from sandbox.base import MIB, SandboxError
from sandbox.install import shelf
from sandbox.install.python.wheels import FRESH_SECONDS
from sandbox.remote import wire
from sandbox.remote.wire import FRAME, Head
from sandbox.taking import taken

SECONDS = 300.0  # for one transfer
MOST = 256 * MIB  # bytes that are worth one
WHEELS = "wheels.tar"
_log = logging.getLogger(__name__)


class Asks(Protocol):
    """What is needed of `sandbox.remote.asking.Line`."""

    async def put(self, content: bytes, seconds: float) -> str: ...

    async def ask(self, head: Head, *, seconds: float, longest: int) -> tuple[Head, tuple[bytes, ...]]: ...


async def fill(line: Asks, cache: Path, question: str) -> bool:
    """Bring over what an earlier machine downloaded for the same question; whether that was done."""
    return await _if_possible(lambda: _filled(line, cache, question))


async def keep(line: Asks, cache: Path, question: str) -> bool:
    """Bring back what was downloaded now; whether there is something to be kept, and it is."""
    return await _if_possible(lambda: _kept(line, cache, question))


async def _if_possible(work: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await work()
    except (SandboxError, OSError, ValueError, LookupError) as error:  # a machine that is lost is told by what is asked next
        _log.warning("downloaded packages are not kept from machine to machine this time: %s", error)
        return False


async def _filled(line: Asks, cache: Path, question: str) -> bool:
    held = await taken(lambda: shelf.newest(cache, question), shelf.put_back)
    if held is None:
        return False
    try:
        if time.time() - held.made > FRESH_SECONDS:
            return False
        content = await asyncio.to_thread((held.folder / WHEELS).read_bytes)
    finally:
        await asyncio.to_thread(shelf.put_back, held)
    name = await line.put(content, SECONDS)
    await line.ask({"do": "fill", "question": question, "file": name}, seconds=SECONDS, longest=FRAME)
    return True


async def _kept(line: Asks, cache: Path, question: str) -> bool:
    asked = {"do": "wheels", "question": question, "at_most": MOST}
    _, blobs = await line.ask(asked, seconds=SECONDS, longest=MOST + FRAME)
    with wire.understood():
        (content,) = blobs
    if content:
        await asyncio.to_thread(_keep, cache, question, content)
    return bool(content)


def _keep(cache: Path, question: str, content: bytes) -> None:
    fresh = shelf.begin(cache, question)
    try:
        (fresh.folder / WHEELS).write_bytes(content)
        fresh = shelf.keep(fresh)
    finally:
        shelf.put_back(fresh)
    shelf.sweep(cache)
