"""Every operator makes the slip that its name says, and each slip is a program that does something else."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from agent.bench.breaks.operators import OPERATORS, broken, slips

# Kind, the body of a function, and every body that the operator makes of it. `CASES` are in the order of `OPERATORS`.
CASES = [
    ("missing return", "return f(a)", ["f(a)"]),
    ("missing return", "x = a\nreturn x", ["x = a"]),
    ("missing return", "return a + 1", []),
    ("removed branch", "if a:\n    b = 1\nreturn b", ["return b"]),
    ("removed branch", "if a:\n    b = 1\nelif c:\n    b = 2\nelse:\n    b = 3", [
        "if a:\n    b = 1\nelse:\n    b = 3", "if a:\n    b = 1\nelif c:\n    b = 2",
    ]),
    ("removed branch", "try:\n    f()\nexcept KeyError:\n    b = 1\nexcept ValueError:\n    b = 2", [
        "try:\n    f()\nexcept ValueError:\n    b = 2", "try:\n    f()\nexcept KeyError:\n    b = 1",
    ]),
    ("missing check", "if a:\n    b = 1\n    c = 2\nreturn b", ["b = 1\nc = 2\nreturn b"]),
    ("missing check", "if a: b = 1\nreturn b", []),
    ("dropped call", "f(a)\nreturn b", ["return b"]),
    ("dropped call", "for x in a:\n    b.append(x)", ["for x in a:\n    pass"]),
    ("missing assignment", "d = a\nd = f(d)\nself.c = d", ["d = a\nself.c = d", "d = a\nd = f(d)"]),
    ("missing assignment", "while a:\n    b += 1\n    f(b)", ["while a:\n    f(b)"]),
    ("moved statement", "b = 1\nb = f(b)", ["b = f(b)\nb = 1"]),
    ("moved statement", "b = 1\nc = 2", []),
    ("early return", "for x in a:\n    b += x\nreturn b", ["for x in a:\n    b += x\n    return b"]),
    ("wrong jump", "for x in a:\n    if x:\n        break\n    f(x)", ["for x in a:\n    if x:\n        continue\n    f(x)"]),
    ("= for +=", "b += a", ["b = a"]),
    ("= for +=", "b.c //= (a + 1)", ["b.c = (a + 1)"]),
    ("negated condition", "if not a:\n    b = 1", ["if a:\n    b = 1"]),
    ("negated condition", "return 1 if f(a) else 2", ["return 1 if not f(a) else 2"]),
    ("negated condition", "if a is None:\n    b = 1", ["if a is not None:\n    b = 1"]),
    ("wrong connective", "return a and b", ["return a or b"]),
    ("missing condition", "return a and b or c", ["return a or c", "return a and b"]),
    ("off by one", "return a[1:len(a) - 1]", ["return a[0:len(a) - 1]", "return a[1:len(a)]"]),
    ("off by one", "return range(len(a))", ["return range(len(a) - 1)"]),
    ("off by one", "return a[-1]", ["return a[0]"]),
    ("wrong boundary", "return a < b <= c", ["return a <= b <= c", "return a < b < c"]),
    ("wrong operator", "return a + b", ["return a - b"]),
    ("wrong operator", "return f(-a)", ["return f(a)"]),
    ("swapped arguments", "return f(a, b)", ["return f(b, a)"]),
    ("swapped arguments", "return a - b", ["return b - a"]),
    ("swapped arguments", "return isinstance(a, b)", []),
    ("missing argument", "return f(a, key=b)", ["return f(a)"]),
    ("dropped conversion", "return list(a)", ["return a"]),
    ("dropped conversion", "return a.strip()", ["return a"]),
    ("missing await", "yield from a", ["yield a"]),
    ("wrong default", "return a.get(b, 0)", ["return a.get(b, 1)"]),
    ("wrong constant", "self.a = True", ["self.a = False"]),
    ("wrong constant", "return f(a, b=300)", ["return f(a, b=30)"]),
    ("wrong variable", "first = 1\nfirsts = 2\nreturn first", ["first = 1\nfirsts = 2\nreturn firsts"]),
    ("wrong attribute", "a.width = b\nreturn a.width + c.height + a.widths", [
        "a.width = b\nreturn a.widths + c.height + a.widths", "a.width = b\nreturn a.width + c.height + a.width",
    ]),
    ("wrong key", "a['color'] = b\nreturn a['colors']", [
        "a['colors'] = b\nreturn a['colors']", "a['color'] = b\nreturn a['color']",
    ]),
    ("sibling exception", "raise ValueError(a)", ["raise TypeError(a)"]),
    ("sibling exception", "try:\n    f()\nexcept KeyError:\n    b = 1", ["try:\n    f()\nexcept IndexError:\n    b = 1"]),
    ("sibling exception", "if a:\n    raise BadA\nraise BadB", [
        "if a:\n    raise BadB\nraise BadB", "if a:\n    raise BadA\nraise BadA",
    ]),
    ("wrong method", "return min(a)", ["return max(a)"]),
    ("wrong method", "return a.startswith(b)", ["return a.endswith(b)"]),
    ("get for setdefault", "a.setdefault(b, []).append(c)", ["a.get(b, []).append(c)"]),
    ("lost text", "return ', '.join(a)", ["return ','.join(a)"]),
]  # fmt: skip


def module(body: str) -> str:
    return f"def work(self, a, b, c):\n    'A sentence.'\n{indent(body, '    ')}\n"


def made(kind: str, text: str) -> list[str]:
    tried = [broken("a.py", text, slip) for slip in slips(text) if slip.kind == kind]
    return [each.after for each in tried if each is not None]


@pytest.mark.parametrize(("kind", "before", "after"), CASES)
def test_an_operator_makes_the_slip_that_its_name_says(kind: str, before: str, after: list[str]) -> None:
    assert sorted(made(kind, module(before))) == sorted(map(module, after))


def test_a_coroutine_is_not_awaited() -> None:
    text = "async def work(a):\n    return await a.read()\n"
    assert made("missing await", text) == [text.replace("await ", "")]


def test_a_parameter_gets_another_default() -> None:
    text = "def work(a, deep=False, *, most=10):\n    return a\n"
    assert made("wrong default", text) == [text.replace("False", "True"), text.replace("10", "9")]


def test_another_method_of_the_class_is_called_that_takes_as_much() -> None:
    text = dedent("""\
        class Shop:
            def load_one(self, key): ...
            def load_all(self, key): ...
            def load_some(self): ...
            def _load_one(self, key): ...
            def open(self, key):
                return self.load_one(key)
        """)
    assert made("wrong function", text) == [text.replace("self.load_one", "self.load_all")]


def test_every_operator_is_tested() -> None:
    assert {case[0] for case in CASES} | {"wrong function"} == set(OPERATORS)


def test_slips_are_placed_by_bytes_and_lines() -> None:
    text = "def work(a):\n    ä = 'ö'; return 'ü' if a < 1 else 'é'\n"
    (boundary,) = [slip for slip in slips(text) if slip.kind == "wrong boundary"]
    assert (boundary.line, boundary.body) == (2, (1, 2))
    after = broken("a.py", text, boundary)
    assert after is not None
    assert after.after == text.replace("<", "<=")
    assert after.shown == "`ä = 'ö'; return 'ü' if a < 1 else 'é'` → `ä = 'ö'; return 'ü' if a <= 1 else 'é'`"


@pytest.mark.parametrize("text", ["", "def (", "x = 1 + 1\n", "@overload\ndef f(a=1):\n    return g(a)\n", "\x00"])
def test_what_has_no_function_to_break_has_no_slip(text: str) -> None:
    assert slips(text) == []
