"""A repair is compared with the original on inputs that no test has, also where the function is a method."""

from __future__ import annotations

import ast

import pytest

from agent.bench.breaks.operators import Break
from agent.bench.breaks.variants import VARIANTS, compare, variants
from agent.bench.lab import Labs
from agent.ci.project.configuration import NO_CONFIGURATION
from agent.contract.verdicts import VerdictId
from agent.source.archive import File

CODE = """\
class Till:
    def __init__(self):
        self.sums = {}

    def add(self, name, price):
        if price < 0:
            raise ValueError(price)
        self.sums[name] = self.sums.get(name, 0) + price
"""
TESTS = """\
import pytest

from till import Till


@pytest.fixture
def till():
    return Till()


class TestTill:
    @pytest.mark.parametrize("price", [3, -1])
    def test_add(self, till, price):
        if price < 0:
            with pytest.raises(ValueError):
                till.add("tea", price)
        else:
            till.add("tea", price)
            till.add("tea", 4)
            assert till.sums == {f"t{'ea'}": 7}


def test_other(till):
    assert till.sums == {}
"""
FILES = {"till.py": File(CODE.encode()), "tests/test_till.py": File(TESTS.encode())}
IDS = [VerdictId("tests/test_till.py::TestTill::test_add[3]"), VerdictId("tests/test_till.py::TestTill::test_add[-1]")]


@pytest.mark.long
@pytest.mark.asyncio(loop_scope="session")
async def test_what_passes_the_tests_but_gives_something_else_is_found(labs: Labs) -> None:
    broken = Break("till.py", "by a person", "Till.add", CODE, CODE)
    async with labs.open(FILES, NO_CONFIGURATION) as lab:
        for old, new, same in (
            ("if price < 0:", "if not price >= 0:", True),
            ("self.sums.get(name, 0) + price", "price if price != 4 else 7", False),
        ):
            repaired = CODE.replace(old, new)
            assert repaired != CODE
            agreement = await compare(lab, broken, IDS, FILES, {"till.py": repaired.encode()})
            assert agreement is not None
            assert agreement.compared >= VARIANTS
            assert (agreement.difference is None) is same, (new, agreement.difference)
        other = Break("till.py", "by a person", "Till.sub", CODE, CODE)
        assert await compare(lab, other, [VerdictId("tests/test_till.py::test_other")], FILES, {}) is None


def test_only_literals_of_the_named_tests_change() -> None:
    made = variants(FILES, IDS)
    assert made == variants(FILES, IDS)
    assert 0 < len(made) <= VARIANTS
    seen: set[object] = set()
    for path, text in made.items():
        assert path.startswith("tests/test_variants_of_")
        assert path.endswith("_test_till.py")
        assert text != TESTS
        assert ('@pytest.mark.parametrize("price", [' in text, "{f\"t{'ea'}\": " in text) == (True, True)
        assert text[: text.index("class TestTill")] == TESTS[: TESTS.index("class TestTill")]
        seen |= {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
    assert len(seen) > 12
    assert variants(FILES, [VerdictId("tests/test_till.py::test_none"), VerdictId("no.py::test")]) == {}
