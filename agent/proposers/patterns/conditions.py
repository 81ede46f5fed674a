"""Patterns on conditions that check too little or too much: None, emptiness, bounds, fixed results, exceptions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agent.proposers.patterns.names import kind_of, scope
from agent.proposers.patterns.operators import loosely, tests_of
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, arguments, is_compound, names_in, quoted, short

MOST_NAMES = 6
ASKED, HELPERS = 2, 3
PROPERTIES = ("{} % 2 == 0", "{} % 2 != 0", "{} > 0", "{} >= 0", "{} != 0")
EXCEPTIONS = (
    "ValueError", "TypeError", "KeyError", "AttributeError", "IndexError", "OSError", "UnicodeDecodeError", "LookupError",
)  # fmt: skip
MISTAKES = ("TypeError", "AttributeError")
CONVERSION = ("ValueError", "TypeError", "KeyError", "IndexError", "LookupError")
SAME_FORM = ("set({})", "sorted({})", "len({})", "{}.lower()", "str({})", "abs({})")


def guarded(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A condition uses an object that may be None: `x.a` → `x is None or x.a`, `x and x.a`."""
    forms = (("{0} is None or {1}", 0.45), ("{0} is not None and {1}", 0.45), ("{0} and {1}", 0.4), ("not {0} or {1}", 0.38))
    for test in tests_of(node):
        for owner in _owners(source, test):
            for form, prior in forms:
                yield _asked(source, node, test, form.format(owner, loosely(source, test)), prior)


def _asked(source: Source, node: ast.AST, test: ast.expr, text: str, prior: float) -> Rewrite:
    """Replaces one condition of the node."""
    fitting = f"({text})" if isinstance(node, ast.IfExp | ast.comprehension) else text
    return source.replaced(test, fitting, prior, title=quoted(source.segment(test), text))


def strengthened(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A condition lacks a term. The likeliest is a function or a name that is not used yet, then a property of a number in
    the condition."""
    function = source.function(node)
    tests = tests_of(node)
    if function is None or not tests:
        return
    names = scope(source, function)
    idle, helpers = source.once(_idle, function), source.once(_helpers, function)
    for test in tests:
        asked = [name for name in names_in(test) if name in names][:ASKED]
        wanted = [(name, 0.5) for name in idle if name not in asked]
        wanted += [(f"{helper}({name})", prior) for helper, prior in helpers for name in asked]
        found = [(join, ask, prior) for ask, prior in wanted for join in ("and", "or", "and not", "or not")]
        numbers = [n for n in asked if kind_of(source, function, ast.Name(id=n)) in ("", "number")]
        found += [("and", form.format(n), 0.31) for n in numbers[:2] for form in PROPERTIES]
        for join, ask, prior in found:
            same = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == join.startswith("and")
            before = source.segment(test) if same else loosely(source, test)
            yield _asked(source, node, test, f"{before} {join} {ask}", prior)


def _idle(source: Source, function: FunctionNode) -> list[str]:
    """Parameters and local variables that are never read."""
    nodes = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    read = {n.id for n in nodes if isinstance(n.ctx, ast.Load)}
    own = [*(each.arg for each in arguments(function)), *(n.id for n in nodes if isinstance(n.ctx, ast.Store))]
    return [n for n in dict.fromkeys(own) if n not in read and n not in ("self", "cls", "_")][:ASKED]


def _helpers(source: Source, function: FunctionNode) -> list[tuple[str, float]]:
    """Functions of one argument that the condition might call, with a prior; those that nothing calls yet come first."""
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
    """A condition lacks a name: `or not x`, `and x`."""
    forms = ("or not {}", "and {}", "and not {}", "or {}", "or {} is None", "and {} is not None")
    for test in tests_of(node):
        asked = names_in(test)
        for rank, name in enumerate([n for n in scope(source, node) if n not in asked][:MOST_NAMES]):
            for form in forms:
                yield _asked(source, node, test, f"{loosely(source, test)} {form.format(name)}", 0.3 - 0.01 * rank)


def bounded(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A condition tests one value where a range is meant: `x == n` → `x <= n + 1`, `x >= n - 1`."""
    match node:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=value)]) if type(value) is int:
            if abs(value) < 1 << 32:
                for text in (f"<= {value + 1}", f">= {value - 1}"):
                    yield source.replaced(node, f"{source.segment(left)} {text}", 0.38)


def alike(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Brings both sides of a comparison into one form: the call that one side already has, or a form that ignores a
    difference in order, case, sign or type."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1 or isinstance(node.ops[0], ast.Is | ast.IsNot):
        return
    left, right = node.left, node.comparators[0]
    if is_compound(left) or is_compound(right):
        return
    for this, that in ((left, right), (right, left)):
        text = source.segment(that)
        match this:
            case ast.Call(keywords=[], func=ast.Name(id=name), args=[_]) if "\n" not in text and not text.startswith(
                name + "("
            ):
                yield source.replaced(that, f"{name}({text})", 0.45)
            case ast.Call(keywords=[], func=ast.Attribute(attr=name), args=[]) if "\n" not in text:
                yield source.replaced(that, f"{text}.{name}()", 0.45)
    between = source.text[source.span(left)[1] : source.span(right)[0]]
    for form in SAME_FORM:
        text = form.format(source.segment(left)) + between + form.format(source.segment(right))
        yield Rewrite(source.span(left)[0], source.span(right)[1], text, quoted(source.segment(node), text), 0.33)


def answered(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """Returns a condition on a name instead of a fixed True or False."""
    match node:
        case ast.Return(value=ast.Constant(value=bool()) as flag):
            for rank, name in enumerate(scope(source, node)[:MOST_NAMES]):
                for text in (f"{name} == 0", f"not {name}", f"bool({name})", f"{name} is not None", f"{name} > 0"):
                    title = quoted(source.segment(node), "return " + text)
                    yield source.replaced(flag, text, 0.34 - 0.01 * rank, title=title)


def handlers(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """An `except` clause lacks a related exception."""
    handler = source.parents[node]
    if not isinstance(node, ast.expr) or not isinstance(handler, ast.ExceptHandler) or handler.type is not node:
        return
    before = source.segment(node)
    inner = before[1:-1].strip().rstrip(",") if isinstance(node, ast.Tuple) else before
    caught = source.once(_caught, source.tree)
    for other in EXCEPTIONS:
        # Nobody catches a mistake of the code itself, but for input that a conversion refuses in several ways.
        if other not in before and (other not in MISTAKES or other in caught or any(each in before for each in CONVERSION)):
            yield source.replaced(node, f"({inner}, {other})", 0.4, title=f"`except {short(before)}` catches {other} too")


def _caught(source: Source, tree: ast.Module) -> set[str]:
    """The names of the exceptions that the file catches."""
    return {
        name for node in source.parents if isinstance(node, ast.ExceptHandler) and node.type for name in names_in(node.type)
    }


def _owners(source: Source, test: ast.expr) -> list[str]:
    """The expressions whose attributes, items or methods the condition uses, shortest first."""
    found: dict[str, None] = {}
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute | ast.Subscript) and not is_compound(node.value):
            text = source.segment(node.value)
            if isinstance(node.value, ast.Name | ast.Attribute) and text not in ("self", "cls") and len(text) <= 40:
                found[text] = None
    return sorted(found, key=len)[:3]
