"""Answers that are not in the form that was asked for are read where they mean one thing, else refused with a sentence."""

from __future__ import annotations

import time

import pytest

from agent.edits.answers import parse
from agent.edits.changes import EditProblem
from agent.edits.placement import resolve

CALC = "import os\n\n\ndef add(a, b):\n    return a - b\n\n\nclass Box:\n    def grow(self):\n        return 1\n"
OTHER = "def mul(a, b):\n    return a * b\n"
SOURCES = {"pkg/calc.py": CALC, "pkg/other.py": OTHER}
MENDED = CALC.replace("a - b", "a + b")


def read(answer: str, *shown: str) -> dict[str, str | None] | str:
    """The files after the answer, or the sentence that refuses it."""
    changes = parse(answer)
    if isinstance(changes, EditProblem):
        return changes.sentence
    edits = resolve(changes, SOURCES, shown or tuple(SOURCES))
    return edits.sentence if isinstance(edits, EditProblem) else {edit.path: edit.after for edit in edits}


DIFF = """\
Here is the patch:

```diff
diff --git a/pkg/calc.py b/pkg/calc.py
index 111..222 100644
--- a/pkg/calc.py
+++ b/pkg/calc.py
@@ -4,2 +4,2 @@ import os
 def add(a, b):
-    return a - b
+    return a + b
```

That should do it.
"""


def block(search: str, replace: str, path: str = "pkg/calc.py") -> str:
    return f"{path}\n<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


OLD, NEW = "    return a - b", "    return a + b"
DENSE = "\ndef add(a,b):\n    return a-b"
NUMBERED = "4 | def add(a, b):\n5 |     return a - b"


@pytest.mark.parametrize(
    "answer",
    [
        DIFF,
        DIFF.replace("```diff\n", "").replace("```\n", ""),
        DIFF.replace("@@ -4,2 +4,2 @@ import os", "@@ -1,99 +7,3 @@"),
        "pkg/calc.py\n<<<<<<< SEARCH\nreturn a - b\n=======\nreturn a + b\n>>>>>>> REPLACE\n",
        "<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE\n",
        "<<<<<<< SEARCH pkg/calc.py\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE\n",
        "**File: `pkg/calc.py`**\n<<<<<<< ORIGINAL\n    return a - b\n=======\n    return a + b\n>>>>>>> UPDATED\n",
        "FUNCTION add\n```python\ndef add(a, b):\n    return a + b\n```\n",
        "The fixed function:\n\n```python\ndef add(a, b):\n    return a + b\n```\n",
        "pkg/calc.py\n```python\ndef add(a, b):\n    return a + b\n```\n",
        f"### pkg/calc.py\n\n```python\n{MENDED}```\n",
        # paths
        block(OLD, NEW, "calc.py"),
        block(OLD, NEW, "a/pkg/calc.py"),
        block(OLD, NEW, "/repo/pkg/calc.py"),
        "`pkg/calc.py::add`\n```python\ndef add(a, b):\n    return a + b\n```\n",
        # markers
        "pkg/calc.py\n------- SEARCH\n    return a - b\n=======\n    return a + b\n+++++++ REPLACE\n",
        "1. pkg/calc.py\n   <<<<<<< SEARCH\n       return a - b\n   =======\n       return a + b\n   >>>>>>> REPLACE\n",
        "pkg/calc.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n",
        "pkg/calc.py\n```python\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n```\nThat is all.\n",
        block(f"```python\n{OLD}\n```", f"```python\n{NEW}\n```"),
        # blanks and line numbers
        block(DENSE, f"def add(a, b):\n{NEW}"),
        block(NUMBERED, NUMBERED.replace("-", "+")),
        # JSON
        '{"path": "pkg/calc.py", "search": "    return a - b\\n", "replace": "    return a + b\\n"}',
        'So:\n```json\n{"edits": [{"file": "pkg/calc.py", "old_string": "a - b", "new_string": "a + b"}]}\n```\n'.replace(
            "a - b", "return a - b"
        ).replace("a + b", "return a + b"),
    ],
)
def test_what_can_mean_one_thing_only_is_read(answer: str) -> None:
    assert read(answer) == {"pkg/calc.py": MENDED}


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("<<<<<<< SEARCH\nnothing like it\n=======\nx\n>>>>>>> REPLACE\n", "fits no file that was shown"),
        ("```python\ndef nobody():\n    pass\n```\n", "fits no file that was shown"),
        ("pkg/calc.py\n```python\ndef add(a, b):\n    return a + b\n\nX = 1\n```\n", "not the whole file (Box is missing)"),
        ("pkg/new.py\n```python\nX = 1\n```\n", "There is no file pkg/new.py"),
        ("--- a/pkg/calc.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-import os\n", "cannot remove pkg/calc.py"),
        ("--- a/pkg/calc.py\n+++ b/pkg/calc.py\n@@ -1 +1 @@\n-import sys\n+import re\n", "do not occur in pkg/calc.py"),
        ("```python\nprint(add(1, 2))\n```\n", "no SEARCH/REPLACE block"),
        ("<<<<<<< SEARCH\nx\n", "is not closed"),
    ],
)
def test_what_cannot_be_placed_once_is_refused_with_a_sentence(answer: str, sentence: str) -> None:
    told = read(answer)
    assert isinstance(told, str)
    assert sentence in told


