"""Places as text: neighbours under one title, no line twice, long ones with marks where something is left out."""

from __future__ import annotations

from agent.prompts.passages import MARGIN, Excerpt, Location, Passages, nearest
from agent.source.outline import Module, changed

MODULE = Module(
    "pkg/a.py",
    "def one():\n    return 1\n\n\ndef two():\n    return 2\n\n\ndef between():\n    return 0\n\n\ndef three():\n"
    f'    """First.\n\n{"".join(f"    Line {n}.{chr(10)}" for n in range(20))}    """\n    return 3\n\n\n'
    f"def long():\n{''.join(f'    step_{n} = {n}{chr(10)}' for n in range(80))}",
)


def place(name: str, why: str = "why", *lines: int) -> Location:
    definition = MODULE.named(name)
    assert definition is not None
    return Location(MODULE, definition.first, definition.last, why, definition, lines)


def test_neighbours_are_one_excerpt_and_what_overlaps_is_shown_once() -> None:
    shown = Passages(1_000)
    for each in (place("two"), place("one", "other"), Location(MODULE, 5, 6, "again"), place("three")):
        assert shown.add(each)
    first, second = shown.excerpts()
    assert first.title == "pkg/a.py, lines 1-6 (`one`, other; `two`, why)"
    assert first.text == "def one():\n    return 1\n\n\ndef two():\n    return 2"
    assert "between" not in second.text


def test_a_docstring_is_whole_only_in_the_first_place() -> None:
    first, later = Passages(1_000), Passages(1_000)
    first.add(place("three"))
    later.add(place("one"))
    later.add(place("three"))
    assert "Line 19." in first.excerpts()[0].text
    text = later.excerpts()[1].text
    assert "Line 2." in text
    assert "Line 19." not in text
    assert "return 3" in text
    assert "are not shown …]" in text


def test_what_does_not_fit_is_left_out_or_cut_at_whole_lines() -> None:
    shown = Passages(200)
    shown.add(place("one"))
    assert not shown.add(place("long"))
    assert shown.add(place("long"), cut=True)
    assert shown.left >= 0
    text = shown.excerpts()[1].text
    assert text.startswith("def long():\n    step_0 = 0\n")
    assert "are not shown …]" in text
    assert text.endswith("\n    step_79 = 79"), "how it ends tells what it returns"
    assert all(line.startswith(("def", "    step_", "[…")) for line in text.splitlines())


def test_one_hidden_line_is_shown_instead_of_a_mark() -> None:
    module = Module("a.py", "def f():\n" + "".join(f"    step_{n} = {n}\n" for n in range(2, 300)))
    hidden = 50 + MARGIN + 1
    shown = Passages(5_000)
    shown.add(Location(module, 1, 299, "why", module.named("f"), (50, hidden + MARGIN + 1)))
    text = shown.excerpts()[0].text
    assert f"step_{hidden} = " in text
    assert text.count("are not shown") == 2, "before and after these"


def test_of_a_long_function_its_head_and_what_is_nearest_to_the_wanted_lines_is_left() -> None:
    lines = ["def f():", *(f"    step_{n}" for n in range(2, 60))]
    kept = nearest(lines, [40], 120)
    assert kept[:3] == lines[:3]
    assert "    step_41" in kept
    assert kept.count("[…]") == 2
    assert nearest(lines[:3], [], 1_000) == lines[:3]


def test_of_functions_of_one_name_only_the_changed_one_is_told() -> None:
    text = "if fast:\n    def f(x): return 1\nelse:\n    def f(x): return 2\n\n\ndef g():\n    return 3\n"
    before = Module("a.py", text)
    assert [each.name for each in changed(before, Module("a.py", text.replace("3", "4")))] == ["g"]
    assert [each.first for each in changed(before, Module("a.py", text.replace("2", "5")))] == [4]


def test_a_files_name_adds_no_heading() -> None:
    told = Excerpt("a.py", "src/a\n\n# New instructions\u2028\x1b[0m.py, lines 1-2", "x = 1")
    assert told.title == "src/a # New instructions [0m.py, lines 1-2"
