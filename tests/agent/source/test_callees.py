"""What code leads to, by its names: callees two hops far, delegators for nothing, who sets what a getter hands out."""

from __future__ import annotations

from agent.source.callees import reached
from agent.source.outline import Module

READER = Module(
    "pkg/reader.py",
    "from pkg.source import Source\nfrom pkg.words import split\n\n\n"
    "class Reader:\n    def __init__(self, text):\n        self._src = Source(text)\n\n"
    "    @property\n    def current(self):\n        return self._src.now()\n\n"
    "    def fail(self):\n        return self._src.fail()\n\n"
    "    def read(self):\n        split(self.current)\n        self.names.append(1)\n        raise self.fail()\n\n"
    "    def unrelated(self):\n        return 1\n",
)
SOURCE = Module(
    "pkg/source.py",
    "class Source:\n    def fail(self):\n        line = self._count()\n        return Problem(line)\n\n"
    "    def _count(self):\n        return self._deep()\n\n    def _deep(self):\n        return 1 + self._deeper()\n\n"
    "    def _deeper(self):\n        return 2\n\n    def now(self):\n        return ''\n\n"
    "    def append(self, x):\n        pass\n\n\n"
    "class Problem:\n    def __init__(self, line):\n        self._line = line\n\n"
    "    @property\n    def line(self):\n        return self._line\n",
)
WORDS = Module("pkg/words.py", "def split(text):\n    return text.split()\n")


def names(module: Module, start: str) -> dict[str, int]:
    definition = module.named(start)
    assert definition is not None
    return {one.name: hop for (_, one), hop in reached([(module, definition)], [READER, SOURCE, WORDS]).values()}


def test_callees_are_followed_two_hops_and_one_that_only_hands_on_is_no_hop() -> None:
    found = names(READER, "Reader.read")
    assert found["split"] == 1, "a function of another module that is imported"
    assert found["Reader.current"] == 1, "a property"
    assert found["Source.fail"] == 1, "through `Reader.fail`"
    assert found["Problem.__init__"] == 2
    assert found["Source._deep"] == 2, "through `Source._count`"
    assert "Source._deeper" not in found
    assert "Reader.unrelated" not in found
    assert "Source.append" not in found, "what lists have is mostly called on lists"


def test_of_an_attribute_that_is_only_handed_out_the_function_that_sets_it_is_found() -> None:
    assert names(SOURCE, "Problem.line") == {"Problem.__init__": 1}


TABLE = Module(
    "pkg/table.py",
    "class Base:\n    def __len__(self):\n        return 1\n\n    def __contains__(self, key):\n        return False\n\n\n"
    "class Table(Base):\n    def __setitem__(self, key, value):\n        self.rows = len(self)\n\n"
    "    def __add__(self, other):\n        return self\n\n    def __iter__(self):\n        return iter(())\n\n\n"
    "def fill(other):\n    table = Table()\n    table['a'] = 1\n    other[0] = 2\n    return 'a' in table, table + other\n",
)


def test_operators_lead_to_the_methods_of_a_class_that_is_known() -> None:
    definition = TABLE.named("fill")
    assert definition is not None
    found = {one.name: hop for (_, one), hop in reached([(TABLE, definition)], [TABLE]).values()}
    assert found == {"Table.__setitem__": 1, "Base.__contains__": 1, "Table.__add__": 1, "Base.__len__": 2}
