"""Reading a model's tests, and telling a stated contract from what a model only believes."""

from agent.challenge.generated_tests import read_tests
from agent.challenge.specification import LONGEST, is_stated, specification
from agent.challenge.touched import touched
from agent.contract.proposal import FileChange

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


def test_membership_and_errors_that_are_raised_count_as_assertions() -> None:
    member, none, raised = read_tests(
        "from pytest import raises\ndef test_in():\n    assert 'a' in f(1)\ndef test_not_in():\n    assert 'b' not in f(1)\n"
        "def test_raises():\n    with raises(ValueError): f(2)\n"
    )
    assert "'a' in f(1)" in member
    assert "'b' not in f(1)" in none
    assert "raises(ValueError)" in raised


def test_answers_that_are_none_give_nothing() -> None:
    assert [read_tests(text) for text in ("", "Sorry.", "```python\ndef test_(:\n```", "x = 1", "(" * 5000)] == [()] * 5


def test_a_specification_has_no_code() -> None:
    told = specification(touched([(FileChange("box.py", SOURCE, SOURCE.replace("secret + x", "2 * x")),)]))
    assert "def size(self, x: int) -> int:" in told
    assert "Twice." in told
    assert "Box.size" in told
    assert "secret" not in told


def told_of(source: str) -> str:
    return specification(touched([(FileChange("f.py", source, source.replace("return x", "return -x")),)]))


def test_without_a_docstring_or_a_comment_there_is_none() -> None:
    assert told_of("def f(x):\n    return x\n") == ""
    assert told_of("# noqa\ndef f(x):\n    return x\n") == "", "a mark for a tool says nothing"


def test_comments_above_a_function_and_at_its_top_are_a_specification() -> None:
    above = told_of("# Gives back\n# what came in.\n@cached\ndef f(x):\n    y = 1  # a secret of it\n    return x\n")
    assert "# Gives back\n# what came in.\n@cached\ndef f(x):" in above, "a decorator says how it is called"
    assert "secret" not in above
    assert "# what came in is given back" in told_of("def f(x):\n    # what came in is given back\n    return x\n")


def test_a_method_comes_with_how_its_class_is_made_and_named() -> None:
    source = "class Box(Base):\n    def __init__(self, size=3):\n        self.hidden = size\n\n"
    told = told_of(f'{source}    def f(self, x):\n        """As is."""\n        return x\n')
    assert "class Box(Base):" in told
    assert "def __init__(self, size=3)" in told
    assert "# Box.f, which is changed" in told
    assert "hidden" not in told


def test_who_uses_a_changed_function_is_told_in_short() -> None:
    source = (
        'def f(x):\n    """As is."""\n    return x\n\n\ndef user(x):\n    """Uses it.\n\n    At length.\n    """\n    f(x)\n'
    )
    told = told_of(source)
    assert "Uses it." in told
    assert "At length" not in told


def test_of_who_uses_it_the_whole_docstring_counts_if_it_has_none_itself() -> None:
    user = '\n\ndef outer(x):\n    """First.\n\n    Empty lists are left out.\n    """\n    return f(x)\n'
    assert "Empty lists are left out." in told_of("def f(x):\n    return x\n" + user)
    assert "Empty lists" not in told_of('def f(x):\n    """It is x."""\n    return x\n' + user)


def test_a_long_specification_ends_with_a_whole_line() -> None:
    told = told_of('def f(x):\n    """Ends\n' + "    with a whole line.\n" * 1000 + '    """\n    return x\n')
    assert len(told) <= LONGEST
    assert told.endswith("with a whole line.")


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
