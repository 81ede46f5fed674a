"""Downloads the files that a lock file names with their digests, outside the sandbox. No file is executed or trusted.

The result is a cached folder that the sandbox mounts read-only. A file that does not have its digest is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from sandbox.base import MIB, InstallFailed
from sandbox.host.folder_locks import acquire
from sandbox.install import folder_cache
from sandbox.install.download import DownloadPolicy, DownloadRefused
from sandbox.install.folder_cache import CacheEntry

AT_ONCE = 8
TRIES = 3
FILES = 5000  # that one lock may name
FILE_LIMIT = 512 * MIB  # bytes; Go's own limit for a module


class SourcesUnavailable(InstallFailed):
    """The sources that a lock file names could not be fetched. `what_now` is a sentence for people."""

    def __init__(self, reason: str, what_now: str) -> None:
        super().__init__(reason)
        self.what_now = what_now


@dataclass(frozen=True, slots=True)
class Asked:
    """A file to download to `path`; `is_right` checks its digest and blocks."""

    url: str
    path: Path
    is_right: Callable[[Path], bool]


class Downloads:
    """The downloads of one step, within the policy's bounds together."""

    def __init__(self, policy: DownloadPolicy, what: str) -> None:
        self._policy, self._what = policy, what
        self._left, self._until = policy.size, time.monotonic() + policy.seconds
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def all(self, asked: Sequence[Asked]) -> None:
        """Download all files. Raises `InstallFailed` (a wrong digest), `DownloadRefused`, `httpx.HTTPError`."""
        context = await asyncio.to_thread(ssl.create_default_context)
        async with httpx.AsyncClient(verify=context, follow_redirects=True, timeout=60.0) as client:
            try:
                async with asyncio.TaskGroup() as group:
                    for each in asked:
                        group.create_task(self._one(client, each))
            except ExceptionGroup as several:
                raise several.exceptions[0] from several

    async def _one(self, client: httpx.AsyncClient, asked: Asked) -> None:
        async with self._slots:
            for number in range(TRIES):
                try:
                    await self._once(client, asked)
                    break
                except (httpx.TransportError, httpx.HTTPStatusError) as error:
                    is_final = isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500
                    if is_final or number == TRIES - 1:
                        raise
                await asyncio.sleep(0.2 * 4**number)
        if not await asyncio.to_thread(asked.is_right, asked.path):
            raise InstallFailed(f"{asked.url} does not have the digest that the lock file names")

    async def _once(self, client: httpx.AsyncClient, asked: Asked) -> None:
        async with client.stream("GET", asked.url) as answer:
            answer.raise_for_status()
            asked.path.parent.mkdir(parents=True, exist_ok=True)
            size = 0
            with asked.path.open("wb") as file:
                async for chunk in answer.aiter_bytes():
                    size += len(chunk)
                    self._left -= len(chunk)
                    if self._left < 0 or size > FILE_LIMIT:
                        bound = f"{self._policy.size / MIB:g} MiB ({self._policy.size_hint})"
                        raise DownloadRefused(f"downloading {self._what} takes more than {bound}")
                    if time.monotonic() > self._until:
                        bound = f"{self._policy.seconds:g} s ({self._policy.seconds_hint})"
                        raise DownloadRefused(f"downloading {self._what} takes more than {bound}")
                    file.write(chunk)


def in_words(error: Exception) -> str:
    """An error of a download as one line."""
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def key_of(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


async def kept(cache: Path, key: str, make: Callable[[Path], Awaitable[None]], bound: int | None) -> CacheEntry:
    """The cached folder of `key`, or a new one that `make` fills; locked until it is released. Raises what `make` raises."""
    entry = await acquire(lambda: folder_cache.newest(cache, key), folder_cache.release)
    if entry is not None:
        return entry
    fresh = await acquire(lambda: folder_cache.create(cache, key), folder_cache.release)
    try:
        await make(fresh.folder)
        return await asyncio.to_thread(folder_cache.keep, fresh, bound)
    except BaseException:
        await asyncio.shield(asyncio.to_thread(folder_cache.release, fresh))
        raise
