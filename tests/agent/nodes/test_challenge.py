"""The second oracle, on real runs: what contradicts a stated contract is not accepted, however green it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.contract import events
from agent.contract.outcome import NoRepair, Repair
from agent.contract.proposal import FileChange
from agent.contract.task import Policy
from agent.models.router import Models
from agent.models.values import ModelSettings
from agent.nodes.weigh import UNWITNESSED
from tests.agent.workbench import PYTEST, RIGHT, Bench, Scripted
from tests.standins.model import Reply, ScriptedModel

PROMISED = '''\
def clamp(value, low, high):
    """The value within its bounds.

    >>> clamp(7, 0, 5)
    5
    >>> clamp(-3, 0, 5)
    0
    """
    return max(low, value)
'''
FILES = {
    "clamped.py": PROMISED,
    "test_clamped.py": "from clamped import clamp\n\ndef test_high():\n    assert clamp(9, 0, 5) == 5\n",
}
SPECIAL = (FileChange("clamped.py", PROMISED, PROMISED.replace("max(low, value)", "high")),)
MENDED = (FileChange("clamped.py", PROMISED, PROMISED.replace("max(low, value)", "min(high, max(low, value))")),)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.long
async def test_a_green_change_that_contradicts_a_docstring_is_not_accepted(bench: Bench) -> None:
    result = await bench.heal(Scripted([(SPECIAL,)]), files=FILES)
    assert isinstance(result, NoRepair)
    (opinion,) = bench.of(events.Opined)
    assert not opinion.accepted
    assert "`clamp(-3, 0, 5)`, which gives `5`" in opinion.reasons[0]
    assert result.log.iterations[-1].result.startswith("challenge objects: the docstring of `clamp`")


@pytest.mark.long
async def test_the_next_candidate_comes_to_its_turn_after_an_objection(bench: Bench) -> None:
    result = await bench.heal(Scripted([(SPECIAL, MENDED)]), files=FILES)
    assert isinstance(result, Repair), result
    assert result.edits == MENDED
    assert [opinion.accepted for opinion in bench.of(events.Opined)] == [False, True]


@pytest.mark.long
async def test_rivals_that_break_the_same_promise_are_not_proven_first(bench: Bench) -> None:
    alike = (FileChange("clamped.py", PROMISED, PROMISED.replace("max(low, value)", "max(high, value - 4)")),)
    result = await bench.heal(Scripted([(SPECIAL, alike, MENDED)]), files=FILES)
    assert isinstance(result, Repair), result
    assert result.edits == MENDED
    assert len(bench.of(events.Proven)) == 2
    assert [iteration.result[:18] for iteration in result.log.iterations] == ["challenge objects:"] * 2 + ["verified"]


@pytest.mark.long
async def test_a_change_of_functions_without_promises_is_accepted(bench: Bench) -> None:
    result = await bench.heal(Scripted([(RIGHT,)]))
    assert isinstance(result, Repair), result
    assert [(opinion.accepted, opinion.reasons) for opinion in bench.of(events.Opined)] == [(True, [])]
    assert not bench.of(events.Degraded)


@pytest.mark.long
async def test_an_example_that_needs_what_is_not_there_says_nothing(bench: Bench) -> None:
    source = PROMISED.replace(">>> clamp(-3, 0, 5)", ">>> clamp(far_away(), 0, 5)")
    mended = (FileChange("clamped.py", source, source.replace("max(low, value)", "min(high, max(low, value))")),)
    result = await bench.heal(Scripted([(mended,)]), files={**FILES, "clamped.py": source})
    assert isinstance(result, Repair), result


@pytest.mark.long
async def test_a_change_that_touches_no_function_is_not_challenged(bench: Bench) -> None:
    source = "LIMIT = 3\n"
    files = {"limits.py": source, "test_limits.py": "from limits import LIMIT\n\ndef test_it():\n    assert LIMIT == 4\n"}
    result = await bench.heal(Scripted([((FileChange("limits.py", source, "LIMIT = 4\n"),),)]), files=files)
    assert isinstance(result, Repair), result
    assert not bench.of(events.Degraded)


SPECIFIED = PROMISED.replace(
    "    >>> clamp(7, 0, 5)\n    5\n    >>> clamp(-3, 0, 5)\n    0\n", "    Never above high and never below low.\n"
)
SPECIAL_TOO = (FileChange("clamped.py", SPECIFIED, SPECIFIED.replace("max(low, value)", "high")),)


ACCEPTED = Reply('{"accept": true, "reason": "", "input": ""}')  # the reviewer's word, who comes after


def saying(*asserted: str) -> Reply:
    tests = "\n\n".join(f"def test_{n}():\n    assert {text}" for n, text in enumerate(asserted))
    return Reply(f"```python\nfrom clamped import clamp\n\n{tests}\n```", tokens=(300, 50))


async def healed_beside(bench: Bench, *script: Reply) -> tuple[Repair | NoRepair, ScriptedModel]:
    async with ScriptedModel(script) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "sk-none", timeout=60.0))
        policy = Policy(min_confidence=0)  # a doubt is no objection
        files = {**FILES, "clamped.py": SPECIFIED}
        return await bench.heal(Scripted([(SPECIAL_TOO,)]), files=files, models=models, policy=policy), server


@pytest.mark.long
async def test_a_test_from_the_specification_that_held_before_counts(bench: Bench) -> None:
    result, server = await healed_beside(bench, saying("clamp(3, 0, 5) == 3", "clamp(8, 0, 5) == 5"))
    assert isinstance(result, NoRepair), result
    assert "`clamp(3, 0, 5) == 3`" in result.log.iterations[-1].result
    assert "it passed before" in result.log.iterations[-1].result
    assert (result.usage.calls, result.usage.tokens_in) == (1, 300)
    (asked,) = server.asked
    assert "Never above high" in asked.prompt
    assert "assert clamp(9, 0, 5) == 5" in asked.prompt
    assert "max(low, value)" not in asked.prompt


@pytest.mark.long
async def test_what_a_model_only_believes_does_not_count(bench: Bench) -> None:
    result, _ = await healed_beside(bench, saying("clamp(8, 0, 5) == 5", "clamp(7, 0, 5) == 6"), ACCEPTED)
    assert isinstance(result, Repair), result
    assert "`clamp(7, 0, 5) == 6`" in bench.of(events.Opined)[0].reasons[0]


@pytest.mark.long
async def test_a_malformed_answer_makes_the_challenge_weaker_and_no_more(bench: Bench) -> None:
    result, _ = await healed_beside(bench, Reply("I would rather not."), ACCEPTED)
    assert isinstance(result, Repair), result
    assert [event.step for event in bench.of(events.Degraded)] == ["challenge"]


UNREFUTED = saying("clamp(1, 0, 5) == 1")  # it passes with the change and without it
WORKED_THROUGH = Reply('{"accept": true, "input": "clamp(1, 0, 5) gives 1"}')


@pytest.mark.parametrize(
    ("written", "agreed", "published"),
    [
        (saying("clamp(8, 0, 5) == 5", "clamp(-3, 0, 5) == 0"), ACCEPTED, True),
        (UNREFUTED, ACCEPTED, False),
        (UNREFUTED, WORKED_THROUGH, False),
        (Reply("I would rather not."), WORKED_THROUGH, False),
    ],
    ids=["a test that needs it", "a test that does not", "such a test and an input", "no test"],
)
async def test_a_models_change_needs_a_test_where_there_is_a_specification(
    bench: Bench, written: Reply, agreed: Reply, published: bool
) -> None:
    right = (FileChange("clamped.py", SPECIFIED, SPECIFIED.replace("max(low, value)", "min(high, max(low, value))")),)
    cause = Reply('{"cause": "high is ignored", "category": "logic", "confidence": 0.9}')
    async with ScriptedModel([cause, written, agreed]) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "sk-none", timeout=60.0))
        files = {**FILES, "clamped.py": SPECIFIED}
        result = await bench.heal(Scripted([(right,)], rung="model:scripted"), files=files, models=models)
    assert isinstance(result, Repair) == published
    if isinstance(result, NoRepair):
        assert UNWITNESSED in result.suspects[0].doubts


KEPT = '''\
def is_kept(kind):
    """Whether files of this kind are kept. Kinds of scratch files, tmp and bak, are not."""
    return bool(kind)
'''


@pytest.mark.parametrize(("blind", "published"), [("is_kept('bak') is False", True), ("is_kept('txt') is True", False)])
async def test_a_test_that_was_written_blind_answers_whether_a_change_is_by_heart(
    bench: Bench, blind: str, published: bool
) -> None:
    right = (FileChange("kept.py", KEPT, KEPT.replace("bool(kind)", "bool(kind) and kind not in ('tmp', 'bak')")),)
    cause = Reply('{"cause": "tmp is kept", "category": "logic", "confidence": 0.9}')
    tests = Reply(f"```python\nfrom kept import is_kept\n\ndef test_blind():\n    assert {blind}\n```")
    async with ScriptedModel([cause, tests, WORKED_THROUGH]) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "sk-none", timeout=60.0))
        files = {
            "kept.py": KEPT,
            "test_kept.py": "from kept import is_kept\n\ndef test_tmp():\n    assert is_kept('tmp') is False\n",
        }
        result = await bench.heal(Scripted([(right,)], rung="model:scripted"), files=files, models=models)
    assert isinstance(result, Repair) == published, result
    if isinstance(result, NoRepair):
        assert any("by heart" in doubt or "near it" in doubt for doubt in result.suspects[0].doubts), result.suspects[0].doubts


async def test_a_failing_example_does_not_show_the_code_to_who_writes_tests(bench: Bench) -> None:
    right = (FileChange("clamped.py", PROMISED, PROMISED.replace("max(low, value)", "min(high, max(low, value))")),)
    check = replace(PYTEST, command=f"{PYTEST.command} --doctest-modules")
    cause = Reply('{"cause": "high is ignored", "category": "logic", "confidence": 0.9}')
    async with ScriptedModel([cause, saying("clamp(8, 0, 5) == 5"), WORKED_THROUGH]) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "sk-none", timeout=60.0))
        rung = Scripted([(right,)], rung="model:scripted")
        result = await bench.heal(rung, files=FILES, models=models, checks=(check,))
    assert isinstance(result, Repair), result
    (asked,) = [each.prompt for each in server.asked if each.prompt.startswith("You write tests")]
    assert "assert clamp(9, 0, 5) == 5" in asked
    assert "max(low, value)" not in asked


@pytest.mark.long
async def test_who_writes_tests_sees_a_failing_one_where_it_is_written(bench: Bench) -> None:
    files = {**FILES, "clamped.py": SPECIFIED, "test_all.py": "from checks import *\n", "checks.py": FILES["test_clamped.py"]}
    del files["test_clamped.py"]
    cause = Reply('{"cause": "high is ignored", "category": "logic", "confidence": 0.9}')
    async with ScriptedModel([cause, saying("clamp(8, 0, 5) == 5"), WORKED_THROUGH]) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "sk-none", timeout=60.0))
        right = (FileChange("clamped.py", SPECIFIED, SPECIFIED.replace("max(low, value)", "min(high, max(low, value))")),)
        result = await bench.heal(Scripted([(right,)], rung="model:scripted"), files=files, models=models)
    assert isinstance(result, Repair), result
    (asked,) = [each.prompt for each in server.asked if each.prompt.startswith("You write tests")]
    assert "# checks.py" in asked
    assert "assert clamp(9, 0, 5) == 5" in asked


@pytest.mark.long
async def test_tests_that_were_written_blind_judge_the_next_change_of_the_same_functions_too(bench: Bench) -> None:
    right = (FileChange("clamped.py", SPECIFIED, SPECIFIED.replace("max(low, value)", "min(high, max(low, value))")),)
    script = [saying("clamp(3, 0, 5) == 3", "clamp(8, 0, 5) == 5"), ACCEPTED]
    async with ScriptedModel(script) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "sk-none", timeout=60.0))
        rung = Scripted([(SPECIAL_TOO,), (right,)])
        result = await bench.heal(rung, files={**FILES, "clamped.py": SPECIFIED}, models=models)
    assert isinstance(result, Repair), result
    assert result.edits == right
    assert [opinion.accepted for opinion in bench.of(events.Opined) if opinion.step == "challenge"] == [False, True]
    assert sum(asked.prompt.startswith("You write tests") for asked in server.asked) == 1
    assert not bench.of(events.Degraded)


@pytest.mark.long
async def test_without_docstring_and_comment_no_model_is_asked_for_tests(bench: Bench) -> None:
    bare = "def clamp(value, low, high):\n    return max(low, value)\n"
    edits = (FileChange("clamped.py", bare, bare.replace("max(low, value)", "min(high, max(low, value))")),)
    async with ScriptedModel([ACCEPTED]) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "sk-none", timeout=60.0))
        result = await bench.heal(Scripted([(edits,)]), files={**FILES, "clamped.py": bare}, models=models)
    assert isinstance(result, Repair), result
    (asked,) = server.asked
    assert asked.prompt.startswith("You review")


@pytest.mark.long
async def test_an_error_that_is_expected_and_not_raised_is_odd(bench: Bench) -> None:
    raising = (
        "import pytest\nfrom clamped import clamp\n\ndef test_low():\n    with pytest.raises(ValueError): clamp(1, 5, 0)\n"
    )
    result, server = await healed_beside(bench, Reply(f"```python\n{raising}```"), ACCEPTED)
    assert isinstance(result, Repair), result
    assert "pytest.raises(ValueError)" in bench.of(events.Opined)[0].reasons[0]
    assert server.asked[0].prompt.rstrip().endswith("Write tests for `clamp`.")
