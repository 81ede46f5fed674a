"""The failing tests as a writer of tests is shown them: word for word, with all that they stand on and nothing else."""

from agent.challenge.specification import LONGEST_TESTS, failing_tests
from agent.contract.verdicts import VerdictId

SUITE = """\
import unittest
import os
from box import Box

LIMIT = 3
UNUSED = 4


# doubles
def helper(x):
    return 2 * x + LIMIT


class Base(unittest.TestCase):
    size = 4
    weight = 5

    def setUp(self):
        # afresh
        self.box = Box(self.size)


class TestBox(Base):
    def make(self):
        return helper(1)

    # as the manual says
    def test_a(self):
        # why
        self.assertEqual(self.box.put(self.make()), 1)  # because

    def test_b(self):
        assert os
"""
FIXTURES = """\
import pytest

@pytest.fixture
def thing():
    return 1

@pytest.fixture
def other():
    return 2

@pytest.fixture(autouse=True)
def quiet():
    pass

def test_thing(thing):
    assert thing == 2
"""


def test_failing_tests_come_with_their_imports() -> None:
    text = "import os\nfrom box import Box\n\ndef test_a():\n    assert os\n\ndef test_b():\n    # why\n    assert Box\n"
    told = failing_tests({"t/test_box.py": text}, [VerdictId("t/test_box.py::test_b[1]")])
    assert "from box import Box" in told
    assert "def test_b():\n    # why\n" in told
    assert "test_a" not in told
    assert "import os" not in told, "only the other test uses it"


def test_what_a_test_stands_on_is_shown_word_for_word_and_in_its_class() -> None:
    told = failing_tests({"t.py": SUITE}, [VerdictId("t.py::TestBox::test_a")])
    assert "class Base(unittest.TestCase):\n    size = 4\n\n    def setUp(self):\n        # afresh\n" in told
    assert "LIMIT = 3\n\n# doubles\ndef helper(x):" in told
    assert "class TestBox(Base):\n    def make(self):" in told
    assert "    # as the manual says\n    def test_a(self):\n        # why\n" in told
    assert "# because" in told
    assert "import unittest\nfrom box import Box\n" in told
    for unused in ("weight", "UNUSED", "import os", "test_b"):
        assert unused not in told


def test_fixtures_that_a_test_asks_for_or_that_run_unasked_are_shown() -> None:
    told = failing_tests({"t.py": FIXTURES}, [VerdictId("t.py::test_thing")])
    assert "@pytest.fixture\ndef thing():\n    return 1\n" in told
    assert "def quiet" in told
    assert "def other" not in told


def test_an_inherited_test_is_found_by_its_name() -> None:
    told = failing_tests(
        {"t.py": SUITE + "\n\nclass TestMore(TestBox):\n    size = 6\n"}, [VerdictId("t.py::TestMore::test_b")]
    )
    assert "def test_b(self):\n        assert os\n" in told + "\n"


def test_where_no_test_is_found_it_still_tells_what_is_imported() -> None:
    told = failing_tests({"t.py": SUITE}, [VerdictId("t.py::TestElsewhere::test_z")])
    assert "from box import Box" in told
    assert "assert" not in told


def test_what_does_not_fit_is_left_out_the_failing_test_last() -> None:
    fat = "def helper():\n" + "    step()\n" * 100 + "\n\ndef test_a():\n    assert helper()\n"
    assert "step" not in failing_tests({"t.py": fat}, [VerdictId("t.py::test_a")])
    endless = "def test_a():\n" + "    assert one\n" * 1000
    told = failing_tests({"t.py": endless}, [VerdictId("t.py::test_a")])
    assert len(told) <= LONGEST_TESTS
    assert told.endswith("assert one")
    assert failing_tests({"t.py": "def ("}, [VerdictId("t.py::test_a")]) == "# t.py"
