"""What a model sees: the failing test and the likely functions whole, what they use as signatures, nothing twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agent.contract.proposal import Diagnosis, Span
from agent.models.router import Models
from agent.models.values import ModelSettings
from agent.prompts import diagnose, failures
from agent.prompts.excerpts import failing_tests, view
from agent.prompts.passages import Location, Passages
from agent.prompts.ranking import similarities
from agent.proposer import Situation
from agent.proposers.model import DIRECT, ModelProposer
from agent.source.outline import Module
from sandbox.base import Sandbox
from tests.agent.stage import situation
from tests.agent.workbench import PYTEST, sandbox_with

MANY = "".join(f"\n\ndef other_{n}(text):\n    return text * {n}\n" for n in range(60))
FILES = {
    "pkg/__init__.py": "",
    "pkg/blocks.py": (
        "import re\nfrom pkg.text import clean\n\nQUOTE = re.compile('>+')\nUNUSED = 1\n\n\nclass Renderer:\n"
        "    def quote(self, text: str) -> str:\n        return QUOTE.sub('', clean(text)).rstrip('> ')\n\n"
        "    def heading(self, text: str) -> str:\n        return '# ' + text\n" + MANY
    ),
    "pkg/text.py": "def clean(text, *, strict=False):\n    return ' '.join(text.split())\n",
    "pkg/site.py": "from pkg.blocks import Renderer\n\n\ndef page(text):\n    return Renderer().quote(text)\n",
    "tests/test_blocks.py": (
        "import pytest\nfrom pkg.blocks import Renderer\nfrom pkg.site import page\n\n\n"
        "def check(text, wanted):\n    assert page(text) == wanted\n\n\n"
        "@pytest.mark.parametrize('end', ['>', '>>', ' >'])\ndef test_quote_keeps_its_end(end):\n"
        "    # the mark at the end belongs to the text\n    check('> a ' + end, 'a ' + end)\n\n\n"
        "def test_heading():\n    assert Renderer().heading('a') == '# a'\n"
    ),
}


async def staged(sandbox: Sandbox) -> Situation:
    return await situation(sandbox, PYTEST.command, env=PYTEST.env, seconds=60.0)


async def test_what_fails_is_shown_whole_with_what_it_uses_and_nothing_twice(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, FILES) as sandbox:
        now = await staged(sandbox)
        shown = await diagnose.repair(replace(now, strategy=DIRECT), 12_000, "")
    text = shown.prompt.messages[1]["content"]
    assert "# the mark at the end belongs to the text" in text
    assert text.count("def test_quote_keeps_its_end") == 1
    assert text.count("return QUOTE.sub('', clean(text)).rstrip('> ')") == 1
    assert "def check(text, wanted)" in text, "the helper in the traceback"
    assert "QUOTE = re.compile('>+')" in text
    assert "def clean(text" in text
    assert "UNUSED" not in text
    assert "other_1" not in text
    assert "pkg/blocks.py" in shown.paths
    assert not any("test" in path for path in shown.paths)
    assert len(text) // 4 < 1_000


async def test_a_long_function_that_was_asked_for_is_shown_whole_where_the_model_has_room(tmp_path: Path) -> None:
    long = "def long(text):\n" + "".join(f"    text = f{n}(text)\n" for n in range(200)) + "    return text\n"
    async with sandbox_with(tmp_path, {**FILES, "pkg/long.py": long}) as sandbox:
        now = await staged(sandbox)
        (whole, paths), (part, _) = [await diagnose.more(now, ["pkg/long.py::long"], room) for room in (12_000, 4_000)]
    assert long.strip() in whole
    assert paths == ("pkg/long.py",)
    assert "are not shown" in part


async def test_of_all_code_that_was_asked_for_something_is_shown_or_its_absence_is_said(tmp_path: Path) -> None:
    filling = "".join(f"    text = text + 'a part that is {n}'\n" for n in range(150))
    words = "    A line of words.\n" * 100
    documented = f'def documented(text):\n    """It.\n\n{words}    """\n    return text.strip()\n'
    code = f"import re\nfrom typing import (\n    Any,\n)\n\n\n{documented}\n\ndef long(text):\n{filling}    return text\n"
    names = ("documented", "long", "small", "nowhere")
    async with sandbox_with(tmp_path, {**FILES, "pkg/long.py": f"{code}\n\ndef small():\n    return 1\n"}) as sandbox:
        now = await staged(sandbox)
        text, _ = await diagnose.more(now, [f"pkg/long.py::{name}" for name in names], 4_000)
        tight, _ = await diagnose.more(now, [f"pkg/long.py::{name}" for name in names], 675)
    assert "return text.strip()" in text, "rather than its docstring"
    assert "def long(text):" in text
    assert "def small():" in text
    assert text.count("import re\nfrom typing import (\n    Any,\n)\n") == 1, "the imports verbatim"
    assert "pkg/long.py::nowhere is not shown: there is no such code." in text
    assert "pkg/long.py::long is not shown: no room is left." in tight


async def test_a_long_class_that_was_asked_for_begins_with_itself_and_has_its_methods(tmp_path: Path) -> None:
    methods = "".join(f"\n    def method_{n}(self):\n        self.call()\n" for n in range(9))
    body = "".join(f"        self.step = {n}  # of the many\n" for n in range(200))
    code = f"BEFORE = 1\n\n\nclass Large:\n    LIMIT = 3\n\n    def long(self):\n{body}{methods}"
    async with sandbox_with(tmp_path, {**FILES, "pkg/large.py": code}) as sandbox:
        text, _ = await diagnose.more(await staged(sandbox), ["pkg/large.py::Large"], 4_000)
    assert "```python\nclass Large:\n    LIMIT = 3\n" in text
    assert all(f"    def method_{n}(self):\n        self.call()" in text for n in range(9))
    assert "BEFORE" not in text


async def test_the_budget_keeps_the_failing_test_and_the_likeliest_function(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, FILES) as sandbox:
        found = (await view(await staged(sandbox), 10)).excerpts
        test = await failing_tests(await staged(sandbox), 300)
    assert len(found) == 2
    assert "test_quote_keeps_its_end" in found[0].text
    assert test.startswith("@pytest.mark.parametrize")
    assert test == found[0].text


async def test_further_failing_tests_come_before_the_third_suspicious_function(tmp_path: Path) -> None:
    body = "".join(f"    text = text.replace('a{n}', 'b{n}').strip()\n" for n in range(20))
    code = "".join(f"def part_{n}(text):\n{body}    return text\n\n\n" for n in range(5))
    calls = "text" + "".join(f" + part_{n}(text)" for n in range(5))
    tests = f"from parts import *\n\n\ndef run(text):\n    return {calls}\n\n\n"
    tests += "".join(f"def test_{n}():\n    assert run('x') == 'y{n}'\n\n\n" for n in range(3))
    async with sandbox_with(tmp_path, {"parts.py": code, "test_parts.py": tests}) as sandbox:
        found = (await view(await staged(sandbox), 1_200)).excerpts
    text = "\n".join(excerpt.text for excerpt in found)
    assert [f"def test_{n}()" in text for n in range(3)] == [True] * 3
    assert sum(f"def part_{n}(" in text for n in range(5)) < 5, "not everything fits"


async def test_of_a_long_function_every_line_of_the_traceback_is_shown(tmp_path: Path) -> None:
    filling = [f"    text = text + '{n}'.strip()\n" for n in range(120)]
    lines = ["def walk(text, depth):\n", *filling[:60], "    if depth:\n        return walk(text, depth - 1)\n"]
    code = "".join([*lines, *filling[60:], "    return text.nothing\n"])
    files = {"walks.py": code, "test_walks.py": "from walks import walk\n\n\ndef test_walk():\n    assert walk('', 2)\n"}
    async with sandbox_with(tmp_path, files) as sandbox:
        found = (await view(await staged(sandbox), 1_200)).excerpts
    text = "\n".join(excerpt.text for excerpt in found)
    assert "return text.nothing" in text
    assert "    if depth:\n        return walk(text, depth - 1)" in text
    assert "are not shown" in text


async def test_what_the_diagnosis_points_at_comes_first(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, FILES) as sandbox:
        places = ("nowhere.py::x", "pkg/blocks.py::Renderer.heading", "pkg/blocks.py:99999")
        known = Diagnosis("x", "logic", 0.9, "model:m", places=places)
        found = (await view(replace(await staged(sandbox), diagnosis=known), 3_000)).excerpts
    titles = [excerpt.title for excerpt in found]
    assert any("Renderer.heading" in title and "suspected cause" in title for title in titles)


async def test_a_sure_diagnosis_leaves_little_room_for_what_lies_elsewhere(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, FILES) as sandbox:
        now = await staged(sandbox)
        known = Diagnosis("x", "logic", 0.9, "model:m", places=("pkg/blocks.py::QUOTE", "pkg/blocks.py::other_7"))
        sure, unsure = [await view(replace(now, diagnosis=replace(known, confidence=c)), 400) for c in (0.9, 0.2)]
    shown = {"pkg/blocks.py::QUOTE", "pkg/blocks.py::other_7", "tests/test_blocks.py::test_quote_keeps_its_end"}
    assert shown <= sure.shown
    assert shown <= unsure.shown
    assert "pkg/blocks.py::Renderer.quote" in unsure.shown - sure.shown
    assert any(excerpt.text == "QUOTE = re.compile('>+')" for excerpt in sure.excerpts), "a constant"
    assert "pkg/blocks.py::Renderer.quote" in sure.others, "it is named, so that it can be asked for"


async def test_lines_that_run_at_import_are_not_suspicious_beside_functions(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, FILES) as sandbox:
        now = await staged(sandbox)
        at_import = Span("pkg/blocks.py", 5, 5, 1.0, "runs in failing tests only", "")
        found = await view(replace(now, suspects=(at_import, *now.suspects)), 3_000)
    assert not any("UNUSED" in excerpt.text for excerpt in found.excerpts)


STEPS = {
    "pkg/__init__.py": "",
    "pkg/steps.py": "\n\n".join(f"def {name}(n):\n    return n + 1\n" for name in ("cut", "glue", "trim_margin", "sort")),
    "pkg/run.py": "from pkg.steps import *\n\n\ndef run(n):\n    return cut(n) + glue(n) + trim_margin(n) + sort(n)\n",
    "tests/test_run.py": "from pkg.run import run\n\n\ndef test_it():\n    # trims each margin once\n    assert run(0) == 3\n",
}


async def test_the_comments_of_a_failing_test_say_what_it_is_about(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, STEPS) as sandbox:
        found = await view(await staged(sandbox), 190)
    assert "pkg/steps.py::trim_margin" in found.shown
    assert "pkg/steps.py::sort" in found.others


TABLE = {
    "pkg/__init__.py": "",
    "pkg/table.py": "class Table(dict):\n" + "\n".join(
        f"    def {name}(self, *args):\n        return dict.{name}(self, *args)  # {name}\n        # as it is there\n"
        for name in ("__init__", "__getitem__", "__repr__", "__len__", "__setitem__")
    ) + "\n\ndef filled(table):\n    return repr(table) + str(table[1] + len(table))\n",
    "tests/test_table.py": (
        "from pkg.table import Table, filled\n\n\n"
        "def test_it():\n    t = Table()\n    t[1] = 2\n    assert filled(t) == '{1: 2}4'\n"
    ),
}  # fmt: skip


async def test_what_the_failing_test_does_by_an_operator_counts_as_called(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, TABLE) as sandbox:
        found = await view(await staged(sandbox), 230)
    assert "pkg/table.py::Table.__setitem__" in found.shown
    assert "pkg/table.py::Table.__repr__" in found.others


async def test_a_long_helper_between_test_and_code_is_a_signature(tmp_path: Path) -> None:
    body = "".join(f"    step_{n} = {n}\n" for n in range(9))
    files = {**FILES, "tests/test_blocks.py": FILES["tests/test_blocks.py"].replace("wanted):\n", f"wanted):\n{body}", 1)}
    async with sandbox_with(tmp_path, files) as sandbox:
        found = await view(await staged(sandbox), 3_000)
    (helper,) = [excerpt for excerpt in found.excerpts if "`check`" in excerpt.title]
    assert helper.text == "def check(text, wanted):"


SHELF = {
    "shelf.py": "class Shelf:\n    def count(self):\n        return -1\n",
    "tests/conftest.py": "import pytest\n\n@pytest.fixture\ndef shelf():\n    from shelf import Shelf\n    return Shelf()\n",
    "tests/test_shelf.py": (
        "import pytest\n\n@pytest.fixture\ndef wanted():\n    return 1\n\n@pytest.fixture\ndef unused():\n    return 2\n\n"
        "class TestShelf:\n    def setup_method(self):\n        self.more = 0\n\n"
        "    def test_count(self, shelf, wanted):\n        assert shelf.count() + self.more == wanted\n"
    ),
}


async def test_what_prepares_the_failing_test_is_shown(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, SHELF) as sandbox:
        found = await view(await staged(sandbox), 3_000)
    prepares = [each for each in found.excerpts if "prepares the failing test" in each.title]
    assert "def shelf():" in prepares[-1].text
    text = "\n".join(each.text for each in found.excerpts)
    assert "def wanted():" in text
    assert "def setup_method(self):" in text
    assert "def unused():" not in text


SCRIPT = {
    "numbers_.py": "import warnings\n\n\ndef old(n):\n    warnings.warn('old is late', DeprecationWarning, 2)\n    return n\n",
    "tests/test_all.py": (
        "import os, sys, unittest, warnings\nsys.path.insert(0, os.getcwd())\nwarnings.simplefilter('always')\n"
        "import numbers_\n\n\nclass Tests(unittest.TestCase):\n    def test_fine(self):\n        numbers_.old(1)\n"
        "        numbers_.old(2)\n\n    def test_issue(self):\n        wanted = 3  # as in the report\n"
        "        for n in (1, 2):\n            numbers_.old(n)\n        self.same(numbers_.old(2), wanted)\n\n"
        "    def same(self, one, other):\n        self.assertEqual(one, other)\n\n\n"
        "if __name__ == '__main__':\n    unittest.main()\n"
    ),
}


async def test_of_a_script_the_failing_test_is_shown_whole_and_no_warnings(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, SCRIPT) as sandbox:
        now = await situation(sandbox, "python tests/test_all.py", "exit")
        shown = (await diagnose.repair(replace(now, strategy=DIRECT), 12_000, "")).prompt.messages[-1]["content"]
    assert "    def test_issue(self):\n        wanted = 3  # as in the report\n" in shown
    assert "`Tests.test_issue`, the failing test" in shown
    assert "test_fine" not in shown
    assert "AssertionError: 2 != 3" in shown
    assert "Warning: old is late" not in shown


async def test_without_suspects_what_the_test_names_is_shown(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, FILES) as sandbox:
        now = replace(await staged(sandbox), suspects=())
        now = replace(
            now, red=tuple(replace(run, failures=tuple(replace(f, frames=()) for f in run.failures)) for run in now.red)
        )
        found = (await view(now, 3_000)).excerpts
    assert any("`page`, named by the failing test" in excerpt.title for excerpt in found)


def options(ending: str) -> dict[str, str]:
    """A program with a long loop over its options, which ends with `ending`, and a test that starts it with one of them."""
    loop = [f"        elif name == '--part-{n}':\n            settings['part {n}'] = value.strip()\n" for n in range(150)]
    loop[75] = "        elif name == '-F':\n            settings['float'] = name\n"
    code = (
        "import sys\n\n\ndef main(words):\n    settings = {}\n    for name, value in zip(words, words[1:]):\n"
        "        if name == '--':\n            break\n"
        f"{''.join(loop)}{ending}\n\n\n"
        "def table(n):\n    return n\n\n\nif __name__ == '__main__':\n    main(sys.argv[1:])\n"
    )
    test = (
        "import subprocess, sys\n\n\ndef test_float():\n"
        "    done = subprocess.run([sys.executable, 'pkg/program.py', '-F', '.1e'], capture_output=True, text=True)\n"
        "    if done.stderr:\n        raise OSError(done.stderr.encode())\n    assert done.stdout == '.1e\\n'\n"
    )
    return {"pkg/program.py": code, "tests/test_float.py": test}


async def test_of_a_long_function_the_lines_with_the_words_of_the_failing_test_are_kept(tmp_path: Path) -> None:
    for at, ending in enumerate(["    print(settings['float'])", "    raise ValueError(settings['float'])"]):
        async with sandbox_with(tmp_path / str(at), options(ending)) as sandbox:
            now = replace(await staged(sandbox), suspects=())
            found = {excerpt.title: excerpt.text for excerpt in (await view(now, 2_100)).excerpts}
        (main,) = [text for title, text in found.items() if "`main`," in title]
        assert "        elif name == '-F':\n            settings['float'] = name\n" in main, ending
        assert "are not shown" in main
    assert any("`main`, in a traceback" in title for title in found), "the traceback of the program that the test starts"
    assert ending in main


async def test_so_are_those_of_a_long_function_that_the_diagnosis_names(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, options("    print(settings['float'])")) as sandbox:
        known = Diagnosis("x", "logic", 0.9, "model:m", places=("pkg/program.py::main",))
        found = (await view(replace(await staged(sandbox), diagnosis=known), 2_100)).excerpts
    assert any("        elif name == '-F':\n            settings['float'] = name\n" in excerpt.text for excerpt in found)


async def test_of_a_program_that_a_test_starts_what_is_named_like_the_test_is_shown(tmp_path: Path) -> None:
    files = {
        "tests/test_cli.py": "import os\n\ndef test_run_with_variable():\n    assert os.system('shop run') == 0\n",
        "src/shop/cli.py": "def run(names):\n    return names\n\ndef check(names):\n    return names\n",
        "src/shop/parts.py": "def run_all():\n    return 1\n",
    }
    async with sandbox_with(tmp_path, files) as sandbox:
        found = (await view(replace(await staged(sandbox), suspects=()), 2_000)).excerpts
    assert [excerpt.path for excerpt in found][:2] == ["tests/test_cli.py", "src/shop/cli.py"]
    assert "named like the failing test" in found[1].title


async def test_cases_that_fail_alike_are_told_together_and_their_traceback_once(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, FILES) as sandbox:
        told = failures.as_text(failures.red(await staged(sandbox)), 600)
    assert told.count("--- tests/test_blocks.py") == 1
    assert "def test_quote_keeps_its_end" not in told
    assert told.count("::test_quote_keeps_its_end[") >= 3


async def test_a_failure_without_anything_to_go_by_is_diagnosed_first(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, FILES) as sandbox:
        now = await staged(sandbox)
    hosted, local = (ModelProposer(Models(ModelSettings(name))) for name in ("openai/x", "ollama_chat/x"))
    lost = replace(
        now,
        suspects=(),
        red=tuple(replace(run, failures=tuple(replace(f, frames=()) for f in run.failures)) for run in now.red),
    )
    unsure = Diagnosis("a", "logic", 0.2, "model:m", hypotheses=("b", "c", "d"))
    sure = Diagnosis("a", "logic", 0.9, "model:m")
    assert hosted.strategies(now) == ("direct",)
    assert hosted.strategies(lost) == ("diagnosed",)
    assert hosted.strategies(replace(now, refuted=("x",), round=2)) == ("direct",)
    assert hosted.strategies(replace(now, round=3)) == ("diagnosed",)
    assert hosted.strategies(replace(now, diagnosis=unsure)) == ("hypothesis:0", "hypothesis:1", "hypothesis:2")
    assert hosted.strategies(replace(now, diagnosis=unsure, refuted=("a",))) == ("hypothesis:1", "hypothesis:2", "hypothesis:3")
    assert hosted.strategies(replace(now, diagnosis=unsure, calls=2)) == ("hypothesis:0",), "each may take a second asking"
    assert local.strategies(replace(now, diagnosis=unsure)) == ("hypothesis:0",), "it answers one at a time"
    assert hosted.strategies(replace(now, diagnosis=sure, round=2)) == ("targeted",), "a second way only where that failed"
    half = replace(sure, confidence=0.6)
    assert hosted.strategies(replace(now, diagnosis=half, round=2)) == ("targeted", "another")
    for place, second in (("a.py::Class.method", "function"), ("a.py::LIMIT", "another"), ("a.py::Class", "another")):
        ways = hosted.strategies(replace(now, diagnosis=replace(sure, places=(place,)), round=4))
        assert ways == ("targeted", second, "minimal")
    assert hosted.strategies(replace(now, diagnosis=sure, round=3, stuck=1))[0] == "afresh"


def test_names_that_say_what_a_test_is_about_weigh_more_than_those_that_all_places_share() -> None:
    places = [
        "pkg/renderers/markdown.py MarkdownRenderer.block_quote",
        "pkg/renderers/html.py HTMLRenderer.link",
        "pkg/core.py f",
    ]
    found = similarities("tests/test_renderers.py::TestMarkdownRenderer::test_block_quote_ends", places)
    assert found[0] > found[1] > found[2] == 0.0
    assert similarities("tests/x.py::test_y", places) == [0.0] * 3


LONG = {
    "pkg/__init__.py": "",
    "pkg/reader.py": (
        "from pkg.counting import Counter\n\n\nclass Reader:\n    def __init__(self):\n        self._counter = Counter()\n\n"
        "    def read(self, text):\n        for line in text.split('\\r\\n'):\n            self._check(line)\n"
        "        return self._counter\n\n"
        "    def _check(self, line):\n        self._counter.feed(line)\n"
    ),
    "pkg/counting.py": (
        "class Counter:\n    def __init__(self):\n        self._count = 0\n\n"
        "    @property\n    def count(self):\n        return self._count\n\n"
        "    def feed(self, line):\n        self._count += 2\n\n    def elsewhere(self):\n        return 3\n\n\n"
        "def long(value):\n" + "".join(f"    value += {n}  # filled\n" for n in range(120)) + "    return value\n"
    ),
    "tests/test_reader.py": (
        "from pkg.reader import Reader\n\n\ndef test_lines():\n    assert Reader().read('a\\r\\nb').count == 2\n\n\n"
        "def test_none():\n    assert Reader()\n"
    ),
}


async def test_what_the_likely_code_calls_and_what_lessons_name_are_shown(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, LONG) as sandbox:
        now = replace(
            await staged(sandbox), lessons=("x (pkg/counting.py:80): 1 stays red `tests/test_reader.py::test_lines`",)
        )
        found = {excerpt.title: excerpt.text for excerpt in (await view(now, 1_200)).excerpts}
    told = "\n".join(found)
    assert "`Counter.feed`" in told, "called through a delegator"
    assert "`Counter.__init__`" in told, "it sets what the getter hands out"
    assert "elsewhere" not in told
    (long,) = [text for title, text in found.items() if "`long`, changed by an earlier try" in title]
    assert "[… lines" in long
    assert 30 < len(long.splitlines()) < 50, "the place with some lines around, where the whole does not fit"


async def test_what_runs_in_many_passing_tests_is_shown_only_where_shown_code_calls_it(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, LONG) as sandbox:
        now = await staged(sandbox)
        common = [
            Span("pkg/counting.py", line, line, 0.1, "runs in 1 failing and 99 passing tests", name)
            for line, name in ((7, "Counter.count"), (10, "Counter.feed"), (13, "Counter.elsewhere"), (20, "long"))
        ]
        found = await view(replace(now, suspects=(*now.suspects, *common)), 3_000)
    told = "\n".join(excerpt.title for excerpt in found.excerpts)
    assert "`Counter.feed`" in told
    assert "elsewhere" not in told
    assert "`long`" not in told
    assert {"pkg/counting.py::Counter.elsewhere", "pkg/counting.py::long"} <= {*found.others}, "they can be asked for"


def test_a_failing_test_of_fifty_lines_is_shown_whole() -> None:
    body = "\n".join(f"    step_{at}()" for at in range(48))
    module = Module("tests/test_a.py", f"def test_a():\n{body}\n    assert False\n")
    passages = Passages(4_000)
    passages.add(Location(module, 1, 50, "the failing test", lines=(50,)), always=True)
    assert "not shown" not in passages.excerpts()[0].text


def test_a_function_that_does_not_fit_is_cut_around_its_failing_line() -> None:
    module = Module("m.py", "def long(a):\n" + "".join(f"    a = step_{at}(a)\n" for at in range(28)) + "    return a\n")
    definition = module.named("long")
    assert definition is not None
    passages = Passages(110)
    assert passages.add(Location(module, 1, 30, "in the traceback", definition, (25,)), cut=True)
    [excerpt] = passages.excerpts()
    assert "step_23(a)" in excerpt.text, "line 25"
    assert "step_10(a)" not in excerpt.text
    assert excerpt.text.startswith("def long(a):")
    assert excerpt.text.endswith("return a")
