from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from app.queue.queue import Batcher


class Work:
    """Doubles numbers, a go at a time, each when it is let; a negative number is refused, zero fails the whole go."""

    def __init__(self) -> None:
        self.goes: list[list[int]] = []
        self.let = asyncio.Semaphore(0)

    async def __call__(self, numbers: Sequence[int]) -> Sequence[int | Exception]:
        self.goes.append(list(numbers))
        await self.let.acquire()
        if 0 in numbers:
            raise ConnectionError("away")
        return [ValueError(number) if number < 0 else number * 2 for number in numbers]


async def begun(*asks: asyncio.Task[int]) -> None:
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_whoever_asks_meanwhile_shares_the_next_go() -> None:
    work = Work()
    together = Batcher(work, 10)
    first = asyncio.create_task(together.submit(1))
    await begun()
    others = [asyncio.create_task(together.submit(number)) for number in (2, 3, 4)]
    await begun()
    assert work.goes == [[1]]
    work.let.release()
    work.let.release()
    assert [await first, *[await other for other in others]] == [2, 4, 6, 8]
    assert work.goes == [[1], [2, 3, 4]]


async def test_no_go_takes_more_than_the_most() -> None:
    work = Work()
    work.let = asyncio.Semaphore(10)
    together = Batcher(work, 2)
    assert await asyncio.gather(*(together.submit(number) for number in (1, 2, 3, 4, 5))) == [2, 4, 6, 8, 10]
    assert work.goes == [[1, 2], [3, 4], [5]]


async def test_who_is_refused_does_not_spoil_it_for_the_others() -> None:
    work = Work()
    work.let = asyncio.Semaphore(10)
    together = Batcher(work, 10)
    one, bad, two = await asyncio.gather(*(together.submit(number) for number in (1, -1, 2)), return_exceptions=True)
    assert (one, two) == (2, 4)
    assert isinstance(bad, ValueError)


async def test_a_go_that_fails_fails_for_all_of_it_and_the_next_one_is_done() -> None:
    work = Work()
    work.let = asyncio.Semaphore(10)
    together = Batcher(work, 2)
    results = await asyncio.gather(*(together.submit(number) for number in (1, 0, 3)), return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionError, ConnectionError, int]


async def test_who_gave_up_waiting_is_left_out_and_one_in_the_middle_disturbs_nobody() -> None:
    work = Work()
    together = Batcher(work, 10)
    asks = [asyncio.create_task(together.submit(1))]
    await begun()
    asks += [asyncio.create_task(together.submit(number)) for number in (2, 3)]
    await begun()
    asks[0].cancel()
    asks[1].cancel()
    await begun()
    work.let.release()
    work.let.release()
    assert await asks[2] == 6
    assert work.goes == [[1], [3]]
    for gone in asks[:2]:
        with pytest.raises(asyncio.CancelledError):
            await gone
