"""Takes what has to be given back, in a thread: who is cancelled meanwhile cannot know whether it was taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def taken(take: Callable[[], T], give_back: Callable[[T], object]) -> T:
    """What `take` gives; both run in threads. Who is cancelled while it is being taken holds nothing: it is given back."""
    taking = asyncio.ensure_future(asyncio.to_thread(take))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(_undone(taking, give_back)))
        raise


async def _undone(taking: asyncio.Future[T], give_back: Callable[[T], object]) -> None:
    with suppress(Exception):  # nothing was taken; that they were cancelled is what the caller has to hear
        await asyncio.to_thread(give_back, await taking)
