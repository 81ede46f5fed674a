"""Does in one go what several ask for at the same time: whoever asks while the work is being done shares the next go.

So one who is alone waits for nobody, and many wait for two goes at most. This is group commit, as databases do it with their
logs. Knows nothing of what the work is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Together(Generic[T, R]):
    """`work` takes what was asked for, in order and `most` at a time, and gives one result for each: a value or an exception.

    What `work` itself raises is raised for everyone who shared that go.
    """

    def __init__(self, work: Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]], most: int) -> None:
        self._work = work
        self._most = most
        self._asked: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._going: asyncio.Task[None] | None = None

    async def ask(self, item: T) -> R:
        """Raises what the work raised. Who is cancelled before their go began is left out of it."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._asked.append((item, answer))
        if self._going is None:
            self._going = asyncio.create_task(self._go())
        return await answer

    async def _go(self) -> None:
        shared: list[tuple[T, asyncio.Future[R]]] = []
        try:
            while self._asked:
                shared = [self._asked.popleft() for _ in range(min(self._most, len(self._asked)))]
                shared = [(item, answer) for item, answer in shared if not answer.done()]
                if shared:
                    await self._do(shared)
        finally:
            self._going = None
            for _, answer in (*shared, *self._asked):  # only where this task was cancelled
                answer.cancel()

    async def _do(self, shared: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
        results: Sequence[R | Exception]
        try:
            results = await self._work([item for item, _ in shared])
        except Exception as error:  # noqa: BLE001 - it is theirs to handle
            results = [error] * len(shared)
        for (_, answer), result in zip(shared, results, strict=True):
            if answer.done():
                continue
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)
