"""Acquires a resource in a thread without leaking it when the caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def acquire(take: Callable[[], T], give_back: Callable[[T], object]) -> T:
    """The result of `take`, run in a thread. If the caller is cancelled meanwhile, `give_back` gets the result."""
    taking = asyncio.ensure_future(asyncio.to_thread(take))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(_undo(taking, give_back)))
        raise


async def _undo(taking: asyncio.Future[T], give_back: Callable[[T], object]) -> None:
    with suppress(Exception):  # `take` failed with whatever it raises; the caller must see its cancellation
        await asyncio.to_thread(give_back, await taking)
