"""Where the graph keeps what is too heavy for its state: bytes by their hash.

The state of a repair is written after every node; runs, candidates and outputs stay outside it and are named by content. `app`
keeps them in the database so that any worker can go on; the CLI and the benchmarks keep them in memory or in a folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import Protocol

_NAME = re.compile(r"[0-9a-f]{64}")


class BlobMissing(LookupError):
    """Nothing is kept under this name (any more)."""


class Blobs(Protocol):
    """Bytes by their SHA-256, in lower-case hexadecimal. Putting the same bytes twice is one blob."""

    async def put(self, content: bytes) -> str: ...

    async def get(self, name: str) -> bytes:
        """Raises `BlobMissing`."""


class MemoryBlobs:
    """Blobs that live as long as the process."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def put(self, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()
        self._kept[name] = content
        return name

    async def get(self, name: str) -> bytes:
        try:
            return self._kept[name]
        except KeyError:
            raise BlobMissing(name) from None


class FileBlobs:
    """Blobs as files of one folder; safe beside other processes, and after a kill in the middle of a write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest()
        await asyncio.to_thread(self._write, name, content)
        return name

    async def get(self, name: str) -> bytes:
        if not _NAME.fullmatch(name):
            raise BlobMissing(name)
        try:
            content = await asyncio.to_thread((self._folder / name).read_bytes)
        except FileNotFoundError:
            raise BlobMissing(name) from None
        if hashlib.sha256(content).hexdigest() != name:
            raise BlobMissing(name)
        return content

    def _write(self, name: str, content: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as draft:
            draft.write(content)
        os.replace(draft.name, self._folder / name)
