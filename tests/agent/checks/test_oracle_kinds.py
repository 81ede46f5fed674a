"""Red that is no failing test: findings of real linters and type checkers, and steps that only exit. Same graph, same gate."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent.contract import events
from agent.contract.outcome import NoRepair, Outcome, Repair
from agent.contract.proposal import Edits, FileChange
from agent.contract.verdicts import Check
from tests.agent.workbench import PYTEST, RIGHT, Bench, Scripted

MODEL = "model:scripted"
LINT = Check("lint", f"{sys.executable} -m ruff check --no-cache .", "findings", timeout=30)
TYPES = Check("types", f"{sys.executable} -m mypy --cache-dir=/dev/null --no-site-packages calc.py", "findings", timeout=60)
BUILD = Check("build", f"{sys.executable} -m compileall -q -f calc.py", "exit", timeout=30)
UNUSED = "import os\nimport sys\n\n\ndef add(a, b):\n    return a + b\n\n\ndef name():\n    return sys.executable\n"
UNTYPED = "def add(a: int, b: int) -> int:\n    return str(a + b)\n\n\ndef half(a: int) -> float:\n    return a / 2\n"
TESTS = "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def edit(before: str, old: str, new: str, path: str = "calc.py") -> Edits:
    assert old in before
    return (FileChange(path, before, before.replace(old, new, 1)),)


@pytest.mark.long
async def test_a_lint_finding_is_healed_beside_green_tests(bench: Bench) -> None:
    right = edit(UNUSED, "import os\n", "")
    files = {"calc.py": UNUSED, "test_calc.py": TESTS}
    result = await bench.heal(Scripted([(right,)], rung=MODEL), files=files, checks=(LINT, PYTEST))
    assert isinstance(result, Repair), result
    lint, tests = result.evidence.checks
    assert lint.target == ("calc.py: F401 `os` imported but unused",)
    assert (lint.base_red, lint.with_red, lint.without_red) == (1, 0, 1)
    assert (tests.target, tests.with_green) == ((), 1)
    assert bench.of(events.Localized)[0].suspects[0].startswith("calc.py:1-1")


@pytest.mark.long
async def test_a_lint_repair_that_breaks_a_test_is_refused(bench: Bench) -> None:
    files = {"calc.py": UNUSED, "test_calc.py": TESTS + "\n\ndef test_os():\n    import calc\n\n    assert calc.os\n"}
    gone = edit(UNUSED, "import os\n", "")
    result = await bench.heal(Scripted([(gone,)], rung=MODEL), files=files, checks=(LINT, PYTEST))
    assert isinstance(result, NoRepair)
    assert "breaks `test_calc.py::test_os`" in result.log.iterations[0].result


async def test_a_finding_that_gives_way_to_another_is_no_repair(bench: Bench) -> None:
    worse = edit(UNUSED, "import os\n", "import re\n")
    result = await bench.heal(Scripted([(worse,)], rung=MODEL), files={"calc.py": UNUSED}, checks=(LINT,))
    assert isinstance(result, NoRepair)
    assert "F401 `re` imported but unused" in result.log.iterations[0].result


async def test_a_file_that_the_linter_cannot_read_any_more_is_no_repair(bench: Bench) -> None:
    worse = edit(UNUSED, "import os\n", "import (\n")
    result = await bench.heal(Scripted([(worse,)], rung=MODEL), files={"calc.py": UNUSED}, checks=(LINT,))
    assert isinstance(result, NoRepair)
    assert "Python" in result.log.iterations[0].result
    assert not bench.of(events.Verified), "nothing has to run to know it"


@pytest.mark.parametrize(
    "silenced",
    [
        edit(UNUSED, "import os\n", "import os  # noqa: F401\n"),
        edit(UNUSED, "import os\n", "# ruff: noqa\nimport os\n"),
        edit(UNUSED, "import os\n", "# flake8: noqa: F401\nimport os\n"),
        edit("", "", "[tool.ruff.lint]\nignore = ['F401']\n", "pyproject.toml"),
        edit("", "", "lint.ignore = ['F401']\n", "ruff.toml"),
        edit("", "", "exclude = ['*.py']\n", "pkg/.ruff.toml"),
    ],
    ids=["noqa", "ruff: noqa", "flake8: noqa", "pyproject.toml", "ruff.toml", ".ruff.toml in a folder"],
)
async def test_silencing_the_linter_is_refused_before_anything_runs(bench: Bench, silenced: Edits) -> None:
    files = {"calc.py": UNUSED, **({"pyproject.toml": ""} if silenced[0].path == "pyproject.toml" else {})}
    result = await bench.heal(Scripted([(silenced,)], rung=MODEL), files=files, checks=(LINT,))
    assert isinstance(result, NoRepair)
    assert [event.rule for event in bench.of(events.Guarded)] in (["silenced"], ["settings"])
    assert not bench.of(events.Verified)


@pytest.mark.long
async def test_a_type_error_is_healed_and_a_silenced_one_is_not(bench: Bench) -> None:
    silenced = [edit(UNTYPED, "str(a + b)", f"str(a + b)  # {word}") for word in ("type: ignore", "pyright: ignore")]
    silenced += [edit(UNTYPED, "def add", f"# mypy: {word}\ndef add") for word in ("ignore-errors", 'disable-error-code="x"')]
    right = edit(UNTYPED, "str(a + b)", "a + b")
    model = Scripted([*((change,) for change in silenced), (right,)], rung=MODEL)
    result = await bench.heal(model, files={"calc.py": UNTYPED}, checks=(TYPES,))
    assert isinstance(result, Repair), result
    assert len(bench.of(events.Guarded)) == len(silenced)
    assert "Incompatible return value type" in result.evidence.checks[0].target[0]
    assert result.edits == right


@pytest.mark.long
async def test_green_tests_of_a_command_that_the_change_makes_red_are_no_repair(bench: Bench) -> None:
    for after in ("&& { grep -q 'a - b' calc.py || { echo spoilt; exit 3; }; }", "&& { sed -n 2p calc.py; exit 3; }"):
        check = replace(PYTEST, command=f"{PYTEST.command} {after}")
        result = await Bench(bench.folder / str(len(after))).heal(Scripted([(RIGHT,)]), checks=(check,))
        assert isinstance(result, NoRepair), after
        told = result.log.iterations[0].result
        assert told.startswith("its tests pass, but the command still exits with 3: ")
        assert "1 change makes the failing tests pass, but the command still exits with 3: " in result.reason


@pytest.mark.long
async def test_what_fails_after_the_tests_without_the_change_too_is_asked_about(bench: Bench) -> None:
    for after in ("&& { echo no network; exit 3; }", "; echo no network; exit 3"):
        check = replace(PYTEST, command=f"{PYTEST.command} {after}")
        result = await Bench(bench.folder / str(len(after))).heal(Scripted([(RIGHT,)]), checks=(check,))
        assert isinstance(result, NoRepair), (after, result)
        (suspect,) = result.suspects
        assert "what `tests` does after its tests fails with it and without it (`exit code 3: no network`)" in suspect.doubts
        assert suspect.evidence.checks[0].with_red == 0


@pytest.mark.long
async def test_what_fails_with_another_number_fails_alike(bench: Bench) -> None:
    report = "&& { echo total of $(cksum < calc.py | cut -c1-2) is less than 97; exit 2; }"
    check = replace(PYTEST, command=f"{PYTEST.command} {report}")
    result = await bench.heal(Scripted([(RIGHT,)]), checks=(check,))
    assert isinstance(result, NoRepair), result
    assert "fails with it and without it (`exit code 2: total of" in " ".join(result.suspects[0].doubts)


@pytest.mark.long
async def test_what_fails_behind_green_tests_is_healed(bench: Bench) -> None:
    check = replace(PYTEST, command=f"{PYTEST.command} && {LINT.command}")
    files = {"calc.py": UNUSED, "test_calc.py": TESTS}
    right = edit(UNUSED, "import os\n", "")
    result = await bench.heal(Scripted([(right,)], rung=MODEL), files=files, checks=(check,))
    assert isinstance(result, Repair), result
    assert result.evidence.checks[0].target == ("exit",)


async def test_a_step_that_only_exits_is_healed(bench: Bench) -> None:
    broken = "def add(a, b:\n    return a + b\n"
    wrong, right = edit(broken, "b:", "b):)"), edit(broken, "b:", "b):")
    model = Scripted([(wrong,), (right,)], rung=MODEL)
    result = await bench.heal(model, files={"calc.py": broken}, checks=(BUILD,))
    assert isinstance(result, Repair), result
    assert result.evidence.checks[0].target == ("exit",)
    assert "the check reports only an exit code" in result.doubts
    assert [event.still_red for event in bench.of(events.Verified)] == [["exit"], []]
    assert bench.of(events.Localized)[0].suspects


async def test_a_command_that_is_not_there_says_nothing_of_the_code(bench: Bench) -> None:
    missing = Check("build", "no-such-program --all", "exit", timeout=30)
    result = await bench.heal(
        Scripted([(edit(UNTYPED, "a / 2", "a * 0.5"),)], rung=MODEL), files={"calc.py": UNTYPED}, checks=(missing,)
    )
    assert isinstance(result, NoRepair)
    assert result.outcome is Outcome.INFRASTRUCTURE
    assert "exited with code 127" in result.reason
    assert "Fix the command" in result.next_step
