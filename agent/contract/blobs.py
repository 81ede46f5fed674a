"""Content-addressed storage for what is too large for the graph's state: runs, candidates, outputs.

The state is written after every node and holds only the names. `app` keeps blobs in the database, so that any worker can
continue; the CLI and the benchmarks keep them in memory.
"""

from __future__ import annotations

import hashlib
from typing import Protocol


class BlobMissing(LookupError):
    """No blob has this name (any more)."""


class Blobs(Protocol):
    """Bytes by their SHA-256, in lower-case hexadecimal."""

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
