"""Group commit, as databases do it with their logs: items submitted while a batch runs share the next one.

So a single item never waits for others, and under load an item waits for two batches at most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Batcher(Generic[T, R]):
    """`work` gets at most `most` items, in order, and returns one result for each: a value or an exception.

    What `work` itself raises is raised for the whole batch.
    """

    def __init__(self, work: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]], most: int) -> None:
        self._work = work
        self._most = most
        self._pending: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def submit(self, item: T) -> R:
        """Raises what the work raised. A caller cancelled before its batch starts is dropped from it."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._pending.append((item, answer))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        try:
            while self._pending:
                batch = [self._pending.popleft() for _ in range(min(self._most, len(self._pending)))]
                batch = [(item, answer) for item, answer in batch if not answer.done()]
                if batch:
                    await self._run_batch(batch)
        finally:
            self._running = None
            for _, answer in (*batch, *self._pending):  # only if this task was cancelled
                answer.cancel()

    async def _run_batch(self, batch: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
        results: Sequence[R | Exception]
        try:
            results = await self._work([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - whatever `work` raises, the callers get it
            results = [error] * len(batch)
        for (_, answer), result in zip(batch, results, strict=True):
            if answer.done():
                continue
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)
