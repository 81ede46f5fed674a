import os

import pytest

from tally import Tally


@pytest.fixture
def tally():
    return Tally().add("tea").add("milk", 2)


@pytest.fixture
def counted():
    return Tally().add("tea", 2).add("tea", 2).most()[99]


def test_most(tally):
    assert tally.most() == "milk"


def test_counts_are_added(tally):
    assert tally.add("tea").add("tea").most() == "tea"


def test_nothing_was_counted():
    with pytest.raises(LookupError):
        Tally().most()


def test_a_fixture_that_fails(counted):
    assert counted


def test_where_coverage_goes():
    assert os.environ["COVERAGE_FILE"].startswith(".coverage.3.")
