"""Patches that undo the change since the last good commit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.contract.last_good import Culprit, Regression
from agent.contract.proposal import Candidate, FileChange, Span
from agent.guard.reversals import doubt, undoing

GOOD = "".join(f"x{n} = {n}\n" for n in range(20))
NOW = (
    GOOD.replace("x3 = 3\n", "x3 = 30\n")
    .replace("x9 = 9\n", "x9 = 90\nnew = 1\nnewer = 2\n")
    .replace("x15 = 15\n", "x15 = 0\n")
)
CHANGE = (FileChange("m.py", NOW, GOOD),)
PART = (FileChange("m.py", NOW, NOW.replace("x15 = 0\n", "x15 = 15\n")),)


def patch(before: str, after: str, rung: str = "patterns") -> Candidate:
    return Candidate(rung, (FileChange("m.py", NOW, NOW.replace(before, after)),), "a patch")


def regression(*tests: str) -> Regression:
    return Regression("the parent commit 3f2a91c0de", CHANGE, tests, ("test_m.py::test_x",))


def culprit(*breaks: str) -> Culprit:
    return Culprit("the parent commit 3f2a91c0de", PART, (), 2, 8, breaks)


@pytest.mark.parametrize("rung", ["patterns", "model:m", "tools"])
def test_most_of_the_change_is_never_taken_back(rung: str) -> None:
    whole = Candidate(rung, CHANGE, "as before")
    assert "takes back every line of code that changed" in undoing(whole, regression("test_m.py"), None)


def test_a_search_may_restore_the_lines_that_broke_the_tests_if_the_author_kept_the_tests_up_to_date() -> None:
    assert undoing(patch("x15 = 0", "x15 = (15)"), regression("test_m.py"), culprit()) == ""


def test_without_a_changed_test_the_change_may_be_intended() -> None:
    assert "may be intended" in undoing(patch("x15 = 0", "x15 = 15"), regression(), culprit())
    assert "may be intended" in undoing(patch("x1 = 1", "x1 = 2"), regression(), None)


@pytest.mark.parametrize(
    ("messages", "prose", "where"),
    [
        ("Slugs use underscores; add anchor()", "", "the message"),
        ("Add anchor()", "Slugs now use underscores.\n", "`README.md`"),
        ("Add anchor()", "Anchors are new.\n", ""),
        ("", "", ""),
    ],
)
def test_what_the_author_wrote_about_is_no_slip(messages: str, prose: str, where: str) -> None:
    place = Span("m.py", 1, 1, 1.0, "", "text.Text.slug")
    known = replace(culprit(), places=(place,))
    documented = (*CHANGE, FileChange("README.md", f"shop\n{prose}", "shop\n"))
    seen = replace(regression("test_m.py"), reversal=documented, messages=messages)
    told = undoing(patch("x15 = 0", "x15 = 15"), seen, known)
    assert told.startswith(where)
    assert ("may be intended" in told) is bool(where)
    assert undoing(patch("x15 = 0", "x15 = 15", "model:m"), seen, known) == ""


def test_a_model_knows_the_change_and_may_correct_it() -> None:
    assert undoing(patch("x15 = 0", "x15 = 15", "model:m"), regression(), culprit()) == ""
    assert undoing(patch("x1 = 1", "x1 = 2", "model:m"), regression(), culprit()) == ""


@pytest.mark.parametrize(("before", "after"), [("x1 = 1", "x1 = 2"), ("x15 = 0", "x15 = 16")])
def test_a_search_must_not_invent_what_is_known_to_have_passed(before: str, after: str) -> None:
    assert "differs from what stood" in undoing(patch(before, after), regression("test_m.py"), culprit())


def test_a_search_is_free_where_the_culprit_is_unknown() -> None:
    assert undoing(patch("x1 = 1", "x1 = 2"), regression("test_m.py"), None) == ""


def test_lines_that_other_tests_need_are_not_taken_back() -> None:
    broken = culprit("test_m.py::test_new")
    assert "breaks `test_m.py::test_new`" in undoing(patch("x15 = 0", "x15 = 15"), regression("test_m.py"), broken)


def test_a_patch_that_takes_back_a_part_is_doubted() -> None:
    assert doubt(patch("x15 = 0", "x15 = 15"), regression()) == (
        "it takes back 2 of the 8 lines of code that changed since the parent commit 3f2a91c0de"
    )
    assert doubt(patch("x1 = 1", "x1 = 2"), regression()) == ""


SMALL = (FileChange("m.py", "a = 1\nb = 20\nnew = 3\n", "a = 1\nb = 2\n"),)
SLIP = (FileChange("m.py", "a = 1\nb = 20\nnew = 3\n", "a = 1\nb = 2\nnew = 3\n"),)


@pytest.mark.parametrize(
    ("tests", "breaks", "refused"), [(("test_m.py",), (), ""), ((), (), "2 of the 3"), (("test_m.py",), None, "2 of the 3")]
)
def test_a_slip_in_a_small_change_is_repaired_if_the_authors_own_tests_agree(
    tests: tuple[str, ...], breaks: tuple[str, ...] | None, refused: str
) -> None:
    known = Regression("x", SMALL, tests, ("test_m.py::test_x",))
    found = Culprit("x", SLIP, (), 2, 3, breaks)
    said = undoing(Candidate("patterns", SLIP, "as before"), known, found)
    assert refused in said if refused else said == ""


def test_a_change_that_is_nothing_but_the_slip_is_never_taken_back() -> None:
    known = Regression("x", SLIP, ("test_m.py",), ("test_m.py::test_x",))
    assert "takes back every line of code" in undoing(Candidate("patterns", SLIP, ""), known, Culprit("x", SLIP, (), 2, 2, ()))
