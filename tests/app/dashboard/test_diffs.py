from __future__ import annotations

import pytest

from app.dashboard.diffs import MOST_LINES, Line, affordable, lines_of
from app.dashboard.safe_text import Sanitizer

DIFF = """\
--- a/src/rates.py
+++ b/src/rates.py
@@ -10,4 +10,4 @@ def price(grams):
     for limit, cents in RATES:
-        if grams < limit:
+        if grams <= limit:
             return cents  # "the first"
     raise ValueError('too heavy')
--- /dev/null
+++ b/new.py
@@ -0,0 +1,1 @@
+x = 1
\\ No newline at end of file
"""


def shown(diff: str) -> list[Line]:
    return lines_of(diff, Sanitizer())


def test_lines_have_their_kind_and_their_numbers() -> None:
    assert [(line.kind, line.old, line.new) for line in shown(DIFF)] == [
        ("file", None, None),
        ("hunk", None, None),
        ("same", 10, 10),
        ("old", 11, None),
        ("new", None, 11),
        ("same", 12, 12),
        ("same", 13, 13),
        ("file", None, None),
        ("hunk", None, None),
        ("new", None, 1),
        ("note", None, None),
    ]


def test_what_differs_in_a_line_is_marked_and_tokens_are_coloured() -> None:
    lines = shown(DIFF)
    assert "<mark>=</mark>" in lines[4].html
    assert '<span class="t-keyword">if</span>' in lines[4].html
    assert '<span class="t-comment"># &#34;the first&#34;</span>' in lines[5].html
    assert '<span class="t-string">&#39;too heavy&#39;</span>' in lines[6].html
    assert lines[0].html == "src/rates.py"
    assert lines[7].html == "new.py (new)"


def test_html_in_code_is_text() -> None:
    diff = "--- a/<b>\n+++ b/<b>\n@@ -1 +1 @@ <script>\n-<img src=x onerror=alert(1)>\n+<img src=y onerror=alert(1)>\n"
    html = "".join(line.html for line in shown(diff))
    assert "<img" not in html
    assert "<script" not in html
    assert "<b>" not in html
    assert "&lt;img src=" in html


def test_bidirectional_characters_in_code_are_seen() -> None:
    (line,) = [line for line in shown("--- a/x\n+++ b/x\n@@ -1 +1 @@\n+if a:\u202e # evil\n") if line.kind == "new"]
    assert '<span class="t-unseen">⟦U+202E⟧</span>' in line.html


@pytest.mark.parametrize(
    "text",
    ["+" + "'\\" * 200_000, "-" * 300_000, "+a\n" * 100_000, "@@ -" + "9" * 100_000, "-x\n" * 9_000 + "+y\n" * 9_000],
    ids=["quotes", "dashes", "additions", "numbers", "pairs"],
)
def test_hostile_diffs_are_cut(text: str) -> None:
    lines = shown(text)
    assert len(lines) <= MOST_LINES + 1
    assert max(len(line.html) for line in lines) < 20_000


def test_a_removed_line_that_looks_like_a_head_ends_nothing() -> None:
    lines = shown("--- a/q.sql\n+++ b/q.sql\n@@ -1,2 +1,1 @@\n--- a comment\n-x\n y\n")
    assert [line.kind for line in lines] == ["file", "hunk", "old", "old", "same"]


def test_a_replaced_line_that_looks_like_the_heads_of_a_file_is_shown_as_code() -> None:
    lines = shown(
        "--- a/q.c\n+++ b/q.c\n@@ -1,2 +1,2 @@\n same\n--- i;\n+++ i;\tevil();\n--- a/r.c\n+++ b/r.c\n@@ -1 +1 @@\n-x\n+y\n"
    )
    assert [line.kind for line in lines] == ["file", "hunk", "same", "old", "new", "file", "hunk", "old", "new"]
    assert "evil();" in lines[4].html
    assert lines[5].html == "r.c"


def test_nothing_behind_the_path_of_a_file_is_hidden() -> None:
    assert "evil" in shown("--- a/q.c\n+++ b/q.c\tevil();\n")[0].html


def test_what_one_page_has_room_for_goes_to_the_first() -> None:
    small, lines, wide = "+x\n" * 10, "+x\n" * 10_000, "+" + "1 " * 100_000
    assert affordable([(7, small), (3, small)]) == {7, 3}
    assert affordable([(number, lines) for number in range(60)]) == {0, 1, 2}
    assert affordable([(number, wide) for number in range(60)]) == {0, 1, 2, 3}


def test_nothing_is_no_line() -> None:
    assert shown("") == []
