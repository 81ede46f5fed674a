"""Slips inside an expression: conditions, operators, boundaries, arguments. Each operator yields its possible edits."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping

from agent.bench.breaks.code import Code, Edit

_BOUNDARIES: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
}  # fmt: skip
_OPPOSITES: Mapping[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
_OPERATORS: Mapping[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.FloorDiv: ("//", "/"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"),
}  # fmt: skip
_TYPED = {"isinstance", "issubclass", "hasattr", "getattr", "setattr", "cast"}  # a swap of their arguments never gets far
_CONVERSIONS = {
    "list",
    "tuple",
    "sorted",
    "set",
    "dict",
    "int",
    "str",
    "float",
    "bool",
    "reversed",
    "abs",
    "frozenset",
    "bytes",
}
_TIDYING = {"strip", "lstrip", "rstrip", "lower", "upper", "copy", "casefold", "encode", "decode", "total_seconds", "items"}


def negated_condition(code: Code) -> Iterator[Edit]:
    """A condition says the opposite."""
    for node in code.nodes:
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            test = node.test
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                yield code.replaced(test, code.source(test.operand))
            elif isinstance(test, ast.Name | ast.Attribute | ast.Call):
                yield code.replaced(test, f"not {code.source(test)}")
            elif isinstance(test, ast.Compare):
                yield from _compared(code, test, _OPPOSITES)


def wrong_connective(code: Code) -> Iterator[Edit]:
    """`and` instead of `or`, and the reverse."""
    for node in code.nodes:
        if isinstance(node, ast.BoolOp) and len(node.values) == 2:
            old, new = (" and ", " or ") if isinstance(node.op, ast.And) else (" or ", " and ")
            yield from code.between(node.values[0], node.values[1], old, new)


def missing_condition(code: Code) -> Iterator[Edit]:
    """One part of a condition is missing: `a and b` becomes `a`."""
    for node in code.nodes:
        if isinstance(node, ast.BoolOp):
            for one, other in itertools.pairwise(node.values):
                start, end = code.span(one)[1], code.span(other)[1]
                yield Edit(other.lineno, start, end, "")


def off_by_one(code: Code) -> Iterator[Edit]:
    """`+ 1` or `- 1` is forgotten; an index, a slice or a range starts or ends one beside."""
    for node in code.nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and _is_one(node.right):
            yield code.replaced(node, code.source(node.left))
        elif isinstance(node, ast.Subscript):
            index = node.slice
            for bound in (index.lower, index.upper) if isinstance(index, ast.Slice) else (index,):
                yield from _beside(code, bound)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range" and node.args:
            last = node.args[0 if len(node.args) == 1 else 1]
            if isinstance(last, ast.Name | ast.Call):
                yield code.replaced(last, f"{code.source(last)} - 1")
            if len(node.args) == 2 and _is_one(node.args[0]):
                yield code.replaced(node.args[0], "0")


def wrong_boundary(code: Code) -> Iterator[Edit]:
    """`<` instead of `<=`, and the like."""
    for node in code.nodes:
        if isinstance(node, ast.Compare):
            yield from _compared(code, node, _BOUNDARIES)


def wrong_operator(code: Code) -> Iterator[Edit]:
    """`-` instead of `+`, `/` instead of `//`; a minus sign is forgotten."""
    for node in code.nodes:
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS and not isinstance(node.right, ast.Constant):
            yield from code.between(node.left, node.right, *_OPERATORS[type(node.op)])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            yield code.replaced(node, code.source(node.operand))


def swapped_arguments(code: Code) -> Iterator[Edit]:
    """Two neighbouring arguments of a call, or the sides of a subtraction, change places."""
    for node in code.nodes:
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] not in _TYPED:
            every = itertools.pairwise(node.args)
            pairs = [(a, b) for a, b in every if isinstance(a, ast.Constant) == isinstance(b, ast.Constant)]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and not isinstance(node.right, ast.Constant):
            pairs = [(node.left, node.right)]
        for one, other in pairs:
            if not isinstance(one, ast.Starred) and not isinstance(other, ast.Starred) and ast.dump(one) != ast.dump(other):
                (start, middle), (after, end) = code.span(one), code.span(other)
                gap = code.module.data[middle:after].decode()
                yield Edit(one.lineno, start, end, f"{code.source(other)}{gap}{code.source(one)}")


def missing_argument(code: Code) -> Iterator[Edit]:
    """A keyword argument is not passed on."""
    for node in code.nodes:
        if isinstance(node, ast.Call):
            passed: list[ast.expr | ast.keyword] = sorted(
                [*node.args, *node.keywords], key=lambda each: (each.lineno, each.col_offset)
            )
            for before, keyword in itertools.pairwise(passed):
                if isinstance(keyword, ast.keyword) and keyword.arg is not None:
                    yield Edit(keyword.lineno, code.span(before)[1], code.span(keyword)[1], "")


def dropped_conversion(code: Code) -> Iterator[Edit]:
    """`list(x)` becomes `x`, `x.strip()` becomes `x`."""
    for node in code.nodes:
        if not isinstance(node, ast.Call) or node.keywords:
            continue
        if isinstance(node.func, ast.Name) and node.func.id in _CONVERSIONS and len(node.args) == 1:
            if not isinstance(node.args[0], ast.Starred | ast.GeneratorExp):
                yield code.replaced(node, code.source(node.args[0]))
        elif isinstance(node.func, ast.Attribute) and node.func.attr in _TIDYING and not node.args:
            yield code.replaced(node, code.source(node.func.value))


def missing_await(code: Code) -> Iterator[Edit]:
    """A coroutine is not awaited; a generator is yielded instead of its values."""
    for node in code.nodes:
        if isinstance(node, ast.Await):
            yield code.replaced(node, code.source(node.value))
        elif isinstance(node, ast.YieldFrom):
            yield code.replaced(node, f"yield {code.source(node.value)}")


def wrong_default(code: Code) -> Iterator[Edit]:
    """A parameter's default, or that of a lookup, has another value."""
    args = code.node.args
    defaults = [*args.defaults, *(each for each in args.kw_defaults if each is not None)]
    for node in code.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
            defaults += node.args[1:2]
    for node in defaults:
        if isinstance(node, ast.Constant):
            other = _other_constant(node.value)
            if other is not None:
                yield code.replaced(node, other)


def wrong_constant(code: Code) -> Iterator[Edit]:
    """A flag or a number in the body has a slip."""
    inside = {id(each) for each in ast.walk(code.node.args)}
    for node in code.nodes:
        if isinstance(node, ast.keyword | ast.Return | ast.Assign) and isinstance(node.value, ast.Constant):
            other = _other_constant(node.value.value)
            if other is not None and id(node) not in inside:
                yield code.replaced(node.value, other)


def _compared(code: Code, node: ast.Compare, names: Mapping[type[ast.cmpop], tuple[str, str]]) -> Iterator[Edit]:
    for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
        if type(operator) in names:
            yield from code.between(left, right, *names[type(operator)])


def _beside(code: Code, bound: ast.expr | None) -> Iterator[Edit]:
    if isinstance(bound, ast.Constant) and type(bound.value) is int:
        yield code.replaced(bound, str(bound.value - 1 if bound.value > 0 else 1))
    elif isinstance(bound, ast.UnaryOp) and isinstance(bound.op, ast.USub) and _is_one(bound.operand):
        yield code.replaced(bound, "0")


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 1


def _other_constant(value: object) -> str | None:
    if isinstance(value, bool):
        return str(not value)
    if type(value) is int:
        return {0: "1", 1: "0"}.get(value, str(value // 10 if value >= 100 else value - 1))
    return None