def test_lines_that_fit_two_files_need_a_path() -> None:
    answer = "<<<<<<< SEARCH\n(a, b):\n=======\n(a, b, c):\n>>>>>>> REPLACE\n".replace("(a, b):", "def f():").replace(
        "(a, b, c):", "def g():"
    )
    changes = parse(answer)
    assert not isinstance(changes, EditProblem)
    same = {"one.py": "def f():\n    pass\n", "two.py": "def f():\n    pass\n"}
    told = resolve(changes, same, tuple(same))
    assert isinstance(told, EditProblem)
    assert "more than one file" in told.sentence


def test_a_file_without_definitions_is_not_replaced_by_a_part() -> None:
    changes = parse("settings.py\n```python\nTWO = 3\n```\n")
    assert not isinstance(changes, EditProblem)
    told = resolve(changes, {"settings.py": "ONE = 1\nTWO = 2\n"})
    assert isinstance(told, EditProblem)
    assert "settings.py is not the whole file (ONE is missing); use" in told.sentence


def test_a_diff_can_make_a_new_file() -> None:
    changes = parse("--- /dev/null\n+++ b/pkg/new.py\n@@ -0,0 +1,2 @@\n+X = 1\n+Y = 2\n")
    assert not isinstance(changes, EditProblem)
    edits = resolve(changes, {"pkg/new.py": None})
    assert not isinstance(edits, EditProblem)
    assert (edits[0].before, edits[0].after) == (None, "X = 1\nY = 2\n")


@pytest.mark.parametrize(
    ("heading", "title"), [("=====", "Notes"), ("=======", "Calling"), ("=========", "Selfheals")], ids=["5", "7", "9"]
)
@pytest.mark.parametrize("ends", ["", "\nold"], ids=["alone", "with more"])
def test_an_underlined_heading_is_no_divider(heading: str, title: str, ends: str) -> None:
    """Also where it is as long as one: then the file tells which of them divides."""
    text = f"{title}\n{heading}\nold\n"
    for new in (f"More\n{heading}\nnew\n", "no heading\n"):
        answer = f"pkg/a.txt\n<<<<<<< SEARCH\n{title}\n{heading}{ends}\n=======\n{new}>>>>>>> REPLACE\n"
        changes = parse(answer)
        assert not isinstance(changes, EditProblem)
        edits = resolve(changes, {"pkg/a.txt": text})
        assert not isinstance(edits, EditProblem), edits
        assert edits[0].after == new + ("" if ends else "old\n")


def test_a_divider_of_another_length_is_read_where_there_is_no_other() -> None:
    answer = "pkg/calc.py\n<<<<<<< SEARCH\n    return a - b\n========\n    return a + b\n>>>>>>> REPLACE\n"
    assert read(answer) == {"pkg/calc.py": MENDED}


