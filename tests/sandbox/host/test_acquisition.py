"""Who is cancelled while something is being taken for them holds nothing, and hears that they were cancelled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sandbox.host.folder_locks import acquire


@pytest.mark.parametrize("fails", [False, True])
async def test_what_was_taken_for_one_who_is_gone_is_given_back(fails: bool) -> None:
    begun, goes_on, ended = threading.Event(), threading.Event(), threading.Event()
    held: set[str] = set()

    def take() -> str:
        begun.set()
        goes_on.wait()
        try:
            if fails:
                raise OSError("there is none")
            held.add("it")
            return "it"
        finally:
            ended.set()

    taking = asyncio.create_task(acquire(take, held.remove))
    await asyncio.to_thread(begun.wait)
    taking.cancel()
    await asyncio.sleep(0)
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await taking
    await asyncio.to_thread(ended.wait)
    assert not held


async def test_what_is_taken_stays_until_its_owner_gives_it_back() -> None:
    held = {"it"}
    assert await acquire(lambda: "it", held.remove) == "it"
    assert held


async def test_what_cannot_be_taken_is_told() -> None:
    def take() -> str:
        raise OSError("there is none")

    with pytest.raises(OSError, match="there is none"):
        await acquire(take, lambda _: None)
