"""Which of the last commits broke something, by few probes."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from agent.reproduce.bisection import FURTHEST, MOST, nearest_passing


async def found(good: int, most: int = 1_000, unknown: Collection[int] = ()) -> tuple[tuple[int, int] | None, list[int]]:
    """It passes from `good` commits ago on; there are `most` commits."""
    asked: list[int] = []

    async def passes(count: int) -> bool | None:
        asked.append(count)
        return None if count > most or count in unknown else count >= good

    return await nearest_passing(passes), asked


@pytest.mark.parametrize("good", [1, 2, 3, 4, 7, 8, 13, 16])
@pytest.mark.parametrize("most", [16, 1_000])
async def test_the_commit_is_found_by_few_probes(good: int, most: int) -> None:
    where, asked = await found(good, most)
    assert where == (good - 1, good)
    assert len(asked) <= MOST
    assert len(set(asked)) == len(asked)


async def test_a_history_that_is_red_or_too_long_has_none() -> None:
    assert (await found(99))[0] is None
    assert max((await found(99))[1]) <= FURTHEST
    assert (await found(9, most=5))[0] is None
    assert (await found(1, most=0)) == (None, [1])


async def test_commits_about_which_nothing_is_known_are_skipped() -> None:
    assert (await found(3, unknown=(4,)))[0] == (2, 3)
    assert (await found(6, unknown=(6,)))[0] == (4, 8), "the commit may be any of those between"
    assert (await found(3, most=3))[0] == (2, 3)
