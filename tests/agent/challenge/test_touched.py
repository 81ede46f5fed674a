import pytest

from agent.challenge.touched import FunctionRef, touched
from agent.contract.proposal import FileChange

BEFORE = """\
def low(x):
    return x


class Box:
    @staticmethod
    def size(x):
        return low(x)


def far(x):
    return x + 1
"""


def names(functions: tuple[FunctionRef, ...]) -> list[str]:
    return [function.name for function in functions]


def test_a_changed_function_and_those_that_name_it_are_found() -> None:
    found = touched([(FileChange("a.py", BEFORE, BEFORE.replace("    return x\n", "    return -x\n", 1)),)])
    assert names(found.functions) == ["low"]
    assert names(found.documented) == ["low", "Box.size"]


def test_the_first_line_counts_decorators() -> None:
    found = touched([(FileChange("a.py", BEFORE, BEFORE.replace("return low(x)", "return low(-x)")),)])
    assert found.functions == (FunctionRef("a.py", "Box.size", 6),)


def test_formatting_tests_new_files_and_other_languages_touch_nothing() -> None:
    changes = [
        FileChange("a.py", BEFORE, BEFORE.replace("x + 1", "x  +  1")),
        FileChange("test_a.py", BEFORE, BEFORE.replace("x + 1", "x + 2")),
        FileChange("b.py", None, BEFORE),
        FileChange("c.py", BEFORE, None),
        FileChange("c.js", BEFORE, BEFORE.replace("x + 1", "x + 2")),
        FileChange("d.py", "def f(:", "def f(): pass"),
    ]
    assert names(touched([tuple(changes)]).functions) == []


def test_a_hash_is_not_compared() -> None:
    text = "class Name:\n    def __hash__(self):\n        return 1\n\n    def __len__(self):\n        return 1\n"
    assert names(touched([(FileChange("a.py", text, text.replace("return 1", "return 2")),)]).functions) == ["Name.__len__"]


def test_rivals_add_what_they_touch() -> None:
    one = (FileChange("a.py", BEFORE, BEFORE.replace("x + 1", "x + 2")),)
    other = (FileChange("a.py", BEFORE, BEFORE.replace("return low(x)", "return low(-x)")),)
    assert names(touched([one, other]).functions) == ["far", "Box.size"]


def test_overloads_are_not_taken_for_the_function_that_they_announce() -> None:
    stubs = "@overload\ndef f(x: int) -> int: ...\n@overload\ndef f(x: str) -> str: ...\n"
    text = stubs + "def f(x):\n    return x\n\ndef g():\n    return 1\n"
    assert names(touched([(FileChange("a.py", text, text.replace("1\n", "2\n")),)]).functions) == ["g"]
    changed = touched([(FileChange("a.py", text, text.replace("return x", "return -x")),)]).functions
    assert [(function.name, function.line) for function in changed] == [("f", 5)]


CONSTANTS = """\
RATES = {"a": 1}


class Price:
    least = 2

    def of(self, x):
        return max(self.least, x * RATES["a"])


def plain(x):
    return x


if RATES:
    LOW, HIGH = 1, 2


def high():
    return HIGH


def own(HIGH):
    LOW = 3
    return HIGH + LOW
"""


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("1}", "3}", ["Price.of"]),
        ("least = 2", "least = 3", ["Price.of"]),
        ("RATES =", "import os\nRATES =", []),
        ("LOW, HIGH = 1, 2", "LOW, HIGH = 1, 3", ["high"]),
        ("LOW, HIGH = 1, 2", "LOW, HIGH = 1, 3\n    LOW += 1", ["high"]),
    ],
)
def test_a_changed_constant_touches_what_reads_it(before: str, after: str, found: list[str]) -> None:
    assert names(touched([(FileChange("a.py", CONSTANTS, CONSTANTS.replace(before, after)),)]).functions) == found


def test_functions_with_code_of_their_own_come_before_those_that_read_a_constant() -> None:
    readers = "".join(f"def reader_{n}():\n    return LIMIT\n\n\n" for n in range(20))
    before = f"LIMIT = 1\n\n\n{readers}def target():\n    return 1\n"
    after = before.replace("LIMIT = 1", "LIMIT = 2").replace("return 1\n", "return 2\n")
    found = names(touched([(FileChange("a.py", before, after),)]).functions)
    assert found[0] == "target"
    assert len(found) == 12
