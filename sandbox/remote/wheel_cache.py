"""Wheels that one machine downloaded, cached on this side for the next machine with the same request.

An optimization: after any failure here the install step goes on without it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from sandbox.base import MIB, SandboxError
from sandbox.host.acquisition import acquire
from sandbox.install import folder_cache
from sandbox.install.python.wheels import FRESH_SECONDS
from sandbox.remote import wire
from sandbox.remote.wire import FRAME, Head

SECONDS = 300.0  # for one transfer
MOST = 256 * MIB  # bytes; larger sets are not transferred
WHEELS = "wheels.tar"
_log = logging.getLogger(__name__)


class WheelClient(Protocol):
    """The part of `sandbox.remote.client.Client` used here."""

    async def upload(self, content: bytes, seconds: float) -> str: ...

    async def request(self, head: Head, *, seconds: float, longest: int) -> tuple[Head, tuple[bytes, ...]]: ...


async def fill(client: WheelClient, cache: Path, key: str) -> bool:
    """Upload cached wheels; whether there were any."""
    return await _if_possible(lambda: _fill(client, cache, key))


async def keep(client: WheelClient, cache: Path, key: str) -> bool:
    """Download and cache the wheels; whether that worked."""
    return await _if_possible(lambda: _fetch(client, cache, key))


async def _if_possible(work: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await work()
    except (SandboxError, OSError, ValueError, LookupError) as error:  # the next request reports a lost machine
        _log.warning("could not transfer cached wheels: %s", error)
        return False


async def _fill(client: WheelClient, cache: Path, key: str) -> bool:
    entry = await acquire(lambda: folder_cache.newest(cache, key), folder_cache.release)
    if entry is None:
        return False
    try:
        if time.time() - entry.made > FRESH_SECONDS:
            return False
        content = await asyncio.to_thread((entry.folder / WHEELS).read_bytes)
    finally:
        await asyncio.to_thread(folder_cache.release, entry)
    name = await client.upload(content, SECONDS)
    await client.request({"do": "fill", "question": key, "file": name}, seconds=SECONDS, longest=FRAME)
    return True


async def _fetch(client: WheelClient, cache: Path, key: str) -> bool:
    request = {"do": "wheels", "question": key, "at_most": MOST}
    _, blobs = await client.request(request, seconds=SECONDS, longest=MOST + FRAME)
    with wire.reading_answer():
        (content,) = blobs
    if content:
        await asyncio.to_thread(_store, cache, key, content)
    return bool(content)


def _store(cache: Path, key: str, content: bytes) -> None:
    fresh = folder_cache.create(cache, key)
    try:
        (fresh.folder / WHEELS).write_bytes(content)
        fresh = folder_cache.commit(fresh)
    finally:
        folder_cache.release(fresh)
    folder_cache.prune(cache)
