"""A specification is checked before a model is asked; every refusal names the input and the way out."""

from __future__ import annotations

import pytest

from agent.solving.home import BadSpecification
from agent.solving.specification import Example, is_said, specify


@pytest.mark.parametrize(
    ("text", "given", "named"),
    [
        ("  \n", {}, "the specification is empty"),
        ("x" * 1_000_000, {}, "the specification is longer than 20,000 characters"),
        ("a\0b", {}, "zero byte"),
        ("Add.", {"signature": "add(a, b"}, "does not parse"),
        ("Add.", {"signature": "x = 1"}, "does not parse"),
        ("Add.", {"signature": "def add(a): pass\ndef b()"}, "does not parse"),
        ("Add.", {"signature": "add(a, a)"}, "does not parse (duplicate argument 'a'"),
        ("Add.", {"name": "2add"}, "not a Python identifier"),
        ("Add.", {"name": "class"}, "not a Python identifier"),
        ("Add.", {"name": "plus", "signature": "add(a, b)"}, "'plus' and the signature says 'add'"),
        ("Add.", {"doctests": "add(1, 2)"}, "no example"),
        ("Add.", {"doctests": ">>> add(1,\n3"}, "not Python"),
        ("Add.", {"doctests": ">>> add(1, 2)\n3\n>>> add(1,2)\n4"}, "`add(1, 2)` gives `3` in one and `4` in the other"),
        ("Add.\n>>> add(1, 2)\n3\n", {"doctests": ">>> add(1, 2)\n4"}, "contradict"),
        ("Add.", {"doctests": ">>> import math\n>>> add(1, 2)\n3\n>>> add(1, 2)\n4"}, "contradict"),
        ("Add.", {"doctests": ">>> add(1, 2)\n3\n>>> add(1, 2)\n4\n>>> c = Counter()"}, "contradict"),
        ("Add.", {"doctests": ">>> add(1, 2)\n3\n>>> add(2, 2)\n4\n>>> add(1, 2)\n4"}, "contradict"),
        ("Add.\n>>> add(1, 2)\n3\n", {"doctests": ">>> from solution import add\n>>> add(1, 2)\n4"}, "contradict"),
        ("Add.", {"name": "add", "doctests": ">>> plus(1, 2)\n3"}, "no example names `add`"),
        ("Add.", {"signature": "add(a, b)", "doctests": ">>> add(1)\n3"}, "`add(1)` does not fit the signature"),
        ("Add.", {"signature": "add(a, b)", "doctests": ">>> from solution import add\n>>> add(1)\n3"}, "does not fit"),
        ("Add.", {"signature": "add(a, *, b=0)", "doctests": ">>> add(1, c=2)\n3"}, "(got an unexpected keyword argument 'c')"),
        ("Add.", {"doctests": ">>> " + "-" * 100_000 + "1\n1"}, "nested too deeply"),
        ("Add.", {"tests": "def test_a(:\n"}, "the tests are not Python, line 1: invalid syntax; give"),
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


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("{'a': 1, 'b': 2}", "{'b':2,'a':1}"),
        ("1", "1.0"),
        ("two  words", "two words"),
        ("Traceback (most recent call last):\n  ...\nKeyError: 1", "Traceback (most recent call last):\nKeyError: 1"),
    ],
)
def test_equal_results_in_another_spelling_do_not_contradict(first: str, other: str) -> None:
    specify("Keys.", doctests=f">>> f(1)\n{first}\n>>> f(1)\n{other}\n")


@pytest.mark.parametrize(
    "doctests",
    [
        ">>> c = Counter()\n>>> c.next()\n1\n>>> c.next()\n2\n",
        ">>> n = 1\n>>> f(n)\n1\n>>> n = 2\n>>> f(n)\n2\n",
        ">>> n = [1]\n>>> f(n)\n1\n>>> f(n)\n2\n",
        ">>> import random\n>>> random.seed(1)\n>>> f()\n1\n>>> random.seed(2)\n>>> f()\n2\n",
        ">>> c = Counter()\n>>> f()\n0\n>>> c.next()\n1\n>>> f()\n1\n",
        ">>> n = 1\n>>> f(n)\n1\n>>> n = 2\n>>> f(n)\n2\n>>> h(n)\n20\n>>> n = 1\n>>> h(n)\n10\n",
        ">>> from ids import next_id\n>>> next_id()\n1\n>>> next_id()\n2\n",
        ">>> import ids\n>>> ids.next_id()\n1\n>>> ids.next_id()\n2\n",
        ">>> Counter().next()\n1\n>>> Counter().next()\n2\n",
        ">>> size('a')\n0\n>>> push('a')\n1\n>>> size('a')\n1\n",
        ">>> size('a')\n0\n>>> reset()\n1\n>>> size('a')\n1\n",
        ">>> from v1 import f\n>>> f(1)\n1\n>>> from v2 import f\n>>> f(1)\n2\n",
        ">>> from v1 import *\n>>> f(1)\n1\n>>> from v2 import *\n>>> f(1)\n2\n",
        ">>> f(n)\n1\n>>> from limits import n\n>>> f(n)\n2\n",
    ],
)
def test_what_may_change_a_result_is_no_contradiction(doctests: str) -> None:
    specify("Count.", doctests=doctests)
    specify(f"Count.\n\n{doctests}", doctests=doctests)


