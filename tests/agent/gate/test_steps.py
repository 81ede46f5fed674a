"""The gate where steps come before a check: what they make may follow from a change, what decides may not."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.checks.oracle import base_of, tampering
from agent.contract.outcome import NoRepair, Repair
from agent.contract.proposal import FileChange
from agent.contract.verdicts import CheckRun, Step
from tests.agent.workbench import PYTEST, RIGHT, Bench, Scripted, change

VALUES = 'echo "SUM=$(python -c "import calc; print(calc.add(1, 2))")" >> "$GITHUB_ENV"'
FILES = "mkdir -p tests build && date +%N > tests/stamp.txt && cp calc.py build/made.py"
DIGESTS = ["0" * 16, "1" * 16, "f" * 16]
EDITS = (FileChange("a.py", "", "1"),)


@pytest.mark.long
async def test_values_and_files_that_follow_from_a_repair_are_no_offence(tmp_path: Path) -> None:
    check = replace(PYTEST, before=(Step("Values", VALUES), Step("Files", FILES)))
    result = await Bench(tmp_path).heal(Scripted([(RIGHT,)]), checks=(check,))
    assert isinstance(result, Repair), result


@pytest.mark.long
async def test_a_repair_that_has_a_step_change_a_test_is_none(tmp_path: Path) -> None:
    step = Step("Write", 'python -c "import calc; calc.write()"')
    check = replace(PYTEST, before=(step,))
    code = "def write():\n    pass\n\n\ndef add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a * 2\n"
    wrong = change("    pass", "    __import__('os').rename('test_' + 'calc.py', 'other.py')", source=code)
    wrong = (replace(wrong[0], after=str(wrong[0].after).replace("a - b", "a + b")),)
    files = {"calc.py": code, "test_calc.py": "from calc import add\n\ndef test_add():\n    assert add(2, 3) == 5\n"}
    assert isinstance(await Bench(tmp_path).heal(Scripted([(wrong,)]), files=files, checks=(check,)), NoRepair)


def test_only_what_the_base_did_not_do_is_an_offence() -> None:
    base, run = (
        CheckRun("tests", "finished", {}, (), 1.0, prepared=frozenset(each.format(*DIGESTS) for each in prepared))
        for prepared in (["made tests/a ({0})"], ["made tests/a ({1})", "led to build"])
    )
    assert tampering(base, run, EDITS) == (
        "a step before the tests led to build", "a step before the tests made tests/a",
    )  # fmt: skip
    assert tampering(run, base, EDITS) == ("a step before the tests made tests/a",)
    assert not tampering(run, run, EDITS)


def test_what_the_base_does_otherwise_each_time_a_change_may_do_otherwise_too() -> None:
    first, second, run = (
        CheckRun("tests", "finished", {}, (), 1.0, prepared=frozenset({f"made tests/a ({digest})"})) for digest in DIGESTS
    )
    (base,) = base_of([(first,), (second,)])
    assert not tampering(base, run, EDITS)
