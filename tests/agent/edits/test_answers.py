"""Answers that are not in the form that was asked for are read where they mean one thing, else refused with a sentence."""

from __future__ import annotations

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
