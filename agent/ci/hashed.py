"""Digests of files for `hashFiles`, which asks amid an expression: what it asks for is read, and then all is done anew."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from agent.ci.expressions import ExpressionError, Unknown
from agent.ci.expressions.hashing import digest, matching
from agent.ci.expressions.scope import Files
from sandbox.base import MIB, LimitExceeded, Workspace

T = TypeVar("T")
ROUNDS = 8  # one expression may decide whether another is reached
READ_LIMIT = 64 * MIB  # bytes of all files


class Hashed:
    """Digests of one workspace's files, kept by their patterns."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._known: dict[tuple[str, ...], str | Unknown] = {}

    async def met(self, work: Callable[[Files], Awaitable[T]]) -> T:
        """Do `work` until all that it asks for is known; it must be safe to do again. Raises `SandboxError`."""
        for _ in range(ROUNDS):
            asked: list[tuple[str, ...]] = []

            def files(patterns: Sequence[str], asked: list[tuple[str, ...]] = asked) -> str | Unknown:
                key = tuple(patterns)
                if key not in self._known:
                    asked.append(key)
                return self._known.get(key, Unknown("hashFiles"))

            done = await work(files)
            if not asked:
                break
            for patterns in asked:
                try:
                    self._known[patterns] = await self._digest(patterns)
                except ExpressionError as error:
                    self._known[patterns] = Unknown(str(error))
        return done

    async def _digest(self, patterns: tuple[str, ...]) -> str | Unknown:
        paths = [entry.path for entry in await self._workspace.files() if not entry.link]
        found = matching(patterns, paths, self._workspace.root)
        digests: list[bytes] = []
        left = READ_LIMIT
        for path in found:
            try:
                content = await self._workspace.read(path, left)
            except (LimitExceeded, FileNotFoundError, ValueError):
                return Unknown("hashFiles")
            left -= len(content)
            digests.append(hashlib.sha256(content).digest())
        return digest(digests)
