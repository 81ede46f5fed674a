"""Content-addressed storage for values too large for the graph's state: runs, candidates, outputs.

The state holds only their names. `app` keeps blobs in the database, so that any worker can continue; the CLI and the benchmarks
keep them in memory.
"""

from __future__ import annotations

import hashlib
from typing import Protocol


class BlobMissing(LookupError):
    """No blob has this name, or it was deleted."""


class Blobs(Protocol):
    """Bytes by their SHA-256, in lower-case hexadecimal."""

    async def put(self, content: bytes) -> str: ...

    async def get(self, name: str) -> bytes:
        """Raises `BlobMissing`."""


class MemoryBlobs:
    """Keeps blobs in memory for the life of the process."""

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
