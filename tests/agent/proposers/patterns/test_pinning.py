"""Mutations of a change itself tell whether the tests decide what it should be."""

from pathlib import Path

import pytest

from agent.contract.proposal import Edits, FileChange
from agent.proposers.patterns.neighbours import neighbours
from agent.proposers.patterns.pinning import Pinning, pinning
from tests.agent.stage import situation
from tests.agent.workbench import sandbox_with

BEFORE = "def share(part, whole):\n    return part / 10\n\n\ndef other(n):\n    return n + 1\n"


def change(before: str, after: str, text: str = BEFORE) -> FileChange:
    assert before in text
    return FileChange("m.py", text, text.replace(before, after, 1))


def tried(written: FileChange) -> list[str]:
    """The changed line of each neighbour."""
    assert written.before is not None
    texts = [near.rewrite.apply(written.before) for near in neighbours(written)]
    lines = set(written.before.splitlines()) | set((written.after or "").splitlines())
    return [line.strip() for text in texts for line in text.splitlines() if line not in lines]


def test_constants_operators_and_operands_of_what_was_written_are_mutated() -> None:
    found = tried(change("part / 10", "part / 100 if part > whole else 0"))
    assert "return part / 100 if part >= whole else 0" in found
    assert "return part / 100 if part > whole else 1" in found
    assert len(found) == len(set(found))


def test_another_operand_is_tried() -> None:
    three = "def f(a, b, c):\n    return 2\n"
    assert "return a * c" in tried(change("return 2", "return a * b", three))


def test_operators_that_nobody_means_make_no_neighbour() -> None:
    found = tried(change("part / 10", "0 if part == whole else part + whole"))
    assert "return 0 if part != whole else part + whole" in found
    assert "return 0 if part == whole else part - whole" in found
    assert not [line for line in found if {"is", "in", "|"} & set(line.split())]


def test_a_constant_of_another_kind_makes_no_neighbour() -> None:
    found = tried(change("part / 10", "False if part is None else 1 if whole else None"))
    assert "return True if part is None else 1 if whole else None" in found
    assert "return False if part is None else 2 if whole else None" in found
    assert "return False if part == None else 1 if whole else None" not in found
    assert not [line for line in found if "None if" in line or not line.endswith("else None")]


def test_a_neighbour_is_named_by_its_line_in_the_changed_file() -> None:
    written = change("    return part / 10\n", "    result = 0\n    result += part / 100\n    return result\n")
    assert {near.line for near in neighbours(written)} == {2, 3, 4}


def test_what_the_change_left_alone_is_not_mutated() -> None:
    assert [line for line in tried(change("part / 10", "part / whole")) if "n" in line.replace("return", "").split()] == []
    assert [line for line in tried(change("10", "100")) if line == "return whole / 100"] == []


def test_the_code_before_the_change_is_no_neighbour() -> None:
    written = change("n + 1", "n - 1")
    assert "return n + 1" not in tried(written)
    assert written.before not in [near.rewrite.apply(written.before or "") for near in neighbours(written)]


def test_a_new_file_and_what_is_no_python_have_no_neighbours() -> None:
    assert neighbours(FileChange("m.py", None, "x = 1\n")) == []
    assert neighbours(FileChange("m.py", "x = 1\n", None)) == []
    assert neighbours(FileChange("m.py", "x = (\n", "x = 1\n")) == []


async def pinned(folder: Path, edits: Edits, tests: str) -> Pinning:
    files = {"m.py": BEFORE, "test_m.py": "from m import share, other\n\n" + tests}
    async with sandbox_with(folder, files) as sandbox:
        return await pinning(await situation(sandbox), edits)


@pytest.mark.long
async def test_neighbours_that_pass_the_same_tests_are_named(tmp_path: Path) -> None:
    loose = "def test_share():\n    assert share(0, 5) == 0\n    assert share(100, 5) < 2\n"
    found = await pinned(tmp_path, (change("part / 10", "part / 100"),), loose)
    assert found.tried > 0
    assert found.passing, "no test says that it is 100"
    afters = {each.edits[0].after for each in found.passing}
    assert change("part / 10", "part / 100").after not in afters
    assert all(each.title for each in found.passing)


@pytest.mark.long
async def test_where_the_tests_decide_no_neighbour_passes(tmp_path: Path) -> None:
    tight = "def test_share():\n    assert share(100, 5) == 1.0\n    assert share(250, 7) == 2.5\n"
    found = await pinned(tmp_path, (change("part / 10", "part / 100"),), tight)
    assert found.tried > 0
    assert found.passing == ()


@pytest.mark.parametrize("edits", [(change("10", "100"), FileChange("n.py", None, "")), (FileChange("m.rs", "1", "2"),)])
async def test_a_change_of_several_files_or_of_another_language_is_not_tried(tmp_path: Path, edits: Edits) -> None:
    tests = "def test_share():\n    assert share(100, 5) == 1.0\n"
    assert await pinned(tmp_path, edits, tests) == Pinning()