def test_a_block_without_its_last_marker_ends_where_the_next_begins() -> None:
    answer = (
        "pkg/calc.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n\n"
        "pkg/other.py\n<<<<<<< SEARCH\n    return a * b\n=======\n    return b * a\n>>>>>>> REPLACE\n"
    )
    assert read(answer) == {"pkg/calc.py": MENDED, "pkg/other.py": SOURCES["pkg/other.py"].replace("a * b", "b * a")}


BOX = "class Box:\n    size = 1\n\n    def grow(self):\n        return 1\n\n    def shrink(self):\n        return 2\n"
GROWN = "class Box:\n    def grow(self):\n        return 3\n"


@pytest.mark.parametrize("above", ["FUNCTION box.py::Box.grow", "FUNCTION box.py::Box", "box.py", "Here it is:"])
def test_one_method_inside_its_class_leaves_the_others(above: str) -> None:
    changes = parse(f"{above}\n```python\n{GROWN}```\n")
    assert not isinstance(changes, EditProblem)
    edits = resolve(changes, {"box.py": BOX}, ("box.py",))
    assert not isinstance(edits, EditProblem), edits
    assert edits[0].after == BOX.replace("return 1", "return 3")


def test_a_fence_in_a_docstring_does_not_end_the_code() -> None:
    after = 'def add(a, b):\n    """Adds.\n\n    ```\n    add(1, 2)\n    ```\n    """\n    return a + b\n'
    assert read(f"FUNCTION pkg/calc.py::add\n```python\n{after}```\nDone.\n") == {
        "pkg/calc.py": CALC.replace("def add(a, b):\n    return a - b\n", after)
    }


def test_lines_that_are_alike_without_blanks_must_be_the_only_ones() -> None:
    changes = parse("a.py\n<<<<<<< SEARCH\nx=f( 1 )\n=======\nx = f(2)\n>>>>>>> REPLACE\n")
    assert not isinstance(changes, EditProblem)
    assert isinstance(resolve(changes, {"a.py": "x = f(1)\ny = 1\nx = f(1)\n"}), EditProblem)
    edits = resolve(changes, {"a.py": "if y:\n    x = f(1)\n"})
    assert not isinstance(edits, EditProblem), edits
    assert edits[0].after == "if y:\n    x = f(2)\n"


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx = 1\n```\n" * 5000,
        "```python\n" + 'x = """\n```\n' * 5000,
        "<<<<<<< SEARCH\nx\n=======\ny\n" * 5000,
        "<<<<<<< SEARCH" + " " * 200_000 + "!",
        "```json\n[\n" * 5000,
        "FUNCTION a.py::f\n```python\n" * 5000,
    ],
)
def test_an_answer_that_repeats_itself_is_read_in_a_moment(text: str) -> None:
    began = time.process_time()
    parse(text[: 256 * 1024])
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("conf.yml\n<<<<<<< SEARCH\na: 1\n=======\na: 2\n\nThis fixes the bug.\n", "is not closed"),
        ("pkg/calc.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\nDone\n", "is not closed"),
        ("pkg/calc.py\n<<<<<<< SEARCH\n```python\n\n```\n=======\nx\n>>>>>>> REPLACE\n", "do not occur"),
        (block("5 |     return a - b", "5 |     return a + b\n        # 6"), "do not occur"),
        (block("# a ddition", "# addition"), "do not occur"),
        ("FUNCTION pkg/calc.py::Box\n```python\nclass Box:\n    size = 2\n```\n", "leaves out grow"),
        ("other/utils.py\n```python\ndef add(a, b):\n    return a + b\n```\n", "There is no file other/utils.py"),
        ("pkg/other.py\n```python\nimport os\n```\n", "is not the whole file (mul is missing)"),
        (
            "pkg/calc.py\n```python\ndef add(a, b): ...\n\nclass Box:\n    def grow(self): ...\n\nX = 1\n```\n",
            "(os is missing)",
        ),
    ],
)
def test_nothing_is_placed_where_it_may_be_wrong(answer: str, sentence: str) -> None:
    told = read(answer)
    assert isinstance(told, str), told
    assert sentence in told


def test_a_file_that_the_answer_creates_comes_before_one_of_the_same_name() -> None:
    answer = block("", "X = 1", "calc.py") + block("X = 1", "X = 2", "calc.py")
    assert read(answer) == {"calc.py": "X = 2\n"}
