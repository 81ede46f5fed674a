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
        ("Add.", {"doctests": ">>> add(1, 2)\n3\n>>> add(1,2)\n4"}, "`add(1, 2)` gives `3`, and `add(1, 2)` gives `4`"),
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


IMPORTED = "import pytest\nfrom solution import f\n\n"


SAYS_2, SAYS_3 = ">>> f(1)\n2", "def test_f():\n    assert f(1) == 3"


@pytest.mark.parametrize(
    ("given", "both"),
    [
        ({"doctests": ">>> f(1)\n2\n>>> f(x=1)\n3"}, "`f(1)` gives `2`, and `f(x=1)` gives `3`"),
        ({"doctests": ">>> f(1)\n2\n>>> f(1, y=0)\n3"}, "`f(1)` gives `2`, and `f(1, y=0)` gives `3`"),
        ({"doctests": ">>> f(y=2, x=1)\n2\n>>> f(x=1, y=2)\n3"}, "`f(y=2, x=1)` gives `2`, and `f(x=1, y=2)` gives `3`"),
        ({"doctests": ">>> f(1)\n2\n>>> f(1) == 3"}, "`f(1)` gives `2`, and `f(1)` gives `3`"),
        ({"doctests": f"{SAYS_2}\n>>> f(1)\nTraceback (most recent call last):\nKeyError: 1"}, "`f(1)` raises `KeyError`"),
        ({"doctests": SAYS_2, "tests": f"{IMPORTED}{SAYS_3}"}, "`f(1)` gives `3` in `test_f`"),
        ({"doctests": SAYS_2, "tests": "def test_f():\n    'It.'\n    assert f(x=1) is None"}, "gives `None` in `test_f`"),
        ({"doctests": SAYS_2, "tests": f"{IMPORTED}def test_f():\n    assert 3 == f(1)"}, "`f(1)` gives `3` in `test_f`"),
        ({"doctests": SAYS_2, "tests": "import solution\ndef test_f():\n    assert solution.f(1) == 3"}, "in `test_f`"),
        ({"doctests": SAYS_2, "tests": "from solution import f as g\ndef test_f():\n    assert g(1) == 3"}, "in `test_f`"),
        (
            {"doctests": SAYS_2, "tests": f"{IMPORTED}def test_f():\n    with pytest.raises(ValueError):\n        f(1)"},
            "`f(1)` gives `2`, and `f(1)` raises `ValueError` in `test_f`",
        ),
        (
            {"doctests": SAYS_2, "tests": f"{IMPORTED}@pytest.mark.parametrize('a, b', [(0, 0), (1, 3)])\n"
            "def test_f(a, b):\n    assert f(a) == b"}, "`f(1)` gives `3` in `test_f`",
        ),
        (
            {"tests": f"{IMPORTED}def test_a():\n    assert f(1) == 2\n\ndef test_b():\n    assert f(1, 0) == 3"},
            "`f(1)` gives `2` in `test_a`, and `f(1, 0)` gives `3` in `test_b`",
        ),
    ],
)  # fmt: skip
def test_two_demands_that_contradict_each_other_are_both_named(given: dict[str, str], both: str) -> None:
    with pytest.raises(BadSpecification) as refused:
        specify("Count.", signature="f(x, y=0)", **given)
    assert str(refused.value).startswith("two examples contradict each other: `f(")
    assert both in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "tests",
    [
        "from solution import f\ndef test_f():\n    assert f(1) == 2.0000000001",
        "from solution import f\ndef test_f():\n    assert f(2) == 3",
        "from solution import f\ndef test_f(monkeypatch):\n    assert f(1) == 3",
        "from solution import f\ndef test_f():\n    prepare()\n    assert f(1) == 3",
        "from solution import f, use\ndef test_f():\n    assert f(1) == 3",
        "from solution import f\ndef setup_function():\n    pass\ndef test_f():\n    assert f(1) == 3",
        f"{IMPORTED}@pytest.mark.xfail\ndef test_f():\n    assert f(1) == 3",
        f"{IMPORTED}@pytest.fixture(autouse=True)\ndef a():\n    yield\ndef test_f():\n    assert f(1) == 3",
        "from solution import f\ndef test_f():\n    f = max\n    assert f(1) == 3",
        "from solution import f\ndef test_f():\n    assert f(1) == 3\ndef test_f():\n    assert f(1) == 2",
        "from solution import f\ndef test_f():\n    assert f(*[1]) == 3",
        "from solution import f\nf.cache = {}\nf.use(3)\ndef test_f():\n    assert f(1) == 3",
        "from solution import f\ndef helper():\n    assert f(1) == 3\ndef test_f():\n    assert f(1) == 2",
        "from solution import f\ndef test_f():\n    assert f(1) == 2\n    assert f(x=1) == 3",
        "from solution import f\ndef test_f():\n    assert f(2) is True\n    assert f(2) is False",
        "from solution import f\ndef test_f():\n    assert f() == 1\n    assert f() == 2",
        "from solution import f\ndef test_f():\n    assert f() == 1\n    assert f(1) == 3",
        *(
            f"{IMPORTED}@pytest.mark.parametrize({names}, [1, 2])\ndef test_f(a):\n    assert f(a) == 3"
            for names in ("5", "None", "('a', 1)", "{'a': 1}", "{[]: 1}")
        ),
    ],
)
def test_tests_that_may_agree_with_the_examples_are_kept(tests: str) -> None:
    assert specify("Count.", signature="f(x=0)", doctests=">>> f(1)\n2", tests=tests).tests == tests


def test_results_that_one_value_may_have_agree() -> None:
    specify("Keys.", doctests=">>> f(1)\nCounter({'a': 1})\n>>> f(1)\n{'a': 1}\n")
    specify("Keys.", doctests=">>> f(1)\n0.1\n>>> f(1)\n0.10000001\n")
    raising = "def test_f():\n    with pytest.raises(LookupError):\n        f(1)"
    specify("Keys.", name="f", doctests=">>> f(1)\nTraceback (most recent call last):\nKeyError: 1", tests=IMPORTED + raising)
    specify(
        "Keys.", name="f", doctests=">>> f(1)\nTraceback (most recent call last):\nfoo.OwnError: 1", tests=IMPORTED + raising
    )


@pytest.mark.parametrize(
    ("shown", "demanded"),
    [
        ("[1, ...]", "[1, 2]"),
        ("'ab...'", "'abc'"),
        ("inf", "1e999"),
        ("-inf", "-1e999"),
        ("[nan, 1]", "[1e999, 1]"),
    ],
)
def test_what_a_text_shows_may_be_unclear(shown: str, demanded: str) -> None:
    specify("Keys.", doctests=f">>> f(1)  # doctest: +ELLIPSIS\n{shown}\n>>> f(1) == {demanded}\n")
    tests = f"from solution import f\n\ndef test_f():\n    assert f(1) == {demanded}"
    specify("Keys.", doctests=f">>> f(1)  # doctest: +ELLIPSIS\n{shown}\n", tests=tests)


@pytest.mark.parametrize(
    ("first", "other"),
    [("1.0", "1" * 311), ("1" * 311, "1.0"), ("1", "information"), ("{[]: 1}", "2")],
)
def test_values_that_cannot_be_computed_with_contradict_all_the_same(first: str, other: str) -> None:
    with pytest.raises(BadSpecification, match="two examples contradict"):
        specify("Count.", doctests=f">>> f(1)\n{first}\n>>> f(1)\n{other}\n")


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
