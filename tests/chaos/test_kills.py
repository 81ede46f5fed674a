"""A blow counts where it fell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import cast

import pytest

from tests.chaos import kills
from tests.chaos.stage import Missed, Stage


class Forged:
    """A stage on which the worker that is killed is found dead in one step after the other."""

    def __init__(self, *steps: str) -> None:
        self.steps = itertools.cycle(steps)
        self.pids: Iterator[int | None] = itertools.chain([None], itertools.repeat(1))  # the first story is over at once
        self.killed: list[str] = []
        self.notes: list[str] = []
        self.service = self

    async def repository(self, name: str) -> str:
        return name

    async def turns_red(self, full_name: str) -> None: ...

    async def until(self, what: str, condition: object) -> None: ...

    async def has_begun(self, full_name: str, step: str) -> bool:
        return True

    async def victim(self, full_name: str) -> int | None:
        return next(self.pids)

    async def kill_worker(self, full_name: str, pid: int) -> None:
        self.killed.append(full_name)

    async def last_step(self, full_name: str) -> str:
        return next(self.steps)

    async def start_worker(self) -> None: ...


async def test_one_that_fell_in_a_later_step_is_dealt_again() -> None:
    stage = Forged("verify", "prove")
    await kills.in_step("prove", cast("Stage", stage), "kill")
    assert (stage.killed, stage.notes) == (["kill-2", "kill-3"], ["blows fell in nobody, verify, prove"])


async def test_one_that_never_falls_where_it_should_is_told() -> None:
    with pytest.raises(Missed, match="no blow fell in prove"):
        await kills.in_step("prove", cast("Stage", Forged("report")), "kill")
