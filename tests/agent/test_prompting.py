"""What a reviewer is shown: every failing test that fits, and the changed functions whole where the change does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agent import prompting
from agent.task import Candidate, FileChange
from tests.agent.bench import PYTEST, sandbox_with
from tests.agent.stage import situation

BODY = "".join(f"    step_{n} = {n}\n" for n in range(20))
SOURCE = f"def wide(value):\n{BODY}    return value - 1\n\n\ndef small(value):\n    return value - 1\n"
FILES = {
    "wide.py": SOURCE,
    "test_wide.py": (
        "from wide import small, wide\n\n\ndef test_wide():\n    assert wide(1) == 2\n\n\n"
        "def test_small():\n    # one more\n    assert small(1) == 2\n"
    ),
}


async def test_the_reviewer_sees_all_failing_tests_and_the_changed_function_whole(tmp_path: Path) -> None:
    changed = FileChange("wide.py", SOURCE, SOURCE.replace("value - 1", "value + 1"))
    async with sandbox_with(tmp_path, FILES) as sandbox:
        now = await situation(sandbox, PYTEST.command, env=PYTEST.env, seconds=60.0)
        prompt = await prompting.review(now, Candidate("model:m", (changed,), "x"))
        endless = replace(changed, after=(changed.after or "").replace("    return", "    'x'\n" * 500 + "    return"))
        bounded = await prompting.review(now, Candidate("model:m", (endless,), "x"))
    text = prompt.messages[-1]["content"]
    assert "def test_wide" in text
    assert "# one more" in text
    assert text.count("step_3 = 3") == 1, "beyond the lines around the change"
    assert text.count("def small") == 1, "the change shows it whole"
    assert len(bounded.messages[-1]["content"]) < 9_000