def test_the_words_and_the_doctests_may_prepare_their_examples_apart_or_not() -> None:
    words = "Count.\n\n>>> f(1)\n1\n>>> use(2)\n>>> f(1)\n2\n"
    assert len(specify(words, doctests=">>> use(3)\n>>> f(1)\n3\n").examples) == 5
    assert len(specify(words, doctests=">>> f(1)\n3\n>>> use(1)\n").examples) == 5
    with pytest.raises(BadSpecification, match="contradict"):
        specify(words, doctests=">>> f(1)\n3\n")


def test_no_statement_is_taken_from_the_calls_that_it_prepares() -> None:
    doctests = ">>> n = 1\n>>> f(n)\n1\n>>> n = 2\n>>> f(n)\n2\n>>> n = 1\n>>> h(n)\n10\n"
    sources = [each.source for each in specify("Count.", doctests=doctests).examples]
    assert sources == ["n = 1", "f(n)", "n = 2", "f(n)", "n = 1", "h(n)"]
    assert [each.source for each in specify(f"Count.\n\n{doctests}", doctests=doctests).examples] == sources
    more = specify(f"Count.\n\n{doctests}", doctests=">>> n = 2\n>>> f(n)\n2\n").examples
    assert [each.source for each in more] == ["n = 2", "f(n)", *sources]


def test_an_example_in_the_words_that_is_nested_too_deeply_is_skipped() -> None:
    assert specify("Add.\n\n>>> " + "-" * 15_000 + "1\n1\n", name="add").examples == ()


def test_deep_values_are_examples_like_others() -> None:
    deep = "[" * 80 + "]" * 80
    nested = "f(" * 85 + "1" + ")" * 85
    assert len(specify("Nest.", doctests=f">>> a = {deep}\n>>> f({deep})\n1\n>>> {nested}\n1\n").examples) == 3


def test_examples_that_prepare_or_use_the_function_need_not_call_it_alone() -> None:
    specify("Add.", name="add", doctests=">>> from functools import reduce\n>>> reduce(add, [1, 2, 3])\n6\n")
    specify("Add.", signature="add(a, b, *more)", doctests=">>> add(*range(3))\n3\n>>> add(1, b=2)\n3\n")
    specify("Add.", signature="add(a, b)", doctests=">>> add(1)\nTraceback (most recent call last):\nTypeError\n")
    specify("Add.", signature="add(a, b)", doctests=">>> raises(TypeError, lambda: add(1))\nTrue\n")
    specify("Add.", signature="add(a, /, *, b, c=2)", doctests=">>> add(1, b=2)\n3\n")
    specify("Add.", signature="add(a: Number, b: Number = fail()) -> Number", doctests=">>> add(1)\n3\n")
    specify("Add.", signature="add(a, b)", doctests=">>> add = partial(add, 1)\n>>> add(2)\n3\n")
    specify("Slug.", name="slug", doctests=">>> from solution import slug as s\n>>> s('A b')\n'a-b'\n")
    specify("Slug.", name="slug", doctests=">>> import slugs\n>>> getattr(slugs, 'slug')('A b')\n'a-b'\n")


@pytest.mark.parametrize(
    ("doctests", "name"),
    [
        (">>> slug('A')\n'a'\n", "slug"),
        (">>> from solution import slug as s\n>>> s('A')\n'a'\n", "slug"),
        (">>> from functools import reduce\n>>> reduce(add, [1, 2])\n3\n", ""),
        (">>> from functools import reduce\n>>> reduce(add, [1, 2])\n3\n>>> add(1, 2)\n3\n", "add"),
        (">>> Cart(1)\nCart(1)\n", ""),
        (">>> c = Counter()\n>>> c.next()\n1\n", ""),
        (">>> def twice(x): return f(f(x))\n>>> twice(1)\n3\n", "f"),
        (">>> f(1)\n2\n>>> g(1)\n3\n", ""),
    ],
)
def test_examples_name_the_function_only_if_it_is_one_and_not_foreign(doctests: str, name: str) -> None:
    assert specify("Write it.", doctests=doctests).name == name


@pytest.mark.parametrize(
    ("given", "neutral"),
    [
        ({"name": "2add"}, "merge_intervals"),
        ({"name": "plus", "signature": "add(a, b)"}, "the function's name is 'plus'"),
        ({"name": "add", "doctests": ">>> plus(1, 2)\n3"}, "the function's name"),
        ({"tests": "import a, b\ndef test_a(): a.f(b)"}, "(`--fn`, or `name` over HTTP)"),
    ],
)
def test_refusals_speak_to_the_command_line_and_to_http(given: dict[str, str], neutral: str) -> None:
    with pytest.raises(BadSpecification) as refused:
        specify("Add.", **given)
    assert neutral in str(refused.value)
    assert ("--" in str(refused.value)) == ("HTTP" in str(refused.value))


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
