"""Finds branches and tables in syntax trees that map literal inputs to answers, however they are written.

Sees through negations, comparison chains, ranges of one number, constant arithmetic and statements without effect. Values known
only at run time stay unknown.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.guard.runner_access import last
from agent.source import syntax

LARGEST, LONGEST = 10**9, 1_000  # bounds of folded numbers and strings
_ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], object]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod, ast.BitXor: operator.xor,
}  # fmt: skip
_INVERSE: Mapping[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitXor: ast.BitXor}
_CONVERSIONS: Mapping[str, Callable[..., object]] = {
    "int": int,
    "float": float,
    "str": str,
    "abs": abs,
    "len": len,
    "bool": bool,
}
_BOUNDS: Mapping[type[ast.cmpop], tuple[str, int]] = {
    ast.Gt: ("low", 1), ast.GtE: ("low", 0), ast.Lt: ("high", -1), ast.LtE: ("high", 0),
}  # fmt: skip
_MIRRORED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Lt: ast.Gt, ast.LtE: ast.GtE}


@dataclass(frozen=True, slots=True)
class Branch:
    """Literal inputs and the answer for them."""

    inputs: tuple[ast.expr, ...]
    answer: ast.expr
    subject: str  # the expression compared with the inputs; "" if there are several
    text: str


def branches(node: ast.AST) -> Iterator[Branch]:
    match node:
        case ast.If(test=test, body=body, orelse=orelse):
            yield from _branch(test, body, orelse)
        case ast.IfExp(test=test, body=then, orelse=other):
            yield from _branch(test, [ast.Return(then)], [ast.Return(other)])
        case ast.BoolOp(op=ast.And(), values=values):
            yield from _branch(ast.BoolOp(ast.And(), values[:-1]), [ast.Return(values[-1])], [])
        case ast.Match(subject=subject, cases=several):
            for one in several:
                answer, inputs = answer_of(one.body), tuple(_patterns(one.pattern))
                if answer is not None and is_literal(answer) and inputs:
                    yield Branch(
                        inputs, answer, ast.unparse(subject), f"case {ast.unparse(one.pattern)}: {ast.unparse(answer)}"
                    )


def table(node: ast.AST) -> ast.Dict | None:
    """A dict literal, or a `dict(…)` call over literal pairs."""
    match node:
        case ast.Dict():
            return node
        case ast.Call(func=ast.Name(id="dict"), args=[ast.List(elts) | ast.Tuple(elts) | ast.Set(elts)], keywords=[]):
            pairs = [one.elts for one in elts if isinstance(one, ast.Tuple | ast.List) and len(one.elts) == 2]
            return ast.Dict([key for key, _ in pairs], [value for _, value in pairs]) if len(pairs) == len(elts) else None
    return None


def answer_of(body: Sequence[ast.stmt], known: Mapping[str, ast.expr] | None = None) -> ast.expr | None:
    """The value that the statements return or assign, or None if they do anything else. `known` maps names to values."""
    names = dict(known or {})
    for at, statement in enumerate(body):
        match statement:
            case ast.Return(value=value) | ast.Expr(value=ast.Yield(value=value)):
                return value and folded_value(value, names)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=more):
                value = ast.BinOp(ast.Name(name, ast.Load()), op, more)
            case ast.Assign(value=value):
                return folded_value(value, names) if _is_end(body[at + 1 :]) else None
            case ast.Pass() | ast.Expr(value=ast.Constant() | ast.Name()):
                continue
            case _:
                return None
        if any(isinstance(inner, ast.Await | ast.Yield) for inner in ast.walk(value)):
            return None
        names[name] = folded_value(value, names)
        if _is_end(body[at + 1 :]):
            return names[name]
    return None


def _is_end(rest: Sequence[ast.stmt]) -> bool:
    """Whether the branch ends here, so that its last assignment is the answer."""
    returned = rest[0].value if rest and isinstance(rest[0], ast.Return) else None
    return not rest or isinstance(rest[0], ast.Break | ast.Continue) or (isinstance(rest[0], ast.Return) and returned is None)


def is_literal(node: ast.AST) -> bool:
    return not any(isinstance(inner, ast.Name | ast.Call | ast.Attribute | ast.Lambda | ast.Await) for inner in ast.walk(node))


def folded_value(node: ast.expr, known: Mapping[str, ast.expr] | None = None) -> ast.expr:
    """The literal that an expression evaluates to, or the expression itself."""
    if isinstance(node, ast.BinOp | ast.Call | ast.Name):
        try:
            return syntax.expression(repr(_value(node, known or {}))).body
        except (ValueError, TypeError, SyntaxError, ArithmeticError, MemoryError, RecursionError):
            pass
    return node


def _value(node: ast.expr, known: Mapping[str, ast.expr]) -> object:
    match node:
        case ast.Name(id=name) if name in known:
            value: object = ast.literal_eval(known[name])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            one, other = _value(left, known), _value(right, known)
            is_text = isinstance(one, str) and isinstance(other, str) and isinstance(op, ast.Add)
            if not is_text and not (isinstance(one, int | float) and isinstance(other, int | float)):
                raise ValueError("operands of other types")
            value = _ARITHMETIC[type(op)](one, other)  # type: ignore[arg-type]
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _CONVERSIONS:
            value = _CONVERSIONS[name](_value(argument, known))
        case _:
            value = ast.literal_eval(node)
    if (isinstance(value, int | float) and abs(value) > LARGEST) or (isinstance(value, str) and len(value) > LONGEST):
        raise ValueError("too large to fold")
    return value


def _branch(test: ast.expr, then: Sequence[ast.stmt], otherwise: Sequence[ast.stmt]) -> Iterator[Branch]:
    for body, holds in ((then, True), (otherwise, False)):
        found = list(_literals(test, holds)) if body else []
        subjects = [subject for _, subject in found if subject]
        subject = subjects[0] if len(subjects) == 1 else ""
        inputs = tuple(one for one, _ in found)
        known = {subject: inputs[0]} if subject.isidentifier() and len(inputs) == 1 else {}
        answer = answer_of(body, known) if inputs else None
        is_copied = bool(known) and len(body) == 1 and isinstance(getattr(body[0], "value", None), ast.Name)  # `return x`
        if answer is not None and is_literal(answer) and not is_copied:
            yield Branch(inputs, answer, subject, f"{ast.unparse(test)}: {ast.unparse(answer)}")


def _literals(test: ast.AST, holds: bool) -> Iterator[tuple[ast.expr, str]]:
    """Literals that a subject equals if the test is true (or false), each with the subject ("" if there are several)."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _literals(operand, not holds)
            return
        case ast.Compare():
            yield from _compared(test, holds)
        case ast.BinOp(left=left, op=ast.Sub() | ast.BitXor(), right=right) if not holds:  # `x - 5` is zero
            yield from _equal(left, right)
        case ast.Call(func=func, args=args) if last(func) in ("startswith", "endswith", "__eq__", "fullmatch", "match"):
            yield from ((one, "") for one in args if is_literal(one))
    if isinstance(test, ast.BoolOp | ast.Compare):
        yield from _pinned(test, holds)
    for inner in ast.iter_child_nodes(test):
        if not isinstance(test, ast.Compare) or isinstance(inner, ast.Call):
            yield from _literals(inner, holds)


