"""What a reviewer is shown: the failing tests that fit, the changed functions as they are now, and how the change was found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.contract.proposal import Candidate, FileChange
from agent.prompts import review
from tests.agent.stage import situation
from tests.agent.workbench import PYTEST, sandbox_with

BODY = "".join(f"    step_{n} = {n}\n" for n in range(20))
SOURCE = f"def wide(value):\n{BODY}    return value - 1\n\n\ndef small(value):\n    return value - 1\n"
FILES = {
    "wide.py": SOURCE,
    "test_wide.py": (
        "from wide import small, wide\n\n\ndef test_wide():\n    assert wide(1) == 2\n\n\n"
        "def test_small():\n    # one more\n    assert small(1) == 2\n"
    ),
}


@pytest.mark.long
async def test_the_reviewer_sees_all_failing_tests_and_the_changed_function_whole(tmp_path: Path) -> None:
    changed = FileChange("wide.py", SOURCE, SOURCE.replace("value - 1", "value + 1"))
    async with sandbox_with(tmp_path, FILES) as sandbox:
        now = await situation(sandbox, PYTEST.command, env=PYTEST.env, seconds=60.0)
        prompt = await review.review(now, Candidate("model:m", (changed,), "x"))
        endless = replace(changed, after=(changed.after or "").replace("    return", "    'x'\n" * 500 + "    return"))
        bounded = await review.review(now, Candidate("model:m", (endless,), "x"))
    text = prompt.messages[-1]["content"]
    assert "def test_wide" in text
    assert "# one more" in text
    assert text.count("step_3 = 3") == 1, "beyond the lines around the change"
    assert text.count("def small") == 1, "the change shows it whole"
    assert len(bounded.messages[-1]["content"]) < 9_000


async def shown(folder: Path, source: str, old: str, new: str, rung: str = "model:m") -> str:
    """The question about a change of one file, whose test fails."""
    files = {"wide.py": source, "test_wide.py": "from wide import wide\n\n\ndef test_wide():\n    assert wide(1) == 2\n"}
    async with sandbox_with(folder, files) as sandbox:
        now = await situation(sandbox, PYTEST.command, env=PYTEST.env, seconds=60.0)
        edits = (FileChange("wide.py", source, source.replace(old, new)),)
        return (await review.review(now, Candidate(rung, edits, "x"))).messages[-1]["content"]


async def test_of_a_long_function_the_head_and_what_is_near_the_change_is_shown_with_its_contract(tmp_path: Path) -> None:
    steps = "".join(f"    step_{n} = {n}\n" for n in range(300))
    source = f'def wide(value):\n    """One more,\n\n    as one says."""\n{steps}    value -= 1\n{steps}    return value\n'
    text = await shown(tmp_path, source, "value -= 1", "value += 1")
    code = text.partition("# The changed code with the repair")[2]
    assert "def wide(value):" in code.partition("# What")[0]
    assert "    step_290 = 290\n" in code
    assert text.partition("# The repair")[2].partition("# The changed code")[0].count("step_") == 2, "one line around it"
    assert code.count("[…]") == 2
    assert "as one says" in code.partition("# Documentation of the changed functions")[2]
    assert len(text) < 6_000


async def test_a_docstring_that_the_code_shows_is_not_told_twice(tmp_path: Path) -> None:
    source = f'def wide(value):\n    """One more."""\n{BODY}    return value - 1\n'
    assert (await shown(tmp_path, source, "value - 1", "value + 1")).count("One more.") == 1


@pytest.mark.long
async def test_only_of_a_change_that_a_search_found_it_is_said_that_it_may_be_coincidence(tmp_path: Path) -> None:
    assert "mutation" in await shown(tmp_path / "search", SOURCE, "value - 1", "value + 1", "patterns")
    assert "mutation" not in await shown(tmp_path / "model", SOURCE, "value - 1", "value + 1")


async def test_what_the_failing_test_says_is_shown_in_whole_lines_with_its_assertion(tmp_path: Path) -> None:
    source = "def wide(value):\n    return value * [('long', 'row')] * 90\n"
    error = (await shown(tmp_path, source, "value * ", "2 + 0 * ")).partition("# The repair")[0]
    assert "assert wide(1) == 2" in error
    assert "AssertionError" in error
