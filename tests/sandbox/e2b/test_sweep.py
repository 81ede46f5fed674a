"""When orphaned machines are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.base import SandboxUnavailable
from sandbox.e2b import account
from sandbox.e2b.account import OrphanSweeper
from sandbox.e2b.plan import Account


async def test_a_listing_that_failed_is_soon_repeated_and_one_that_worked_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[tuple[()] | SandboxUnavailable] = [SandboxUnavailable("busy"), (), ()]

    async def listed(*_: object) -> tuple[()]:
        answer = answers.pop(0)
        if isinstance(answer, SandboxUnavailable):
            raise answer
        return answer

    monkeypatch.setattr(account, "listed", listed)
    sweeper = OrphanSweeper(Account("key"), tmp_path)
    for left in (2, 1, 1):
        await sweeper.sweep()
        assert len(answers) == left
