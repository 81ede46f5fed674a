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
    """A file to download to `path`, of at most `limit` bytes; `is_right` checks its digest and blocks."""

    url: str
    path: Path
    is_right: Callable[[Path], bool]
    limit: int = FILE_LIMIT


class Budget:
    """What one install step may still fetch: bytes, packed and unpacked ones together, and seconds, within its policy.

    `size` and `seconds` were used before.
    """

    def __init__(self, policy: DownloadPolicy, size: int = 0, seconds: float = 0.0) -> None:
        self._policy = policy
        self._left, self._until = policy.size - size, time.monotonic() + policy.seconds - seconds
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._judging = asyncio.Lock()  # the directory of one zip fills much memory

    @property
    def cache(self) -> int | None:
        return self._policy.cache

    def take(self, what: str, size: int = 0) -> None:
        """Use `size` bytes for `what`. Raises `DownloadRefused` if too little is left."""
        self._left -= size
        if self._left < 0:
            bound = f"{self._policy.size / MIB:g} MiB ({self._policy.size_hint})"
        elif time.monotonic() > self._until:
            bound = f"{self._policy.seconds:g} s ({self._policy.seconds_hint})"
        else:
            return
        raise DownloadRefused(f"with {what}, the downloads of this step take more than {bound}")

    async def fetch(self, asked: Sequence[Asked], what: str) -> None:
        """Download all files. Raises `InstallFailed` (a wrong digest), `DownloadRefused`, `httpx.HTTPError`."""
        context = await asyncio.to_thread(ssl.create_default_context)
        async with httpx.AsyncClient(verify=context, follow_redirects=True, timeout=60.0) as client:
            try:
                async with asyncio.TaskGroup() as group:
                    for each in asked:
                        group.create_task(self._one(client, each, what))
            except ExceptionGroup as several:
                raise several.exceptions[0] from several

    async def _one(self, client: httpx.AsyncClient, asked: Asked, what: str) -> None:
        async with self._slots:
            for number in range(TRIES):
                try:
                    await self._once(client, asked, what)
                    break
                except (httpx.TransportError, httpx.HTTPStatusError) as error:
                    is_final = isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 500
                    if is_final or number == TRIES - 1:
                        raise
                await asyncio.sleep(0.2 * 4**number)
        async with self._judging:
            self.take(what)
            if not await asyncio.to_thread(asked.is_right, asked.path):
                raise InstallFailed(f"{asked.url} does not have the digest that the lock file names")

    async def _once(self, client: httpx.AsyncClient, asked: Asked, what: str) -> None:
        async with client.stream("GET", asked.url) as answer:
            answer.raise_for_status()
            asked.path.parent.mkdir(parents=True, exist_ok=True)
            size = 0
            with asked.path.open("wb") as file:
                async for chunk in answer.aiter_bytes():
                    size += len(chunk)
                    if size > asked.limit:
                        raise DownloadRefused(f"{asked.url} is larger than {asked.limit / MIB:g} MiB")
                    self.take(what, len(chunk))
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
