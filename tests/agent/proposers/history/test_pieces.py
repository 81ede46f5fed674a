"""The pieces of a change, and the search for the smallest that has an effect."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from agent.contract.proposal import FileChange
from agent.proposers.history.minimizing import smallest
from agent.proposers.history.pieces import hunks, joined, pieces, whole_lines, with_moved

GOOD = "def f(a, b):\n    total = a + b\n    log(total)\n    return total * 2\n\n\ndef g():\n    return 1\n"
NOW = "def f(a, b):\n    total = a - b\n    return total * 3\n\n\ndef g():\n    return 2\n"
CHANGE = FileChange("m.py", NOW, GOOD)


def results(change: FileChange) -> list[str]:
    return [piece.apply(change.before or "") for piece in pieces((change,))]


@pytest.mark.parametrize(
    "text",
    [
        NOW.replace("a - b", "a + b"),
        NOW.replace("* 3", "* 2"),
        NOW.replace("a - b\n", "a - b\n    log(total)\n"),
        NOW.replace("return 2", "return 1"),
        GOOD,
    ],
    ids=["edited line", "other line of the same hunk", "removed line", "other hunk", "everything"],
)
def test_every_part_can_be_taken_back_by_itself(text: str) -> None:
    assert text in results(CHANGE)


def test_tokens_of_one_line_can_be_taken_back_separately() -> None:
    change = FileChange("m.py", "x = call(first, limit=3)\n", "x = call(second, limit=4)\n")
    assert "x = call(second, limit=3)\n" in results(change)
    assert "x = call(first, limit=4)\n" in results(change)


def test_an_added_line_can_be_taken_back() -> None:
    change = FileChange("m.py", "a\nnew\nb\nnewer\nc\n", "a\nb\nc\n")
    assert "a\nb\nnewer\nc\n" in results(change)


def test_small_pieces_come_first() -> None:
    found = pieces((CHANGE,))
    assert [piece.lines for piece in found] == sorted(piece.lines for piece in found)


LINES = ["a\n", "b\n", "c\n", "  d(x, y)\n", "  d(x, z)\n", "\n"]


def test_all_hunks_together_give_the_text_before() -> None:
    chance = random.Random(1)
    for _ in range(300):
        now, before = ("".join(chance.choices(LINES, k=chance.randrange(12))) for _ in range(2))
        if now == before:
            continue
        assert joined(hunks(FileChange("m", now, before)), now).apply(now) == before


@pytest.mark.parametrize(("needed", "most"), [({17}, 16), ({17, 42}, 80)])
async def test_the_smallest_part_is_found_by_few_runs(needed: set[int], most: int) -> None:
    runs = 0

    async def has_effect(parts: Sequence[int]) -> bool:
        nonlocal runs
        runs += 1
        return needed <= set(parts)

    assert await smallest(range(64), has_effect) == sorted(needed)
    assert runs <= most


async def test_the_smallest_part_so_far_is_kept_when_time_is_over() -> None:
    answers = iter([True, True])

    async def has_effect(parts: Sequence[int]) -> bool | None:
        return next(answers, None)

    assert await smallest(range(8), has_effect) == [0, 1]


def test_long_lines_and_long_removals_take_no_long_time() -> None:
    calls = ",".join(f"a({n},{n + 1})" for n in range(5_000))
    found = pieces((FileChange("m.py", f"x = [{calls}]\n", f"x = [{calls},1]\n"),))
    assert [piece.lines for piece in found] == [2]
    removed = "".join(f"line_{n} = {n}\n" for n in range(20_000))
    assert sum(len(piece.text) for piece in pieces((FileChange("m.py", "a = 1\n", f"a = 1\n{removed}"),))) < 4 * len(removed)


GOOD_CALL = "log(\n    level,\n    text,\n    name,\n)\n"
SWAPPED = "log(\n    text,\n    level,\n    name,\n)\n"


def test_half_of_a_move_is_not_taken_back() -> None:
    part = FileChange("m.py", SWAPPED, SWAPPED.replace("    text,\n", "", 1))
    whole = with_moved(FileChange("m.py", SWAPPED, GOOD_CALL), part)
    assert whole is not None
    assert whole.after == GOOD_CALL


def test_other_edits_nearby_are_no_move() -> None:
    now, good = "a = 1\nb = 20\nc = 3\nd = 40\n", "a = 1\nb = 2\nc = 3\nd = 4\n"
    assert with_moved(FileChange("m.py", now, good), FileChange("m.py", now, now.replace("20", "2"))) is None


def test_a_line_is_shown_as_it_was_before_the_change() -> None:
    now, good = 'raise E("no timestamp found", payload=1)\n', 'raise E("timestamp missing", payload=1)\n'
    mixed = FileChange("m.py", now, now.replace("found", "missing"))
    assert whole_lines(FileChange("m.py", now, good), mixed).after == good
    whole = FileChange("m.py", "a\nb\nc\n", "a\nB\nC\n")
    assert whole_lines(whole, FileChange("m.py", "a\nb\nc\n", "a\nB\nc\n")).after == "a\nB\nc\n"
