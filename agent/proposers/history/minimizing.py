"""Delta debugging: the smallest part of a change that still has an effect (Zeller and Hildebrandt, 2002)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def smallest(parts: Sequence[T], has_effect: Callable[[Sequence[T]], Awaitable[bool | None]]) -> list[T]:
    """A part of `parts`, which have the effect together, from which no single one can be left out (ddmin).

    `has_effect` returns None when no more tests can be afforded; the smallest part so far is the result then.
    """
    kept, chunks = list(parts), 2
    while len(kept) > 1:
        size = -(-len(kept) // chunks)
        groups = [kept[at : at + size] for at in range(0, len(kept), size)]
        rests = [[part for part in kept if part not in group] for group in groups] if len(groups) > 2 else []
        for tried in (*groups, *rests):
            effect = await has_effect(tried)
            if effect is None:
                return kept
            if effect:
                kept, chunks = tried, 2 if len(tried) <= size else max(chunks - 1, 2)
                break
        else:
            if chunks >= len(kept):
                return kept
            chunks = min(len(kept), 2 * chunks)
    return kept
