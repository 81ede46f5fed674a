"""Diffs of a manifest apply exactly, or not at all."""

from __future__ import annotations

import random

import pytest

from agent.bench.packages import DoesNotApply, applied
from agent.contract.proposal import FileChange
from agent.edits.changes import diff


def test_what_was_told_as_a_diff_comes_back() -> None:
    rng = random.Random(7)
    for _ in range(200):
        before = [f"{rng.choice('abc')}\n" for _ in range(rng.randint(1, 30))]
        after = [line for line in before if rng.random() > 0.2]
        for _ in range(rng.randint(1, 4)):
            after.insert(rng.randint(0, len(after)), f"-- {rng.random()}\n")
        one, other = "".join(before)[: rng.choice((None, -1))], "".join(after)[: rng.choice((None, -1))]
        edits = (FileChange("pkg/a.py", one, other), FileChange("b.py", "x\n", "y\n"))
        texts = {"pkg/a.py": one, "b.py": "x\n", "c.py": "z\n"}
        assert applied(diff(edits), texts) == {"pkg/a.py": other, "b.py": "y\n"}


def test_files_come_and_go() -> None:
    edits = (FileChange("new.py", None, "a\nb\n"), FileChange("old.py", "c\n", None))
    assert applied(f"diff --git a/x b/x\nindex 1..2 100644\n{diff(edits)}", {"old.py": "c\n"}) == {
        "new.py": "a\nb\n",
        "old.py": None,
    }


def test_another_base_is_noticed() -> None:
    told = diff((FileChange("a.py", "one\ntwo\n", "one\n2\n"),))
    with pytest.raises(DoesNotApply, match=r"a\.py, @@"):
        applied(told, {"a.py": "one\nthree\n"})
