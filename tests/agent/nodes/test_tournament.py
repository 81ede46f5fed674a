"""Several candidates of a round are judged beside each other, and the best of those that are green wins."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.contract import events
from agent.contract.outcome import Repair
from agent.contract.proposal import Candidate, Edits, FileChange
from agent.contract.task import Policy
from agent.contract.verdicts import Check
from agent.proposer import Proposal, Situation
from tests.agent.workbench import CALC, PYTEST, RIGHT, SAMPLE, TESTS, WRONG, Bench, Scripted, change

SUM = change("a - b", "sum((a, b))")
LONG = (
    FileChange(
        "calc.py", CALC, CALC.replace("    return a - b", "    total = a\n    total += b\n    return total") + "\n\nNOTE = 1\n"
    ),
)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@dataclass
class InSeveralWays:
    """A model rung that is asked in three ways at once."""

    answers: dict[str, Edits]
    rung: str = "model:scripted"

    def can_help(self, situation: Situation) -> str | None:
        return None if situation.iteration == 1 else "it has said all it knows"

    def strategies(self, situation: Situation) -> tuple[str, ...]:
        return tuple(self.answers)

    async def propose(self, situation: Situation) -> Proposal:
        edits = self.answers[situation.strategy]
        return Proposal((Candidate(self.rung, edits, f"by {situation.strategy}"),), 1, exhausted=False)


@pytest.mark.long
async def test_every_strategy_of_a_rung_is_asked_and_the_smallest_green_change_wins(bench: Bench) -> None:
    result = await bench.heal(InSeveralWays({"direct": LONG, "minimal": RIGHT, "rewrite": WRONG}))
    assert isinstance(result, Repair), result
    assert result.edits == RIGHT
    assert bench.steps().count("propose") == bench.steps().count("verify") == 3
    assert sorted(event.passed for event in bench.of(events.Verified)) == [False, True, True]
    (selected,) = bench.of(events.Selected)
    assert selected.among == 2
    assert result.alternatives == 0, "the longer change behaves the same"
    assert [(each.title, each.result[:6]) for each in result.log.iterations] == [
        ("by rewrite", "1 of 1"),
        ("by minimal", "verifi"),
    ]


@pytest.mark.long
async def test_a_hunk_that_is_not_needed_is_dropped(bench: Bench) -> None:
    edits = (
        FileChange("calc.py", CALC, CALC.replace("a - b", "a + b") + "\n\nNOTE = 1\n"),
        FileChange("notes.txt", None, "hm\n"),
    )
    result = await bench.heal(Scripted([(edits,)]))
    assert isinstance(result, Repair), result
    assert result.edits == RIGHT


@pytest.mark.long
async def test_the_same_change_from_two_strategies_is_judged_once_and_preferred_among_equals(bench: Bench) -> None:
    result = await bench.heal(InSeveralWays({"one": SUM, "two": RIGHT, "three": RIGHT}))
    assert isinstance(result, Repair), result
    assert result.edits == RIGHT
    assert len(bench.of(events.Verified)) == 2


@pytest.mark.long
async def test_new_lint_breaks_a_tie(bench: Bench) -> None:
    unused = change("    return a - b", "    import os; return a + b")
    result = await bench.heal(InSeveralWays({"one": unused, "two": unused, "three": RIGHT}))
    assert isinstance(result, Repair), result
    assert result.edits == RIGHT


@pytest.mark.long
async def test_the_runner_up_comes_to_its_turn_when_the_winner_cannot_be_proven(bench: Bench) -> None:
    """The winner is green the first time only."""
    once = change("return a - b", "return a + b if __import__('os').path.exists('calc.py') else 0")
    counter = bench.folder / "ran"
    tests = (
        SAMPLE["test_calc.py"]
        + f"""
from pathlib import Path

def test_luck():
    import calc
    lucky = "exists" in Path(calc.__file__).read_text()
    ran = Path({str(counter)!r})
    with ran.open("a") as file:
        file.write("x" if lucky else "")
    assert add(2, 3) == 5
    assert not lucky or ran.stat().st_size < 2
"""
    )
    longer = change("    return a - b", "    total = a + b\n    return total")
    result = await bench.heal(InSeveralWays({"one": once, "two": longer}), files={**SAMPLE, "test_calc.py": tests})
    assert isinstance(result, Repair), result
    assert result.edits == longer
    assert [event.passed for event in bench.of(events.Proven)] == [False, True]
    assert "not every time" in result.log.iterations[0].result


async def test_a_check_that_is_no_test_is_judged_the_same_way(bench: Bench) -> None:
    check = Check("step", f"{sys.executable} -c 'import calc; assert calc.add(2, 3) == 5'", "exit", timeout=30)
    result = await bench.heal(InSeveralWays({"one": LONG, "two": RIGHT}), checks=(check,), policy=Policy(min_confidence=0.5))
    assert isinstance(result, Repair), result
    assert result.edits == RIGHT


LINT = Check("lint", f"{sys.executable} -m ruff check --isolated --no-cache --select F .", "findings", timeout=30)


@pytest.mark.long
async def test_what_the_tools_mend_is_built_on_where_a_test_is_red_as_well(bench: Bench) -> None:
    source = "import os\n\n\n" + CALC
    (mended,) = change("import os\n\n\n", "", source=source)
    (fixed,) = change("a - b", "a + b", source=source)
    tools, model = Scripted([((mended,),)], rung="tools"), Scripted([((fixed,),)], rung="model:scripted")
    result = await bench.heal(tools, model, files={**SAMPLE, "calc.py": source}, checks=(PYTEST, LINT))
    assert isinstance(result, Repair), result
    assert result.edits[0].after == CALC.replace("a - b", "a + b")
    assert result.title == "changes calc.py; changes calc.py"


@pytest.mark.long
async def test_a_test_that_the_tools_formatted_is_no_reason_to_refuse_what_others_build_on_it(bench: Bench) -> None:
    check = Check("format", f"{sys.executable} -m ruff format --isolated --no-cache --check .", "exit", timeout=30)
    files = {"calc.py": CALC, "test_calc.py": TESTS.replace("== 5", "==  5").replace("\n\ndef", "\n\n\ndef")}
    formatted = FileChange("test_calc.py", files["test_calc.py"], files["test_calc.py"].replace("==  5", "== 5"))
    bent = change("== 2", "== -2", "test_calc.py", files["test_calc.py"])
    tools = Scripted([((formatted,),)], rung="tools")
    search, model = Scripted([(bent,)]), Scripted([(RIGHT,)], rung="model:scripted")
    result = await bench.heal(tools, search, model, files=files, checks=(PYTEST, check))
    assert isinstance(result, Repair), result
    assert set(result.edits) == {formatted, *RIGHT}
    assert [event.rule for event in bench.of(events.Guarded)] == ["tests"]
