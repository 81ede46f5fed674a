"""A failing test with other values in it, with the change and without."""

from __future__ import annotations

import pytest

from agent.challenge.varied import Ending, Runs, Varied, question, variations

FILE = '''\
import pytest
from sales import revenue

NAME = "march.csv"


@pytest.fixture
def export(tmp_path):
    """The file "march.csv"."""
    return tmp_path / "march.csv"


@pytest.mark.parametrize("name, é", [("march.csv", 7)])
def test_counts(export, name, é):
    assert revenue(export, f"{name} 7") == 37.5


class TestMore:
    def setup_method(self):
        self.discount = 12

    def test_it(self):
        assert revenue("april.csv") == 99
'''


def test_a_value_is_replaced_everywhere_but_in_texts_that_are_no_values() -> None:
    made = list(variations(FILE, ["test_counts"], ["march.csv"]))
    first = made[0]
    assert (first.value, first.other, first.is_new) == ("march.csv", "amrch.csv", True)
    assert first.text == FILE.replace('"march.csv"', "('amrch.csv')").replace("The file ('amrch.csv')", 'The file "march.csv"')
    assert {each.value for each in made} == {"march.csv", 7, 37.5, 12}
    assert all(compile(each.text, "t.py", "exec") for each in made)


def test_values_of_a_class_and_of_its_test() -> None:
    assert {each.value for each in variations(FILE, ["TestMore::test_it"], [])} == {"april.csv", 99, "march.csv", 12}


def test_odd_newlines_and_numbers_do_not_matter() -> None:
    text = f"x = 1\rdef test():\r\n    assert f('é', 7) == 0x{'f' * 4000}\r    y = 1e999\n"
    made = list(variations(text, ["test"], []))
    assert {each.value for each in made} == {"é", 7, 1}
    assert "f('é', (8))" in next(each.text for each in made if each.value == 7)


@pytest.mark.parametrize("text", ["def test(:", "\0", "(" * 500])
def test_a_file_that_cannot_be_read_has_no_variations(text: str) -> None:
    assert not list(variations(text, ["test"], [7]))


OWN = (("AssertionError: assert 69 == 51",), ())


def runs(*varied: tuple[object, object, bool, Ending, Ending]) -> Runs:
    return Runs(OWN, [(Varied(value, other, new, ""), base, now) for value, other, new, base, now in varied])  # type: ignore[arg-type]


def failing(*said: str) -> Ending:
    return tuple(f"AssertionError: assert {each}" for each in said)


def test_an_answer_that_never_changes_is_asked_about() -> None:
    expected = (51, 52, True, failing("69 == 52"), failing("51 == 52"))
    seen = runs((20, 21, False, failing("70 == 51"), ()), (17, 18, False, failing("71 == 51"), ()), expected)
    assert "whatever other values" in question("test_it", seen)
    # A test of what always holds expects no value.
    assert question("test_it", Runs(seen.own, seen.varied[:2])) == ""
    # One value may not matter, and a value may make the base pass.
    assert question("test_it", runs(*[(20, 21, False, failing("70 == 51"), ())] * 2, expected)) == ""
    assert question("test_it", runs((20, 21, False, (), ()), (17, 18, False, (), ()), expected)) == ""


def test_an_answer_that_follows_a_value_is_computed() -> None:
    seen = runs(
        (20, 21, False, failing("70 == 51"), failing("52 == 51")),
        (17, 18, False, failing("71 == 51"), ()),
        (17, 16, False, failing("69 == 51"), ()),
    )
    assert question("test_it", seen) == ""


def test_a_change_that_makes_no_difference_without_its_own_value_is_asked_about() -> None:
    lost = [(each, failing(f"'Oslo' == '{each}'")) for each in ("eSville", "Sveille")]
    seen = runs(*(("Seville", each, True, said, said) for each, said in lost))
    assert "with another value than `'Seville'`" in question("test_it", seen)
    kept = runs(*(("Seville", each, True, said, failing(f"'Seville' == '{each}'")) for each, said in lost))
    assert question("test_it", kept) == ""


@pytest.mark.parametrize("own", [((), ()), (failing("69 == 51"), failing("69 == 51")), (None, ()), (failing("69 == 51"), None)])
def test_where_the_test_says_nothing_beside_its_file_nothing_is_asked(own: tuple[Ending, Ending]) -> None:
    varied = runs(*((value, value + 1, False, failing("70 == 51"), ()) for value in (20, 17))).varied
    assert question("test_it", Runs(own, varied)) == ""


def test_one_run_is_not_enough() -> None:
    assert question("test_it", runs((20, 21, False, failing("70 == 51"), ()), (20, 19, False, None, ()))) == ""
    assert question("test_it", runs(("a", "b", True, failing("1"), failing("1")))) == ""
