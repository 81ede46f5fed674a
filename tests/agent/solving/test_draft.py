"""Drafts of models: what is read from them, and what unusable ones cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.contract.events import AnyEvent
from agent.models.router import Models
from agent.models.values import Misconfigured, ModelError, ModelSettings
from agent.solving.draft import designed
from agent.solving.specification import specify

GOOD = '```python\ndef total(numbers):\n    """Adds."""\n    raise NotImplementedError\n```'


async def _silent(_: AnyEvent) -> None: ...


def _models(folder: Path, *lines: Sequence[str]) -> Models:
    """Each line has a word of the prompt and its answers; the first line that fits answers."""
    told = [{"role": "design", "when": [when], "answers": answers} for when, *answers in lines]
    script = folder / "script.jsonl"
    script.write_text("\n".join(json.dumps(each) for each in told))
    return Models(ModelSettings(f"scripted:{script}"))


async def test_two_unusable_designs_are_paid_for_and_no_outage(tmp_path: Path) -> None:
    models = _models(tmp_path, ("Add", "I cannot."))
    with pytest.raises(ModelError, match=r"design could not be used: .*no block") as failed:
        await designed(specify("Add the numbers."), models, _silent)
    assert not failed.value.is_outage
    assert failed.value.usage.calls == 2
    assert failed.value.usage.tokens_out > 0


async def test_a_second_request_that_fails_keeps_what_the_first_one_cost(tmp_path: Path) -> None:
    models = _models(tmp_path, ("Add", "I cannot."))

    async def spoil(_: AnyEvent) -> None:
        _models(tmp_path, ("Something else", "I cannot."))

    with pytest.raises(Misconfigured) as failed:
        await designed(specify("Add the numbers."), models, spoil)
    assert failed.value.is_outage
    assert failed.value.usage.calls == 2
    assert failed.value.usage.tokens_out > 0


async def test_a_second_answer_that_can_be_used_is_the_draft(tmp_path: Path) -> None:
    models = _models(tmp_path, ("Answer again", GOOD), ("Add", "I cannot."))
    assert (await designed(specify("Add the numbers."), models, _silent)).name == "total"
