"""Which of the last commits broke something: back in growing steps, then by halves between the two that are known. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

MOST = 9  # probes
FURTHEST = 31  # commits


async def nearest_passing(passes: Callable[[int], Awaitable[bool | None]]) -> tuple[int, int] | None:
    """How many commits ago it fails, and how many commits ago it passes; None if no commit is known at which it passes.

    Both are neighbours unless the probes or what they can tell ran out. `passes` is asked about a number of commits ago, and
    returns None if that is not known. It fails now, 0 commits ago.
    """
    red, good, unknown = 0, 0, FURTHEST + 1
    for _ in range(MOST):
        ahead = good or unknown
        at = (red + good) // 2 if good else min(max(1, 2 * red), (red + unknown) // 2)
        if ahead - red <= 1:
            break
        known = await passes(at)
        if known is None and good:
            break
        if known is None:
            unknown = at
        elif known:
            good = at
        else:
            red = at
    return (red, good) if good else None