def _compared(compare: ast.Compare, holds: bool) -> Iterator[tuple[ast.expr, str]]:
    equal, among = (ast.Eq | ast.Is, ast.In) if holds else (ast.NotEq | ast.IsNot, ast.NotIn)
    left = compare.left
    for op, right in zip(compare.ops, compare.comparators, strict=True):
        if isinstance(op, equal):
            yield from _equal(left, right)
        elif isinstance(op, among):
            match right:
                case ast.Tuple(elts) | ast.List(elts) | ast.Set(elts):
                    yield from ((one, "") for one in elts if is_literal(one))
                case ast.Call(func=ast.Name(id="range"), args=bounds) if len(only := _range(bounds)) == 1:
                    yield ast.Constant(only[0]), ast.unparse(left)
        left = right


def _equal(left: ast.expr, right: ast.expr) -> Iterator[tuple[ast.expr, str]]:
    """The literal side and the other side of an equation; arithmetic is solved: `x - 5 == 0`."""
    left, right = folded_value(left), folded_value(right)
    for one, other in ((left, right), (right, left)):
        if not is_literal(one):
            continue
        subject = other
        if isinstance(other, ast.BinOp) and type(other.op) in _INVERSE and is_literal(other.right):
            solved = folded_value(ast.BinOp(one, _INVERSE[type(other.op)](), other.right))
            if isinstance(solved, ast.Constant | ast.UnaryOp):
                one, subject = solved, other.left
        yield one, "" if is_literal(other) else ast.unparse(subject)


def _range(bounds: Sequence[ast.expr]) -> range:
    numbers = [bound.value for bound in bounds if isinstance(bound, ast.Constant) and type(bound.value) is int]
    return range(*numbers) if 0 < len(numbers) == len(bounds) < 3 else range(0)


def _pinned(test: ast.BoolOp | ast.Compare, holds: bool) -> Iterator[tuple[ast.expr, str]]:
    """The only integer between two bounds: `4 < x < 6`, `x > 4 and x < 6`."""
    if not holds or (isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)):
        return
    bounds: dict[str, dict[str, int]] = {}
    for compare in test.values if isinstance(test, ast.BoolOp) else [test]:
        if not isinstance(compare, ast.Compare):
            continue
        left = compare.left
        for op, right in zip(compare.ops, compare.comparators, strict=True):
            sides = ((left, type(op), right), (right, _MIRRORED.get(type(op), type(op)), left))
            for subject, kind, bound in sides:
                if kind in _BOUNDS and isinstance(bound, ast.Constant) and type(bound.value) is int:
                    side, step = _BOUNDS[kind]
                    bounds.setdefault(ast.unparse(subject), {})[side] = bound.value + step
            left = right
    for text, found in bounds.items():
        if "low" in found and found["low"] == found.get("high"):
            yield ast.Constant(found["low"]), text


def _patterns(pattern: ast.pattern) -> Iterator[ast.expr]:
    for inner in ast.walk(pattern):
        if isinstance(inner, ast.MatchValue) and is_literal(inner.value):
            yield inner.value
    if isinstance(pattern, ast.MatchSequence) and all(isinstance(one, ast.MatchValue) for one in pattern.patterns):
        yield ast.List([one.value for one in pattern.patterns if isinstance(one, ast.MatchValue)], ast.Load())
