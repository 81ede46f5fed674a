"""A specification is checked before a model is asked; every refusal names the input and the way out."""

from __future__ import annotations

import pytest

from agent.solving.home import BadSpecification
from agent.solving.specification import Example, is_said, specify

FRESH = "import pytest\n@pytest.fixture\ndef fresh(): return importlib.reload(slugs)\ndef test_b(fresh): fresh.slug('A b')"
ELSE = "except ImportError:\n   "


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
        ("Add.", {"doctests": ">>> add([], dict())\n3\n>>> add([], dict())\n4"}, "contradict"),
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


def test_equal_results_in_another_spelling_do_not_contradict() -> None:
    specify("Keys.", doctests=">>> f(1)\n{'a': 1, 'b': 2}\n>>> f(1)\n{'a':1,'b':2}\n")


def test_a_statement_between_equal_calls_may_change_their_result() -> None:
    specify("Count.", doctests=">>> c = Counter()\n>>> c.next()\n1\n>>> c.next()\n2\n")


@pytest.mark.parametrize(
    "doctests",
    [
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
    ("imported", "given", "found"),
    [
        ("from slug import slug\nslug('a')", "", ("slug", "slug")),
        ("import pytest\nfrom math import pi\nfrom slug import slug\nslug('a')", "", ("slug", "slug")),
        ("import slug\nslug.slug('a')", "", ("slug", "slug")),
        ("import slug\nslug.slug('a')", "slug", ("slug", "slug")),
        ("import text.slugs as s\ns.slug('a')", "slug", ("text.slugs", "slug")),
        ("from text import slugs\nslugs.slug('a')", "slug", ("text.slugs", "slug")),
        ("import other\nimport slugs\nslugs.slug('a')", "slug", ("slugs", "slug")),
        ("from slugs import slug, unslug", "", ("slugs", "")),
        ("from slugs import *", "", ("slugs", "")),
        ("import numpy\nslug('a')", "slug", ("solution", "slug")),
        ("import numpy\nfrom solution import slug\nslug('a')", "", ("solution", "slug")),
        ("import os\nos.path.join('a')", "join", ("solution", "join")),
        # reached indirectly
        (f"import importlib, slugs\n{FRESH}", "slug", ("slugs", "slug")),
        (f"import importlib, slugs\n{FRESH}", "", ("slugs", "")),
        ("import slugs\ngetattr(slugs, 'slug')('a')", "slug", ("slugs", "slug")),
        ("import slugs\nS = slugs\nS.slug('a')", "slug", ("slugs", "slug")),
        ("import cli\ncli.main(['a'])", "slug", ("cli", "slug")),
        ("from helpers import loaded\nloaded().slug('a')", "slug", ("helpers", "slug")),
        # a module in a package, or an object of a module
        ("from text import slugs\nslugs.slug('a')", "", ("text.slugs", "slug")),
        ("from text import slugs as s\ns.slug('a')\ns.unslug('a')", "", ("text.slugs", "")),
        ("from text import slugs, words\nslugs.slug('a')\nwords.count('a')", "", ("text", "")),
        ("from text import slugs, words\nslugs.slug('a')\nwords.count('a')", "slug", ("text.slugs", "slug")),
        ("from text import slugs\nsetattr(slugs, 'MOST', 1)\nslugs.slug('a')", "slug", ("text.slugs", "slug")),
        ("from solution import slugs\nslugs.slug('a')", "slug", ("solution.slugs", "slug")),
        ("from helpers import table\nget(1) == table.get(1)", "get", ("solution", "get")),
        ("from helpers import table\nfrom solution import *\nget(1) == table.get(1)", "get", ("solution", "get")),
        ("import store\nfrom helpers import table\ntable.get(1) == store.get(1)", "get", ("store", "get")),
        # no functions
        ("from shop import Cart\nCart(1)", "", ("shop", "")),
        ("from shop import Cart\nCart.load('a')", "", ("shop", "")),
        ("import shop\nshop.Cart(1)", "", ("shop", "")),
        ("from limits import most\nmost == 3", "", ("limits", "")),
        ("from limits import most\nmost['a']", "", ("limits", "")),
        ("from slugs import slug\nslug('a')\nslug.cache_clear()", "", ("slugs", "slug")),
        ("from slugs import slug as s\ns('a')", "", ("slugs", "slug")),
        # other modules with the same name
        ("from math import gcd as expected\nfrom solution import gcd", "gcd", ("solution", "gcd")),
        ("from math import gcd as expected\nfrom numbers_ import gcd", "gcd", ("numbers_", "gcd")),
        ("from math import gcd as expected\nfrom numbers_ import *\ngcd(4, 6)", "gcd", ("numbers_", "gcd")),
        ("from math import gcd as expected\ngcd(4, 6) == expected(4, 6)", "gcd", ("solution", "gcd")),
        ("from reference import gcd as expected\nfrom numbers_ import gcd", "gcd", ("numbers_", "gcd")),
        ("from helpers import *\nfrom slugs import *\nslug('a')", "slug", ("slugs", "slug")),
        # imports that never run
        (f"try:\n    from slugs import slug\n{ELSE} from .slugs import slug\nslug('a')", "", ("slugs", "slug")),
        (f"try:\n    from .slugs import slug\n{ELSE} from slugs import slug\nslug('a')", "", ("slugs", "slug")),
        (f"try:\n    from slugs import slug\n{ELSE} from src.slugs import slug\nslug('a')", "", ("slugs", "slug")),
        ("if __package__:\n    from .slugs import slug\nelse:\n    from slugs import slug", "slug", ("slugs", "slug")),
    ],
)
def test_tests_that_import_their_own_module_name_it(imported: str, given: str, found: tuple[str, str]) -> None:
    known = specify("Slug.", name=given, tests=f"{imported}\n\ndef test_a():\n    assert True\n")
    assert (known.module, known.name) == found


@pytest.mark.parametrize(
    "tests",
    [
        "import unittest\nfrom slugs import slug\nclass Slugs(unittest.TestCase):\n    def test_a(self): assert slug('A')",
        "from slugs import slug\nif True:\n    def test_a(): assert slug('A') == 'a'",
        "from slugs import slug\nasync def test_a(): assert slug('A') == 'a'",
        "from slugs import slug\ntest_a = made(slug)",
        "from slugs import slug\nfrom shared import test_slugs",
    ],
)
def test_tests_are_found_where_pytest_may_find_them(tests: str) -> None:
    assert specify("Slug.", name="slug", tests=tests).tests == tests


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


@pytest.mark.parametrize(
    ("tests", "name"),
    [
        ("from slugs import slug", ""),
        ("from slugs import slug\nlist(map(slug, ['a']))", ""),
        ("from slugs import slug\nlist(map(slug, ['a']))", "slug"),
        ("from shop import Cart, total\ntotal(Cart())", ""),
        ("from shop import Cart", "Cart"),
        ("from math import gcd\ngcd(4, 6)", "gcd"),
        ("from math import gcd\nfrom slugs import slug", "gcd"),
        ("import slugs.words as w\nw.count('a')", "count"),
        ("slug('a')\nunslug('a')", ""),
        ("import slugs\nslug('a')", "slug"),
    ],
)
def test_what_was_never_in_doubt_is_accepted(tests: str, name: str) -> None:
    assert specify("Slug.", name=name, tests=f"{tests}\n\ndef test_a(): pass").name in (name, "")


def test_an_import_inside_of_a_test_names_the_module_too() -> None:
    assert specify("Slug.", tests="def test_a():\n    from slugs import slug\n    assert slug('A')\n").module == "slugs"


def test_where_the_module_is_not_clear_the_way_out_is_named() -> None:
    tests = "from helpers import a\nfrom slugs import slug\n\ndef test_a():\n    assert slug(a)\n"
    with pytest.raises(BadSpecification, match=r"helpers and slugs.*--fn"):
        specify("Slug.", tests=tests)
    assert specify("Slug.", name="slug", tests=tests).module == "slugs"
    with pytest.raises(BadSpecification, match="import `slugify` from"):
        specify("Slug.", name="slugify", tests=tests)
    with pytest.raises(BadSpecification, match="import `slugify` from"):
        specify("Slug.", name="slugify", tests="from slugs import slug\n\ndef test_a():\n    assert slug('A')\n")
    with pytest.raises(BadSpecification, match="relative"):
        specify("Slug.", name="slug", tests="from .slugs import slug\n\ndef test_a():\n    assert slug('a')\n")


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
