"""Patterns on conditions that ask too little or too much: None, emptiness, the smallest case, what is answered."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agent.proposers.patterns.names import kind_of, scope
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, is_compound, quoted, short

MOST_NAMES = 6
ASKED, HELPERS = 2, 3
PROPERTIES = ("{} % 2 == 0", "{} % 2 != 0", "{} > 0", "{} >= 0", "{} != 0")
SAME_FORM = ("set({})", "sorted({})", "len({})", "{}.lower()", "str({})", "abs({})")


def guarded(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A condition asks an object that may not be there: `x.a` → `x is None or x.a`, `x and x.a`."""
    for test in _tests(node):
        before = source.segment(test)
        start, end = source.span(test)
        kept = f"({before})" if isinstance(test, ast.BoolOp | ast.IfExp | ast.Lambda) else before
        for owner in _owners(source, test):
            for text, prior in (
                (f"{owner} is None or {kept}", 0.45),
                (f"{owner} is not None and {kept}", 0.45),
                (f"{owner} and {kept}", 0.4),
                (f"not {owner} or {kept}", 0.38),
            ):
                yield Rewrite(start, end, _fitting(node, text), quoted(before, text), prior)


def strengthened(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A condition asks too much or too little: a function or a name that nothing uses yet is the likeliest to be missing in
    it, then a property of a number that it asks about."""
    function = source.function(node)
    tests = _tests(node)
    if function is None or not tests:
        return
    names = scope(source, function)
    idle, helpers = source.once(_idle, function), source.once(_helpers, function)
    for test in tests:
        before = source.segment(test)
        start, end = source.span(test)
        asked = list(dict.fromkeys(n.id for n in ast.walk(test) if isinstance(n, ast.Name) and n.id in names))[:ASKED]
        wanted = [(name, 0.5) for name in idle if name not in asked]
        wanted += [(f"{helper}({name})", prior) for helper, prior in helpers for name in asked]
        found = [(join, ask, prior) for ask, prior in wanted for join in ("and", "or", "and not", "or not")]
        numbers = [n for n in asked if kind_of(source, function, ast.Name(id=n)) in ("", "number")]
        found += [("and", form.format(n), 0.31) for n in numbers[:2] for form in PROPERTIES]
        for join, ask, prior in found:
            loose = isinstance(test, ast.IfExp | ast.Lambda) or (isinstance(test, ast.BoolOp) and not _is_same(test.op, join))
            text = f"{f'({before})' if loose else before} {join} {ask}"
            yield Rewrite(start, end, _fitting(node, text), quoted(before, text), prior)


def _is_same(operator: ast.boolop, join: str) -> bool:
    return isinstance(operator, ast.And) == join.startswith("and")


def _idle(source: Source, function: FunctionNode) -> list[str]:
    """Parameters and locals that nothing reads."""
    nodes = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    read = {n.id for n in nodes if isinstance(n.ctx, ast.Load)}
    a = function.args
    own = [*(x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)), *(n.id for n in nodes if isinstance(n.ctx, ast.Store))]
    return [n for n in dict.fromkeys(own) if n not in read and n not in ("self", "cls", "_")][:ASKED]


def _helpers(source: Source, function: FunctionNode) -> list[tuple[str, float]]:
    """Functions of one argument that might be asked, and how likely: those that nothing calls yet come first."""
    called = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    inner = [n for n in ast.walk(function) if isinstance(n, ast.FunctionDef) and n is not function]
    outer = [n for n in source.tree.body if isinstance(n, ast.FunctionDef)] if len(inner) < HELPERS else []
    found: dict[str, float] = {}
    for each, unused, used in (*((n, 0.93, 0.36) for n in inner), *((n, 0.36, 0.3) for n in outer)):
        takes = len(each.args.args) - len(each.args.defaults)
        if takes == 1 and each is not function and each.name != function.name:
            found.setdefault(each.name, used if each.name in called else unused)
    return sorted(found.items(), key=lambda entry: -entry[1])[:HELPERS]


def widened(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A condition that forgets a name: `or not x`, `and x`."""
    function = source.function(node)
    if function is None:
        return
    for test in _tests(node):
        before = source.segment(test)
        start, end = source.span(test)
        asked = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
        kept = f"({before})" if isinstance(test, ast.BoolOp | ast.IfExp | ast.Lambda) else before
        for rank, name in enumerate([n for n in scope(source, function) if n not in asked][:MOST_NAMES]):
            for text in (f"{kept} or not {name}", f"{kept} and {name}", f"{kept} and not {name}", f"{kept} or {name}",
                         f"{kept} or {name} is None", f"{kept} and {name} is not None"):  # fmt: skip
                yield Rewrite(start, end, _fitting(node, text), quoted(before, text), 0.3 - 0.01 * rank)


def bounded(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """One value is asked for where a range is meant that ends one further: `x == n` → `x <= n + 1`, `x >= n - 1`."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
        return
    right = node.comparators[0]
    if isinstance(right, ast.Constant) and type(right.value) is int and abs(right.value) < 1 << 32:
        left, before = source.segment(node.left), source.segment(node)
        start, end = source.span(node)
        for text in (f"{left} <= {right.value + 1}", f"{left} >= {right.value - 1}"):
            yield Rewrite(start, end, text, quoted(before, text), 0.38)


def alike(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Both sides of a comparison are brought into one form: that which one of them has, or in which what differs between
    them does not count (order, case, sign, type)."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or isinstance(node.ops[0], ast.Is | ast.IsNot):
        return
    left, right = node.left, node.comparators[0]
    if is_compound(left) or is_compound(right):
        return
    (a, b), (c, d) = source.span(left), source.span(right)
    one, other, before = source.text[a:b], source.text[c:d], source.segment(node)
    for this, that, start, end in ((left, other, c, d), (right, one, a, b)):
        if isinstance(this, ast.Call) and not this.keywords and "\n" not in that:
            if len(this.args) == 1 and isinstance(this.func, ast.Name) and not that.startswith(this.func.id + "("):
                yield Rewrite(start, end, f"{this.func.id}({that})", quoted(that, f"{this.func.id}({that})"), 0.45)
            elif not this.args and isinstance(this.func, ast.Attribute):
                text = f"{that}.{this.func.attr}()"
                yield Rewrite(start, end, text, quoted(that, text), 0.45)
    for form in SAME_FORM:
        text = form.format(one) + source.text[b:c] + form.format(other)
        yield Rewrite(a, d, text, quoted(before, text), 0.33)


def answered(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A fixed True or False is returned where a name should decide."""
    function = source.function(node)
    if not isinstance(node, ast.Return) or function is None or not isinstance(node.value, ast.Constant):
        return
    if not isinstance(node.value.value, bool):
        return
    start, end = source.span(node.value)
    for rank, name in enumerate(scope(source, function)[:MOST_NAMES]):
        for text in (f"{name} == 0", f"not {name}", f"bool({name})", f"{name} is not None", f"{name} > 0"):
            yield Rewrite(start, end, text, quoted(source.segment(node), "return " + text), 0.34 - 0.01 * rank)


def handlers(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """An `except` that lets a near relative of its exception through."""
    if not isinstance(node, ast.expr) or not isinstance(source.parents[node], ast.Try | ast.ExceptHandler):
        return
    handler = source.parents[node]
    if not isinstance(handler, ast.ExceptHandler) or handler.type is not node:
        return
    before = source.segment(node)
    inner = before[1:-1].strip().rstrip(",") if isinstance(node, ast.Tuple) else before
    start, end = source.span(node)
    for other in EXCEPTIONS:
        if other not in before:
            yield Rewrite(start, end, f"({inner}, {other})", f"`except {short(before)}` catches {other} too", 0.4)


EXCEPTIONS = (
    "ValueError",
    "TypeError",
    "KeyError",
    "AttributeError",
    "IndexError",
    "OSError",
    "UnicodeDecodeError",
    "LookupError",
)


def _tests(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        return [node.test]
    return list(node.ifs) if isinstance(node, ast.comprehension) else []


def _owners(source: Source, test: ast.expr) -> list[str]:
    """What attributes, items or methods are asked of, shortest first."""
    found: dict[str, None] = {}
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute | ast.Subscript) and not is_compound(node.value):
            text = source.segment(node.value)
            if isinstance(node.value, ast.Name | ast.Attribute) and text not in ("self", "cls") and len(text) <= 40:
                found[text] = None
    return sorted(found, key=len)[:3]


def _fitting(node: ast.AST, text: str) -> str:
    return f"({text})" if isinstance(node, ast.IfExp | ast.comprehension) else text
