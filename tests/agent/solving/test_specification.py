"""A specification is checked before a model is asked; every refusal names the input and the way out."""

from __future__ import annotations

import pytest

from agent.solving.specification import BadSpecification, Example, is_said, specify


@pytest.mark.parametrize(
    ("text", "given", "named"),
    [
        ("  \n", {}, "the specification is empty"),
        ("x" * 1_000_000, {}, "the specification is longer than 20,000 characters"),
        ("a\0b", {}, "zero byte"),
        ("Add.", {"signature": "add(a, b"}, "does not parse"),
        ("Add.", {"signature": "x = 1"}, "does not parse"),
        ("Add.", {"signature": "def add(a): pass\ndef b()"}, "does not parse"),
        ("Add.", {"name": "2add"}, "not a Python identifier"),
        ("Add.", {"name": "class"}, "not a Python identifier"),
        ("Add.", {"name": "plus", "signature": "add(a, b)"}, "'plus' and the signature says 'add'"),
        ("Add.", {"doctests": "add(1, 2)"}, "no example"),
        ("Add.", {"doctests": ">>> add(1,\n3"}, "not Python"),
        ("Add.", {"doctests": ">>> add(1, 2)\n3\n>>> add(1,2)\n4"}, "`add(1, 2)` gives `3` in one and `4` in the other"),
        ("Add.\n>>> add(1, 2)\n3\n", {"doctests": ">>> add(1, 2)\n4"}, "contradict"),
        ("Add.", {"tests": "def test_a(:\n"}, "the tests are not Python, line 1"),
        ("Add.", {"tests": "assert True"}, "no function whose name starts with `test`"),
    ],
)
def test_unusable_input_is_named_with_the_way_out(text: str, given: dict[str, str], named: str) -> None:
    with pytest.raises(BadSpecification) as refused:
        specify(text, **given)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)
    assert ";" in str(refused.value) or ":" in str(refused.value)


def test_a_signature_is_kept_in_one_form() -> None:
    for given in ("add(a: int, b: int = 2) -> int", "def add(a: int, b: int = 2) -> int:", " def  add(a:int, b:int=2)->int "):
        known = specify("Add.", signature=given)
        assert (known.name, known.signature) == ("add", "def add(a: int, b: int=2) -> int")


def test_examples_are_read_from_the_words_too() -> None:
    known = specify("Add.\n\n>>> add(1, 2)\n3\n", doctests=">>> add(0, 0)\n0\n")
    assert known.examples == (Example("add(0, 0)", "0"), Example("add(1, 2)", "3"))
    assert known.name == "add"


def test_equal_results_in_another_spelling_do_not_contradict() -> None:
    specify("Keys.", doctests=">>> f(1)\n{'a': 1, 'b': 2}\n>>> f(1)\n{'a':1,'b':2}\n")


def test_a_statement_between_equal_calls_may_change_their_result() -> None:
    specify("Count.", doctests=">>> c = Counter()\n>>> c.next()\n1\n>>> c.next()\n2\n")


def test_tests_name_the_module_and_the_function() -> None:
    known = specify("Add.", name="add", tests="from calc.sums import add, sub\n\ndef test_a():\n    assert add(1, 2) == 3\n")
    assert known.module == "calc.sums"
    known = specify("Add.", tests="from solution import add\n\ndef test_a():\n    assert add(1, 2) == 3\n")
    assert (known.name, known.module) == ("add", "solution")


def test_another_language_is_a_specification_like_any_other() -> None:
    assert specify("Gib die Summe zweier Zahlen zurück. 和を返す。", name="add").text.startswith("Gib")


def test_a_comparison_without_a_result_is_meant_to_hold() -> None:
    known = specify("Add.", doctests=">>> add(1, 2) == 3\n>>> add(0, 0)\n0\n")
    assert known.examples == (Example("add(1, 2) == 3", "True"), Example("add(0, 0)", "0"))


def test_the_end_of_a_pasted_docstring_is_no_part_of_a_result() -> None:
    pasted = 'def half(a):\n    """Half.\n\n    >>> half(3)\n    1.5\n    """\n'
    assert [each.want for each in specify(pasted, name="half").examples] == ["1.5"]


def test_words_that_a_stub_says_are_found_however_they_are_indented() -> None:
    stub = 'def half(a):\n    """Half of it,\n    rounded down.\n    """\n'
    assert is_said("Half of it,\nrounded down.", stub)
    assert not is_said("Half of it, rounded up.", stub)
