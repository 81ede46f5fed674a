"""What shown code uses by name is shown beside it: constants, where its class is entered, signatures; and who calls it."""

from __future__ import annotations

from pathlib import Path

from agent.prompts.passages import Location, Sources
from agent.prompts.surroundings import surroundings
from tests.agent.workbench import sandbox_with

FILES = {
    "pkg/__init__.py": "",
    "pkg/limits.py": "WIDTH = 80\nDEPTH = 9\n",
    "pkg/base.py": "class Base:\n    MARK = '>'\n    UNUSED = 1\n",
    "pkg/inline.py": (
        '"""Licensed."""\nimport re\nfrom typing import Any\nfrom pkg import limits\nfrom pkg.base import Base\n'
        "from pkg.limits import DEPTH\n\nSTAR_RE = r'x+'\nSOLE_RE = r'y'\nELSEWHERE = 3\n\n\n"
        "def build(registry):\n    registry.register(Sole(SOLE_RE), 'sole', 2)\n    registry.register(Star('*'), 'star', 1)\n"
        "    return registry\n\n\n"
        "class Sole:\n    def __init__(self, text):\n        self.text = text\n\n\n"
        "class Star(Base):\n    PATTERNS = [\n        re.compile(STAR_RE),\n    ]\n\n"
        "    def handle(self, text: Any):\n"
        "        if len(text) > DEPTH or limits.WIDTH < 0 or self.MARK in text:\n            return self.other(1)\n"
        "        return self.PATTERNS[0].match(text)\n\n"
        "    def other(self, n):\n        return n\n\n"
        "    def unrelated(self):\n        return ELSEWHERE\n"
    ),
    "pkg/use.py": "def use(star):\n    # not here: handle(1)\n    return star.handle('x')\n",
    "tests/test_x.py": "from pkg.use import use\n\n\ndef test_x(star):\n    star.handle('a test is no caller')\n",
}


async def test_constants_are_found_by_name_in_the_class_its_bases_and_other_modules(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, FILES) as sandbox:
        sources = Sources(sandbox.base)
        for path in FILES:
            await sources.get(path)
        place = await sources.find("pkg/inline.py::Star.handle", "x")
        assert isinstance(place, Location)
        found = {each.title: each.text for each in await surroundings([place], {}, sources)}
    (used,) = [text for title, text in found.items() if "What the shown code" in title]
    lines = used.splitlines()
    assert "        re.compile(STAR_RE)," in lines, "the class attribute, as it stands"
    assert "STAR_RE = r'x+'" in lines, "what its value is made of"
    assert "    MARK = '>'  # in pkg/base.py" in lines, "inherited"
    assert "WIDTH = 80  # in pkg/limits.py" in lines, "of a module"
    assert "DEPTH = 9  # in pkg/limits.py" in lines, "imported by name"
    assert "def other(self, n): ...  # Star.other" in lines
    assert not any(word in used for word in ("UNUSED", "ELSEWHERE", "unrelated", "typing"))
    assert found["Who calls `Star.handle`"] == "pkg/use.py:3: return star.handle('x')", "no comment, no test"
    (entered,) = [text for title, text in found.items() if "(registers " in title]
    assert entered.splitlines() == [
        "SOLE_RE = r'y'", "…", "registry.register(Sole(SOLE_RE), 'sole', 2)", "registry.register(Star('*'), 'star', 1)",
    ]  # fmt: skip


async def test_of_a_long_constant_only_the_beginning_is_shown(tmp_path: Path) -> None:
    table = "TABLE = {\n" + "".join(f"    {n}: 'n',\n" for n in range(20)) + "}\n"
    async with sandbox_with(tmp_path, {"a.py": f"{table}\n\ndef look(n):\n    return TABLE[n]\n"}) as sandbox:
        sources = Sources(sandbox.base)
        place = await sources.find("a.py::look", "x")
        assert isinstance(place, Location)
        (used,) = await surroundings([place], {}, sources)
    assert used.text == "TABLE = {\n    0: 'n',\n    1: 'n',\n    2: 'n',\n    … (18 more lines)"


async def test_a_constant_is_a_place_and_a_window_does_not_begin_with_the_licence(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, FILES) as sandbox:
        sources = Sources(sandbox.base)
        one = await sources.find("pkg/inline.py::STAR_RE", "x")
        attribute = await sources.find("pkg/inline.py::Star.PATTERNS", "x")
        window = await sources.find("pkg/inline.py:8", "x")
        assert await sources.find("pkg/inline.py::NOWHERE", "x") is None
    assert one is not None
    assert (one.first, one.last, one.name) == (8, 8, "STAR_RE")
    assert attribute is not None
    assert (attribute.first, attribute.last) == (25, 27)
    assert window is not None
    assert window.first == 2
