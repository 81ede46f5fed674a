"""The plan's limits are kept on this side."""

from __future__ import annotations

import asyncio

import pytest

from sandbox.base import SandboxUnavailable
from sandbox.e2b.account import Admission


async def test_who_finds_no_place_is_sent_back_into_the_queue() -> None:
    admission = Admission(1, 1.0)
    async with admission.slot():
        with pytest.raises(SandboxUnavailable) as full:
            async with admission.slot(timeouts=0.01):
                pass
        assert full.value.retry_after is not None
    async with admission.slot(timeouts=0.01):
        pass


async def test_creations_keep_their_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    admission = Admission(10, 2.0)
    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "sleep", sleep)
        for _ in range(3):
            await admission.wait_turn()
    assert waits == pytest.approx([0.0, 0.5, 1.0], abs=0.2)
