"""Reading a model's tests, and telling a stated contract from what a model only believes."""

from agent.challenge.specification import failing_tests, is_stated, specification
from agent.challenge.touched import touched
from agent.challenge.written import read_tests
from agent.task import FileChange, VerdictId

ANSWER = """\
Here they are:
```python
import pytest
from calc import add

@pytest.fixture
def thing(): return 1

def test_fixture(thing):
    assert add(thing, 1) == 2

def test_zero():
    assert add(0, 0) == 0

def test_nothing():
    add(1, 2)

def test_raised():
    with pytest.raises(TypeError):
        add(None, 1)

def helper(): pass
```
"""
SOURCE = '''\
class Box:
    def size(self, x: int) -> int:
        """Twice.

        >>> Box().size(2)
        4
        """
        secret = x
        return secret + x
'''


def test_only_plain_tests_that_assert_are_taken() -> None:
    test, raised = read_tests(ANSWER)
    assert "def test_zero" in test
    assert "from calc import add" in test
    assert "with pytest.raises(TypeError):" in raised


def test_answers_that_are_none_give_nothing() -> None:
    assert [read_tests(text) for text in ("", "Sorry.", "```python\ndef test_(:\n```", "x = 1", "(" * 5000)] == [()] * 5


def test_a_specification_has_no_code() -> None:
    told = specification(touched([(FileChange("box.py", SOURCE, SOURCE.replace("secret + x", "2 * x")),)]))
    assert "def size(self, x: int) -> int:" in told
    assert "Twice." in told
    assert "Box.size" in told
    assert "secret" not in told


def test_without_a_docstring_there_is_none() -> None:
    source = "def f(x):\n    return x\n"
    assert specification(touched([(FileChange("f.py", source, source.replace("return x", "return -x")),)])) == ""


def test_failing_tests_come_with_their_imports() -> None:
    text = "import os\nfrom box import Box\n\ndef test_a():\n    assert os\n\ndef test_b():\n    # why\n    assert Box\n"
    told = failing_tests({"t/test_box.py": text}, [VerdictId("t/test_box.py::test_b[1]")])
    assert "from box import Box" in told
    assert "def test_b():\n    # why\n" in told
    assert "test_a" not in told
    assert "import os" not in told, "only the other test uses it"


def test_an_assertion_is_stated_where_call_and_value_stand_together() -> None:
    told = 'def f(x):\n    """f("a", 1) == 5, and\n    >>> f("b", 2)\n    7\n    """'
    assert is_stated("def test_f():\n    assert f('a', 1) == 5", told)
    assert is_stated("def test_f():\n    assert f('b', 2) == 7", told)
    assert not is_stated("def test_f():\n    assert f('b', 2) == 8", told)
    assert not is_stated("def test_f():\n    assert f('a', 1) == 5\n    assert f('c', 1) == 5", told)
    assert not is_stated("def test_f():\n    assert f('a', 1)", told)


OVERLOADED = '''\
class Shelf:
    """Keeps things in order."""

    @overload
    def put(self, x: int) -> int: ...

    @overload
    def put(self, x: str) -> str: ...

    def put(self, x):
        return x

    def all(self):
        """Puts each."""
        return self.put(1)

    def none(self):
        return self.put(2)
'''


def test_a_specification_names_the_changed_method_with_its_class_and_one_signature() -> None:
    told = specification(touched([(FileChange("s.py", OVERLOADED, OVERLOADED.replace("return x", "return x or 0")),)]))
    assert "Keeps things in order." in told
    assert "# Shelf.put, which is changed\ndef put(self, x):" in told
    assert told.count("def put") == 1
    assert told.index("def put") < told.index("def all")
    assert "none" not in told, "it says nothing and is not changed"
