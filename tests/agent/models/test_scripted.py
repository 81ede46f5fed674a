"""Models that answer from a script say what they know, and what is wrong with a script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.models.scripted import BadScript, Scripted, read_script
from agent.models.values import Message, Misconfigured, ModelSettings

ASKED: list[Message] = [{"role": "user", "content": "Add two numbers."}]


async def test_the_built_in_script_says_which_task_it_knows_and_how_to_write_another() -> None:
    with pytest.raises(Misconfigured) as refused:
        await Scripted(ModelSettings("scripted")).complete(ASKED, seconds=1, role="design")
    said = str(refused.value)
    assert "'design'" in said
    assert "merge_intervals" in said
    assert "scripted:FILE" in said
    assert refused.value.usage.calls == 1, "so a benchmark sees that the model was needed"


async def test_a_script_without_an_answer_is_named_with_the_role_and_what_to_add(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"role": "write", "when": ["Subtract"], "answers": ["x"]}))
    with pytest.raises(Misconfigured, match=r"script\.jsonl has no answer for the role 'write' to this prompt; add a line"):
        await Scripted(ModelSettings(f"scripted:{script}")).complete(ASKED, seconds=1, role="write")


def test_a_mistyped_role_is_named_with_the_line_and_the_known_roles(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"answers": ["x"]}\n{"role": "wrte", "answers": ["x"]}\n')
    with pytest.raises(BadScript, match=r"script\.jsonl, line 2: 'wrte' is not a role; there are diagnose, repair, .*write"):
        read_script(str(script))
