"""What a patch takes back of an earlier change."""

from __future__ import annotations

import pytest

from agent.contract.proposal import FileChange
from agent.edits.reversals import is_same, lost_names, ranges_of, taken_back, touches

GOOD = "a = 1\nb = 2\nc = 3\nd = 4\n"
NOW = "a = 1\nb = 20\nc = 3\nd = 4\ne = 5\n"  # one line edited, one added
REVERSAL = (FileChange("m.py", NOW, GOOD),)


def patched(text: str) -> tuple[FileChange, ...]:
    return (FileChange("m.py", NOW, text),)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (GOOD, 3),
        (NOW.replace("20", "2"), 2),  # the edited line stands as before: one line removed, one back
        (NOW.replace("e = 5\n", ""), 1),
        (NOW.replace("20", "21"), 0),  # rewritten into something new
        (NOW.replace("d = 4", "d = 5"), 0),  # elsewhere
    ],
)
def test_lines_that_stand_as_before_are_taken_back(text: str, lines: int) -> None:
    assert taken_back(patched(text), REVERSAL) == (lines, 3)


def test_a_file_that_the_change_added_is_taken_back_by_removing_it() -> None:
    assert taken_back((FileChange("new.py", "x\ny\n", None),), (FileChange("new.py", "x\ny\n", None),)) == (2, 2)


def test_the_touched_lines_are_those_of_the_text_with_the_change() -> None:
    assert ranges_of(REVERSAL) == {"m.py": [(2, 2), (5, 5)]}


@pytest.mark.parametrize(
    "text",
    [
        NOW.replace("20", "21"),
        NOW.replace("c = 3", "c = 4"),  # beside an edited line
        NOW.replace("b = 20\n", "b = 20\nx = 1\n"),
        NOW.replace("b = 20\n", ""),
        GOOD,
    ],
)
def test_a_patch_of_a_changed_line_or_one_beside_it_touches_the_change(text: str) -> None:
    assert touches(patched(text), REVERSAL)


def test_a_patch_of_other_lines_or_files_does_not() -> None:
    now = "".join(f"x{n} = {n}\n" for n in range(20))
    reversal = (FileChange("m.py", now, now.replace("x3 = 3", "x3 = 30")),)
    assert not touches((FileChange("m.py", now, now.replace("x10 = 10", "x10 = 0")),), reversal)
    assert not touches((FileChange("n.py", now, now.replace("x3 = 3", "x3 = 30")),), reversal)


def test_the_same_program_in_another_layout_is_the_same() -> None:
    assert is_same(patched("a = (1)\nb = 2  # two\n"), patched("a = 1\nb = 2\n"))
    assert not is_same(patched("a = 1\n"), patched("a = 2\n"))
    assert not is_same(patched("a = 1\n"), (FileChange("other.py", NOW, "a = 1\n"),))


def test_names_that_the_change_added_must_not_vanish() -> None:
    good, now = "def f():\n    pass\n", "def f():\n    pass\n\n\nclass New:\n    def method(self):\n        pass\n"
    reversal = (FileChange("m.py", now, good),)
    assert lost_names((FileChange("m.py", now, good),), reversal) == ("New", "method")
    assert lost_names((FileChange("m.py", now, now.replace("method", "other")),), reversal) == ("method",)
    assert lost_names((FileChange("m.py", now, now.replace("pass", "return 1")),), reversal) == ()


DOCUMENTED = 'def f(x):\n    """A docstring\n    of three\n    lines."""\n    # A comment.\n    return x + 2\n'


@pytest.mark.parametrize(
    ("path", "text", "undone"),
    [
        ("m.py", "def f(x):\n    return x + 1\n", (2, 2)),
        ("m.py", DOCUMENTED.replace("x + 2", "x + 1"), (2, 2)),
        ("package-lock.json", "{}\n", (0, 0)),
    ],
    ids=["all", "the code alone", "a lock file"],
)
def test_only_code_counts(path: str, text: str, undone: tuple[int, int]) -> None:
    reversal = (FileChange(path, DOCUMENTED, "def f(x):\n    return x + 1\n"),)
    assert taken_back((FileChange(path, DOCUMENTED, text),), reversal) == undone


def test_a_comment_in_the_place_of_a_guard_keeps_nothing() -> None:
    now = "def f(x):\n    if x < 0:\n        raise ValueError(x)\n    return x\n"
    reversal = (FileChange("m.py", now, "def f(x):\n    return x\n"),)
    patch = (FileChange("m.py", now, "def f(x):\n    # one\n    # two\n    return x\n"),)
    assert taken_back(patch, reversal) == (2, 2)
