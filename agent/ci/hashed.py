"""Digests of files for `hashFiles`, which asks amid an expression: what it asks for is read, and then all is done anew."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from agent.ci.expressions import ExpressionError, Unknown
from agent.ci.expressions.hashing import digest, matching
from agent.ci.expressions.scope import Files
from sandbox.base import MIB, LimitExceeded, Workspace

T = TypeVar("T")
ROUNDS = 8  # one expression may decide whether another is reached
READ_LIMIT = 64 * MIB  # bytes of all files of one digest
SECONDS = 20.0  # for all digests; what is not known by then stays unknown


class Hashed:
    """Digests of one workspace's files, kept by their patterns. The files stay as they are."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._known: dict[tuple[str, ...], str | Unknown] = {}
        self._paths: tuple[str, ...] | None = None
        self._digests: dict[str, tuple[int, bytes]] = {}  # path → its size, its digest
        self._left = SECONDS

    async def met(self, work: Callable[[Files], Awaitable[T]]) -> T:
        """Do `work` until all that it asks for is known; it must be safe to do again. Raises `SandboxError`."""
        for _ in range(ROUNDS):
            asked: dict[tuple[str, ...], None] = {}

            def files(patterns: Sequence[str], asked: dict[tuple[str, ...], None] = asked) -> str | Unknown:
                key = tuple(patterns)
                if key not in self._known:
                    asked[key] = None
                return self._known.get(key, Unknown("hashFiles"))

            done = await work(files)
            if not asked:
                break
            for patterns in asked:
                self._known[patterns] = await self._timed(patterns)
        return done

    def known(self, patterns: Sequence[str]) -> str | Unknown:
        """The digests that are known by now (`Files`)."""
        return self._known.get(tuple(patterns), Unknown("hashFiles"))

    async def _timed(self, patterns: tuple[str, ...]) -> str | Unknown:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._left):
                return await self._digest(patterns)
        except ExpressionError as error:
            return Unknown(str(error))
        except TimeoutError:
            return Unknown("hashFiles")
        finally:
            self._left = max(0.0, self._left - (time.monotonic() - started))

    async def _digest(self, patterns: tuple[str, ...]) -> str | Unknown:
        if self._paths is None:
            self._paths = tuple(entry.path for entry in await self._workspace.files() if not entry.link)
        found = await asyncio.to_thread(matching, patterns, self._paths, self._workspace.root)
        left = READ_LIMIT
        for path in found:
            if path not in self._digests:
                try:
                    content = await self._workspace.read(path, left)
                except (LimitExceeded, FileNotFoundError, ValueError):
                    return Unknown("hashFiles")
                self._digests[path] = len(content), hashlib.sha256(content).digest()
            left -= self._digests[path][0]
            if left < 0:
                return Unknown("hashFiles")
        return digest(self._digests[path][1] for path in found)
