import ast
from pathlib import Path

import pytest

from agent.proposers.patterns.generate import changes, still_parses
from agent.proposers.patterns.source import Source, Unreadable
from agent.task import Span


def all_changes(text: str, path: str = "m.py") -> list[str]:
    found, skipped = changes({path: text}, [Span(path, 1, text.count("\n") + 1, 1.0, "")], 10_000)
    assert not skipped
    return [c.rewrite.apply(text) for c in found]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return a < b", "return a <= b"),
        ("return a - b", "return a + b"),
        ("return a + b * c", "return a - b * c"),
        ("return a and b", "return a or b"),
        ("return not a", "return a"),
        ("return a[0]", "return a[1]"),
        ("return a[1:]", "return a[2:]"),
        ("return a[b]", "return a[b - 1]"),
        ("return list(range(a))", "return list(range(a + 1))"),
        ("return f(a, b)", "return f(b, a)"),
        ("return min(a, b)", "return max(a, b)"),
        ("c.append(a)", "c.extend(a)"),
        ("return a.startswith(b)", "return a.endswith(b)"),
        ("return a.find(b)", "return a.index(b)"),
        ("return a + b", "return a + c"),
        ("return a + b", "return a"),
        ("if a and b:\n        return c", "if a:\n        return c"),
        ("if a:\n        return c", "if not a:\n        return c"),
        ("return True", "return False"),
        ("x, y = a", "y, x = a"),
        ("f(a)", "return f(a)"),
        ("yield f(a)", "yield from f(a)"),
        ("return a", "return abs(a)"),
        ("return a", "return a.lower()"),
        ("return a == b", "return set(a) == set(b)"),
        ("for x in a:\n        b += x", "for x in a:\n        if x:\n            b += x"),
        ("if a:\n        return True\n    return False", "if a:\n        return False\n    return True"),
        ("return sorted(a)", "return sorted(a, reverse=True)"),
        ("return not a or b", "return a is not None and b"),
        ("for x in a:\n        break", "for x in a:\n        continue"),
    ],
)
def test_each_family_lists_its_change(before: str, after: str) -> None:
    text = "def f(a, b, c):\n    {}\n"
    assert text.format(after) in all_changes(text.format(before))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_change_keeps_comments_line_ends_and_formatting(end: str) -> None:
    text = "def f(a,b):  # ä < ö".encode().decode() + end + "\tif a   <  b : # why" + end + "\t\treturn  'é' [ 0 ]" + end
    wanted = text.replace("a   <  b", "a   <=  b")
    assert wanted in all_changes(text)
    found, _ = changes({"m.py": text}, [Span("m.py", 1, 3, 1.0, "")], 10_000)
    for change in found:
        rewrite, after = change.rewrite, change.rewrite.apply(text)
        tail = len(text) - rewrite.end
        assert after[: rewrite.start] == text[: rewrite.start]
        assert after[len(after) - tail :] == text[rewrite.end :]
        assert after[: rewrite.start] + text[rewrite.start : rewrite.end] + after[len(after) - tail :] == text


def test_operators_are_found_behind_comments_and_parentheses() -> None:
    text = "def f(a, b):\n    return (a  # is < meant?\n            ) < (b)\n"
    assert text.replace(") < (b)", ") <= (b)") in all_changes(text)


def test_a_change_of_binding_gets_parentheses() -> None:
    after = all_changes("def f(a, b, c):\n    return a * b * c\n")
    assert any(ast.dump(ast.parse(t)) == ast.dump(ast.parse("def f(a, b, c):\n    return (a + b) * c\n")) for t in after)


def test_most_changes_of_real_code_still_parse_and_differ() -> None:
    text = Path(ast.__file__).read_text()[:6_000].rpartition("\ndef ")[0] + "\n"
    found, _ = changes({"m.py": text}, [Span("m.py", 1, 400, 1.0, "")], 300)
    good = sum(still_parses(text, c.rewrite.apply(text)) for c in found)
    assert good > 0.97 * len(found)


def test_the_most_suspicious_lines_come_first() -> None:
    text = "def f(a, b):\n    if a < b:\n        return a < 1\n    return b\n"
    found, _ = changes({"m.py": text}, [Span("m.py", 2, 2, 0.2, ""), Span("m.py", 3, 3, 1.0, "")], 1000)
    assert found[0].line == 3
    assert 4 not in {c.line for c in found}


@pytest.mark.parametrize(
    "text",
    [
        "def f(:\n",
        "a = 1\0",
        "(" * 500 + ")" * 500,
        "-" * 30_000 + "1",
        "x = 1\n" * 200_000,
        "a" + ".b" * 5000,
        "x = [" * 90 + "]" * 90 + "+" * 2000 + "1",
    ],
)
def test_hostile_text_is_skipped_with_a_reason(text: str) -> None:
    found, skipped = changes({"m.py": text, "ok.py": "def f(a):\n    return a < 1\n"}, [Span("ok.py", 1, 2, 1.0, "")], 100)
    assert list(skipped) == ["m.py"]
    assert found
    with pytest.raises(Unreadable):
        Source.read("m.py", text)


def test_a_byte_order_mark_does_not_move_the_change() -> None:
    text = "\ufeffdef f(a):\n    return a < 1\n"
    assert text.replace("<", "<=") in all_changes(text)
