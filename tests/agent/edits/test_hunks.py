"""A change comes apart into hunks, and each can be left out alone."""

from __future__ import annotations

import random

import pytest

from agent.contract.proposal import FileChange
from agent.edits.changes import changed_lines
from agent.edits.hunks import depends_on_others, hunks, merge, without_hunk

LINES = [f"line {n}\n" for n in range(30)]


def changed(*at: int) -> FileChange:
    return FileChange("a.py", "".join(LINES), "".join(f"new {n}\n" if n in at else line for n, line in enumerate(LINES)))


def test_neighbouring_lines_are_one_hunk_and_distant_ones_are_several() -> None:
    assert hunks((changed(3, 4, 5),)) == 1
    assert hunks((changed(3, 9, 20),)) == 3
    assert hunks((changed(3), FileChange("b.py", None, "x\n"), FileChange("c.py", "x\n", None))) == 3


def test_one_hunk_is_left_out_and_the_others_stay() -> None:
    assert without_hunk((changed(3, 9, 20),), 1) == (changed(3, 20),)
    new, gone = FileChange("b.py", None, "x\n"), FileChange("c.py", "x\n", None)
    assert without_hunk((changed(3), new, gone), 0) == (new, gone)
    assert without_hunk((changed(3), new, gone), 1) == (changed(3), gone)
    assert without_hunk((changed(3), new, gone), 2) == (changed(3), new)


def test_inserted_and_deleted_lines_and_a_missing_last_line_end_come_back_exactly() -> None:
    before = "a\nb\nc\nd\ne\nf"
    after = "a\nB\nc\ne\nf\ng\n"
    edits = (FileChange("a.txt", before, after),)
    for number in reversed(range(hunks(edits))):
        edits = without_hunk(edits, number)
    assert edits == ()


@pytest.mark.parametrize("seed", range(20))
def test_each_hunk_left_out_makes_the_change_smaller(seed: int) -> None:
    chance = random.Random(seed)
    edits = (changed(*chance.sample(range(30), 8)),)
    count = hunks(edits)
    for number in range(count):
        smaller = without_hunk(edits, number)
        assert hunks(smaller) == count - 1
        assert changed_lines(smaller) < changed_lines(edits)


def test_changes_of_different_lines_become_one() -> None:
    assert merge((changed(3),), (changed(20, 21),)) == (changed(3, 20, 21),)
    other = FileChange("b.py", None, "x\n")
    assert merge((changed(3),), (other,)) == (changed(3), other)


def test_what_both_changes_have_is_had_once() -> None:
    before = "x = 1\ny = 2\nz = 3\n"
    mine = FileChange("a.py", before, "import os\n" + before.replace("2", "20"))
    yours = FileChange("a.py", before, "import os\n" + before.replace("3", "30"))
    assert merge((mine,), (yours,)) == (FileChange("a.py", before, "import os\nx = 1\ny = 20\nz = 30\n"),)
    new = FileChange("b.py", None, "x\n")
    assert merge((mine, new), (new,)) == (mine, new)
    left, right = (FileChange("a.py", before, f"import {name}\n{before}") for name in ("os", "re"))
    assert merge((left,), (right,)) == (FileChange("a.py", before, f"import os\nimport re\n{before}"),)


def test_changes_of_the_same_lines_stay_apart() -> None:
    mine = FileChange("a.py", "a\nb\n", "A\nb\n")
    assert merge((mine,), (FileChange("a.py", "a\nb\n", "X\nb\n"),)) is None
    assert merge((mine,), (FileChange("a.py", "other\n", "X\n"),)) is None
    assert merge((mine,), (FileChange("a.py", "a\nb\n", None),)) is None


def test_a_hunk_that_uses_what_another_brings_in_is_part_of_it() -> None:
    code = "def at(text):\n    lines = text.split()\n    one = 1\n    return len(text.split())\n\n\ndef far():\n    return 1\n"
    new = code.replace("lines = text.split()", "rows = text.split('-')").replace("len(text.split())", "len(rows)")
    edits = (FileChange("a.py", code, new.replace("return 1", "return 2")),)
    assert [depends_on_others(edits, at) for at in range(3)] == [True, True, False]
    alone = (FileChange("a.py", code, code.replace("one = 1", "one = 3").replace("return 1", "return 2")),)
    assert not depends_on_others(alone, 0)
