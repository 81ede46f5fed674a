"""Edits go into a workspace exactly and come out of it exactly."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from agent.contract.proposal import FileChange
from agent.edits import changes as edits
from agent.edits.answers import clean_path, parse
from agent.edits.changes import EditProblem, added, diff, opcodes, removed
from agent.edits.placement import resolve

SOURCE = """\
def add(a, b):
    return a - b


class Box:
    @property
    def size(self):
        return 1

    def grow(self):
        return 2
"""


def block(search: str, replace: str, path: str = "pkg/a.py") -> str:
    return f"Here it is.\n\n{path}\n```python\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n```\n"


def placed(answer: str, source: str | None = SOURCE, path: str = "pkg/a.py") -> str:
    changes = parse(answer)
    assert not isinstance(changes, EditProblem), changes
    result = resolve(changes, {path: source})
    assert not isinstance(result, EditProblem), result
    (change,) = result
    assert change.before == source
    assert change.after is not None
    return change.after


def problem(answer: str, source: str | None = SOURCE) -> str:
    changes = parse(answer)
    result = changes if isinstance(changes, EditProblem) else resolve(changes, {"pkg/a.py": source})
    assert isinstance(result, EditProblem), result
    return result.sentence


def test_an_exact_block_is_placed() -> None:
    assert placed(block("    return a - b", "    return a + b")) == SOURCE.replace("a - b", "a + b")


def test_several_blocks_of_one_file_need_one_path_and_build_on_each_other() -> None:
    answer = (
        "pkg/a.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a * b\n>>>>>>> REPLACE\n"
        "<<<<<<< SEARCH\n    return a * b\n=======\n    return a + b\n>>>>>>> REPLACE\n"
    )
    assert placed(answer) == SOURCE.replace("a - b", "a + b")


def test_carriage_returns_and_a_missing_last_newline_are_kept() -> None:
    windows = SOURCE.replace("\n", "\r\n").removesuffix("\r\n")
    assert placed(block("    return a - b", "    # plus\n    return a + b"), windows) == windows.replace(
        "    return a - b", "    # plus\r\n    return a + b"
    )
    assert placed(block("        return 2", "        return 3"), windows) == windows.replace("return 2", "return 3")


def test_lines_that_are_indented_otherwise_throughout_are_found_once() -> None:
    assert placed(block("return a - b", "x = a\nreturn x + b")) == SOURCE.replace(
        "    return a - b", "    x = a\n    return x + b"
    )


def test_lines_that_occur_twice_are_refused_with_their_count() -> None:
    assert "2 times" in problem(block("x = 1", "x = 2"), "x = 1\nx = 1\n")


def test_lines_that_do_not_occur_are_refused_and_quoted() -> None:
    assert "return nothing" in problem(block("    return nothing", "pass"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("", "empty"),
        ("I would rather not.", "no SEARCH/REPLACE block"),
        ("x" * 10_000_000, "longer than"),
        ("pkg/a.py\n<<<<<<< SEARCH\nx\ny\n", "not closed"),
        ("<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n", "path above"),
        (block("    return a - b", "    return a - b"), "changes nothing"),
        (block("    return a - b", "    return (a"), "not valid Python"),
        (block("x", "y", path="../etc/passwd.py"), "outside"),
        (block("x", "y", path="pkg/b.py"), "no file"),
        (block("", "y = 1"), "needs SEARCH lines"),
        ("FUNCTION pkg/a.py::nope\n```python\ndef nope(): pass\n```", "has no nope"),
        ("FUNCTION pkg/a.py::add\n```python\ndef other(): pass\n```", "exactly one definition of that name"),
        ("FUNCTION pkg/a.py::add\n```python\ndef add(): pass\n", "not closed"),
        ("pkg/a.py\n" + "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n" * 51, "more than 50"),
    ],
)
def test_what_cannot_be_placed_is_refused_with_a_sentence(answer: str, words: str) -> None:
    assert words in problem(answer)


def test_a_method_is_replaced_whole_and_its_decorator_stays() -> None:
    answer = "FUNCTION pkg/a.py::Box.size\n```python\ndef size(self):\n    return 7\n```\n"
    assert placed(answer) == SOURCE.replace("return 1", "return 7")


def test_a_function_is_replaced_with_its_decorators_when_the_answer_has_them() -> None:
    answer = "### FUNCTION `pkg/a.py::Box.size`\n\n```python\n    @cached\n    def size(self):\n        return 7\n```\n"
    assert placed(answer) == SOURCE.replace("@property", "@cached").replace("return 1", "return 7")


@pytest.mark.parametrize("above", ["FUNCTION pkg/a.py::add", "pkg/a.py", "Here it is:"])
def test_imports_above_a_function_go_to_the_top_of_its_file(above: str) -> None:
    code = "import math\nfrom os import (\n    path,\n    sep,\n)\n\n\ndef add(a, b):\n    return math.fsum((a, b))\n"
    source = f'#!/usr/bin/python\n"""Sums."""\n\nfrom os import path, sep\n\n\n{SOURCE}'
    answer = parse(f"{above}\n```python\n{code}```\n")
    assert not isinstance(answer, EditProblem)
    result = resolve(answer, {"pkg/a.py": source}, ("pkg/a.py",))
    assert not isinstance(result, EditProblem), result
    assert result[0].after == source.replace("from os", "import math\nfrom os").replace("a - b", "math.fsum((a, b))")


def test_imports_are_added_with_the_line_ends_of_the_file() -> None:
    answer = "FUNCTION pkg/a.py::add\n```python\nimport math\n\ndef add(a, b):\n    return math.fsum((a, b))\n```\n"
    after = placed(answer, SOURCE.replace("\n", "\r\n"))
    assert after.startswith("import math\r\n\r\n\r\ndef add(a, b):\r\n")
    assert "\n" not in after.replace("\r\n", "")


def with_function(imports: str, body: str = "return a + b", head: str = "def add(a, b):") -> str:
    return f"FUNCTION pkg/a.py::add\n```python\n{imports}\n\n\n{head}\n    {body}\n```\n"


@pytest.mark.parametrize(
    ("there", "imports", "added"),
    [
        ("from os import path\n", "from os import path, sep", "from os import sep\n"),
        ("import os.path as path\n", "from os import path", ""),
        ("import os.path\n", "import os", ""),
        ("import os\n", "import os.path", "import os.path\n"),
        ("from os import *\n", "from os import *\nfrom sys import *", "from sys import *\n"),
        ("try:\n    import ujson as json\nexcept ImportError:\n    import json\n", "import json", ""),
        ("try:\n    import numpy as np\nexcept ImportError:\n    np = None\n", "import numpy as np", ""),
        ("names = [path for path in ()]\n", "from os import path", "from os import path\n\n"),
        (f"if 1{' + 1' * 2000}:\n    import os\n", "import os", ""),
        ("if 1:\n    def find():\n        path = 1\n", "from os import path", "from os import path\n\n"),
    ],
)
def test_of_imports_above_a_function_only_unknown_names_are_added(there: str, imports: str, added: str) -> None:
    source = f"{there}\n\n{SOURCE}"
    assert placed(with_function(imports), source) == added + source.replace("a - b", "a + b")


@pytest.mark.parametrize(
    ("there", "imports", "words"),
    [
        (
            "import re, datetime",
            "from datetime import datetime",
            "`datetime` cannot be imported in pkg/a.py, where it is something else (`import re, datetime`)",
        ),
        ("try:\n    import ujson as json\nexcept ImportError:\n    json = None", "import json", "(`import ujson as json`)"),
        ("path = '.'", "from os import path", "(`path = '.'`)"),
        ("def path(): ...", "import sys\nfrom os import path", "(`def path(): ...`)"),
        ("import a as os", "import os.path", "(`import a as os`)"),
    ],
)
def test_an_import_above_a_function_gives_no_name_another_meaning(there: str, imports: str, words: str) -> None:
    said = problem(with_function(imports), f"{there}\n\n\n{SOURCE}")
    assert words in said
    assert "use it as it is there" in said


@pytest.mark.parametrize(
    ("future", "code", "is_placed"),
    [
        ("", with_function("from app.models import User", head='def add(a: "User", b):'), True),
        ("", with_function("from app.models import User", head="def add(a: User, b):"), False),
        (
            "from __future__ import annotations\n",
            with_function("from app.models import User", head="def add(a: User, b):"),
            True,
        ),
        ("from __future__ import annotations\n", with_function("from app.models import User", "return User(a, b)"), False),
    ],
)
def test_an_import_for_type_checkers_stays_one(future: str, code: str, is_placed: bool) -> None:
    source = f"{future}from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from app.models import User\n\n\n{SOURCE}"
    if is_placed:
        head = next(line for line in code.splitlines() if line.startswith("def"))
        assert placed(code, source) == source.replace("a - b", "a + b").replace("def add(a, b):", head)
    else:
        assert "`User` is imported only for type checkers" in problem(code, source)


def test_code_behind_an_import_is_not_dropped() -> None:
    assert "exactly one definition" in problem(with_function("import os; DEBUG = 1"))


def test_an_empty_search_makes_a_new_file() -> None:
    assert placed(block("", "X = 1", path="pkg/new.py"), None, "pkg/new.py") == "X = 1\n"


def test_a_broken_file_may_be_mended_step_by_step() -> None:
    assert placed(block("def f(:", "def f():"), "def f(:\n    return (\n") == "def f():\n    return (\n"


@pytest.mark.parametrize("path", ["/etc/passwd", "a/../../b", "..", "", "a\\b", "a\0b"])
def test_paths_that_lead_outside_have_no_clean_form(path: str) -> None:
    assert clean_path(path) is None


def test_the_diff_can_be_applied_by_git(tmp_path: Path) -> None:
    import subprocess

    change = (
        FileChange("a.txt", "one\ntwo", "one\ntwo\nthree"),
        FileChange("b.txt", None, "new\n"),
        FileChange("c.txt", "x\f\n", None),
    )
    (tmp_path / "a.txt").write_text("one\ntwo")
    (tmp_path / "c.txt").write_text("x\f\n")
    subprocess.run(["git", "apply", "-"], input=edits.diff(change).encode(), cwd=tmp_path, check=True)
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\nthree"
    assert (tmp_path / "b.txt").read_text() == "new\n"
    assert not (tmp_path / "c.txt").exists()


def test_the_digest_is_of_the_change_and_not_of_its_order() -> None:
    one, two = FileChange("a", "1", "2"), FileChange("b", None, "")
    assert edits.digest((one, two)) == edits.digest((two, one))
    assert edits.digest((two,)) != edits.digest((FileChange("b", "", ""),))
    assert edits.changed_lines((FileChange("a", "1\n2\n", "1\n3\n4\n"),)) == 3


def test_a_person_counts_a_line_that_replaces_another_once() -> None:
    replaced, added_one = FileChange("a", "1\n2\n", "1\n3\n4\n"), FileChange("b", None, "x\n")
    assert [edits.edited_lines((replaced,)), edits.edited_lines((added_one,)), edits.edited_lines((replaced, added_one))] == [
        2,
        1,
        3,
    ]
    assert edits.edited_lines((FileChange("a", "1\n2\n", "1\n3\n"),)) == 1


def test_a_small_change_of_a_large_file_that_repeats_itself_is_told_small() -> None:
    """`difflib` alone takes minutes for this one."""
    before = [f"value_{number * 7919 % 150} = 1\n" for number in range(55_000)]
    after = ["first\n", *before[1:27_000], "middle\n", *before[27_001:]]
    change = (FileChange("a.py", "".join(before), "".join(after)),)
    assert (added(change), removed(change)) == (["first", "middle"], [before[0].strip(), before[27_000].strip()])
    assert len(diff(change).splitlines()) < 20


@pytest.mark.parametrize("size", [0, 1, 40, 3000])
def test_any_two_texts_have_opcodes_that_lead_from_one_to_the_other(size: int) -> None:
    chance = random.Random(size)
    for _ in range(100 if size < 100 else 2):
        before, after = ([chance.choice("abc") for _ in range(size)] for _ in range(2))
        made, at = [], (0, 0)
        for tag, i1, i2, j1, j2 in opcodes(before, after):
            assert (i1, j1) == at
            assert tag != "equal" or before[i1:i2] == after[j1:j2]
            made += before[i1:i2] if tag == "equal" else after[j1:j2]
            at = (i2, j2)
        assert (made, at) == (after, (size, size))
