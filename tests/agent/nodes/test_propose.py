"""What a rung that was stopped had spent is not forgotten."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.contract import events
from agent.contract.outcome import NoRepair
from agent.nodes import propose
from agent.proposer import Proposal, Situation
from tests.agent.workbench import Bench


class Endless:
    """Asks a model once, then waits for an answer that never comes."""

    rung = "model:endless"

    def can_help(self, situation: Situation) -> str | None:
        return None

    async def propose(self, situation: Situation) -> Proposal:
        await situation.emit(
            events.ModelCalled(text="", model="m", role="repair", tokens_in=100, tokens_out=20, seconds=1.0, cost=0.25)
        )
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


async def test_a_rung_that_is_stopped_has_spent_what_it_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propose, "GRACE", -1e6)  # its time is over at once
    result = await Bench(tmp_path).heal(Endless())
    assert isinstance(result, NoRepair)
    assert (result.usage.tokens_in, result.usage.cost) == (100, 0.25)
    assert (result.usage.calls, result.usage.unpriced) == (2, 1), "the call it was waiting for may cost something"
