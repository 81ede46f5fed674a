"""Slips with whole statements: a line forgotten, moved, or left in the wrong block. Each operator yields its possible edits."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence

from agent.bench.breaks.code import Code, Edit, Function

_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)


def missing_return(code: Code) -> Iterator[Edit]:
    """A call's result is not returned, or the last `return NAME` is forgotten."""
    for body, node in _statements(code):
        if not isinstance(node, ast.Return):
            continue
        if isinstance(node.value, ast.Call | ast.Await):
            yield code.replaced(node, code.source(node.value))
        elif isinstance(node.value, ast.Name) and body is code.node.body and node is body[-1]:
            yield from code.without(body, node)


def removed_branch(code: Code) -> Iterator[Edit]:
    """An `if` without `else`, an `elif`, an `else` or one of several `except` is missing."""
    for body, node in _statements(code):
        if isinstance(node, ast.If) and not _is_elif(code, node):
            if not node.orelse:
                yield from code.without(body, node)
            yield from _later_branches(code, node)
        elif isinstance(node, ast.Try) and len(node.handlers) > 1:
            yield from (code.without_lines(h.lineno, h.end_lineno or h.lineno) for h in node.handlers)


def missing_check(code: Code) -> Iterator[Edit]:
    """The lines of an `if` without `else` run always."""
    for _, node in _statements(code):
        if isinstance(node, ast.If) and not node.orelse and not _is_elif(code, node):
            first, last = node.body[0], node.body[-1]
            if first.lineno == (node.test.end_lineno or 0):
                continue
            depth = first.col_offset - node.col_offset
            lines = code.module.text.split("\n")[first.lineno - 1 : last.end_lineno]
            if all(not line.strip() or not line[: depth + node.col_offset].strip() for line in lines):
                moved = "".join(f"{line[depth:]}\n" for line in lines)
                yield code.without_lines(node.lineno, last.end_lineno or last.lineno, moved)


def dropped_call(code: Code) -> Iterator[Edit]:
    """A call that is made for its effect is missing."""
    for body, node in _statements(code):
        called = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Await) else None
        if isinstance(node, ast.Expr) and isinstance(called or node.value, ast.Call):
            yield from code.without(body, node)


def missing_assignment(code: Code) -> Iterator[Edit]:
    """A variable keeps its earlier value, an attribute or an item is not set."""
    for body, node in _statements(code):
        if isinstance(node, ast.AugAssign):
            yield from code.without(body, node)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            again = isinstance(target, ast.Name) and code.bound.get(target.id, node.lineno) < node.lineno
            if again or isinstance(target, ast.Attribute | ast.Subscript):
                yield from code.without(body, node)


def moved_statement(code: Code) -> Iterator[Edit]:
    """Two neighbouring lines stand in the wrong order."""
    for body in code.bodies:
        for one, other in itertools.pairwise(body):
            if not (isinstance(one, _SIMPLE) and isinstance(other, _SIMPLE) and _share_names(one, other)):
                continue
            if one.lineno == one.end_lineno and other.lineno == other.end_lineno == one.lineno + 1:
                lines = code.module.text.split("\n")[one.lineno - 1 : other.lineno]
                yield code.without_lines(one.lineno, other.lineno, f"{lines[1]}\n{lines[0]}\n")


def early_return(code: Code) -> Iterator[Edit]:
    """The `return` after a loop is indented into the loop."""
    for body in code.bodies:
        for loop, node in itertools.pairwise(body):
            if not isinstance(loop, ast.For | ast.While) or loop.orelse or not isinstance(node, ast.Return):
                continue
            if node.lineno == node.end_lineno and not any(isinstance(inner, Function) for inner in loop.body):
                indent = " " * loop.body[-1].col_offset
                yield code.without_lines(node.lineno, node.lineno, f"{indent}{code.source(node)}\n")


def wrong_jump(code: Code) -> Iterator[Edit]:
    """`break` and `continue` are confused, or a `continue` is forgotten."""
    for body, node in _statements(code):
        if isinstance(node, ast.Break):
            yield code.replaced(node, "continue")
        elif isinstance(node, ast.Continue):
            yield code.replaced(node, "break")
            yield from code.without(body, node)


def plain_assignment(code: Code) -> Iterator[Edit]:
    """`=` instead of `+=`."""
    for _, node in _statements(code):
        if isinstance(node, ast.AugAssign):
            start, end = code.span(node.target)[1], code.span(node.value)[0]
            gap = code.module.data[start:end].decode()
            if gap.count("=") == 1:
                yield Edit(node.lineno, start, end, f" ={gap.partition('=')[2]}")


def _statements(code: Code) -> Iterator[tuple[Sequence[ast.stmt], ast.stmt]]:
    for body in code.bodies:
        yield from ((body, node) for node in body)


def _later_branches(code: Code, node: ast.If) -> Iterator[Edit]:
    while node.orelse:
        inner, last = node.orelse[0], node.orelse[-1]
        if isinstance(inner, ast.If) and _is_elif(code, inner):
            yield code.without_lines(inner.lineno, inner.body[-1].end_lineno or inner.lineno)
            node = inner
        else:
            yield code.without_lines((node.body[-1].end_lineno or 0) + 1, last.end_lineno or last.lineno)
            return


def _is_elif(code: Code, node: ast.If) -> bool:
    start, _ = code.span(node)
    return code.module.data[start : start + 4] == b"elif"


def _share_names(one: ast.stmt, other: ast.stmt) -> bool:
    """Otherwise their order has no effect."""
    names = [{node.id for node in ast.walk(each) if isinstance(node, ast.Name)} for each in (one, other)]
    return bool(names[0] & names[1])
