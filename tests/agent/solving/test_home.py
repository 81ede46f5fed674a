"""The user's tests say which module is to be written, and perhaps its function; where they do not, the way out is named."""

from __future__ import annotations

import pytest

from agent.solving.home import BadSpecification, home

FRESH = "import pytest\n@pytest.fixture\ndef fresh(): return importlib.reload(slugs)\ndef test_b(fresh): fresh.slug('A b')"
ELSE = "except ImportError:\n   "


@pytest.mark.parametrize(
    ("imported", "given", "found"),
    [
        ("from slug import slug\nslug('a')", "", ("slug", "slug")),
        ("import pytest\nfrom math import pi\nfrom slug import slug\nslug('a')", "", ("slug", "slug")),
        ("from slugs import slug as s\ns('a')", "", ("slugs", "slug")),
        ("from slugs import slug\nslug('a')\nslug.cache_clear()", "", ("slugs", "slug")),
        ("from calc.sums import add, sub\nadd(1, 2)", "add", ("calc.sums", "add")),
        ("import slug\nslug.slug('a')", "", ("slug", "slug")),
        ("import text.slugs\ntext.slugs.slug('a')", "", ("text.slugs", "slug")),
        ("import text.slugs as s\ns.slug('a')", "slug", ("text.slugs", "slug")),
        ("from text import slugs\nslugs.slug('a')", "", ("text.slugs", "slug")),
        ("from text import slugs, words\nslugs.slug('a')\nwords.count('a')", "slug", ("text.slugs", "slug")),
        ("import other\nimport slugs\nslugs.slug('a')", "slug", ("slugs", "slug")),
        ("from helpers import a\nfrom slugs import slug\nslug(a)", "slug", ("slugs", "slug")),
        ("from slugs import *\nslug('a')", "slug", ("slugs", "slug")),
        ("from helpers import *\nfrom slugs import *\nslug('a')", "slug", ("slugs", "slug")),
        # `solution` is the usual one
        ("slug('a')", "slug", ("solution", "slug")),
        ("import numpy\nslug('a')", "slug", ("solution", "slug")),
        ("import numpy\nfrom solution import slug\nslug('a')", "", ("solution", "slug")),
        ("from helpers import table\nget(1) == table.get(1)", "get", ("solution", "get")),
        # others have that name too
        ("import os\nos.path.join('a')", "join", ("solution", "join")),
        ("from math import gcd\ngcd(4, 6)", "gcd", ("solution", "gcd")),
        ("from math import gcd as expected\nfrom numbers_ import *\ngcd(4, 6)", "gcd", ("numbers_", "gcd")),
        ("from reference import gcd as expected\nfrom numbers_ import gcd", "gcd", ("numbers_", "gcd")),
        # reached indirectly
        (f"import importlib, slugs\n{FRESH}", "slug", ("slugs", "slug")),
        ("import slugs\ngetattr(slugs, 'slug')('a')", "slug", ("slugs", "slug")),
        ("from helpers import loaded\nloaded().slug('a')", "slug", ("helpers", "slug")),
        # not one function
        ("from slugs import slug, unslug\nslug('a')", "", ("slugs", "")),
        ("from slugs import *\nslug('a')", "", ("slugs", "")),
        ("slug('a')\nunslug('a')", "", ("solution", "")),
        ("from shop import Cart\nCart(1)", "", ("shop", "")),
        ("from shop import Cart\nCart.load('a')", "", ("shop", "")),
        ("import shop\nshop.Cart(1)", "", ("shop", "")),
        ("from limits import most\nmost['a'] == 3", "", ("limits", "")),
        # imports that may never run
        ("def test_b():\n    from slugs import slug\n    slug('a')", "", ("slugs", "slug")),
        (f"try:\n    from slugs import slug\n{ELSE} from .slugs import slug\nslug('a')", "", ("slugs", "slug")),
        (f"try:\n    from slugs import slug\n{ELSE} from src.slugs import slug\nslug('a')", "slug", ("slugs", "slug")),
        ("if __package__:\n    from .slugs import slug\nelse:\n    from slugs import slug", "slug", ("slugs", "slug")),
    ],
)
def test_tests_name_the_module_and_the_function(imported: str, given: str, found: tuple[str, str]) -> None:
    assert home(f"{imported}\n\ndef test_a():\n    assert True\n", given) == found


@pytest.mark.parametrize(
    ("imported", "given", "said"),
    [
        ("from helpers import a\nfrom slugs import slug\nslug(a)", "", "helpers and slugs.*--fn"),
        ("from text import slugs, words\nslugs.slug('a')\nwords.count('a')", "", "text.slugs and text.words.*--fn"),
        ("from helpers import a\nfrom slugs import slug\nslug(a)", "slugify", "import `slugify` from"),
        ("from slugs import slug\nslug('a')", "slugify", "import `slugify` from"),
        ("from .slugs import slug\nslug('a')", "slug", "relative import"),
        ("x = (", "", "not Python, line 1"),
    ],
)
def test_where_the_module_is_not_clear_the_way_out_is_named(imported: str, given: str, said: str) -> None:
    with pytest.raises(BadSpecification, match=said):
        home(f"{imported}\n\ndef test_a():\n    assert True\n", given)


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
    assert home(tests, "slug") == ("slugs", "slug")
