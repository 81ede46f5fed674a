"""Refuses results that nobody would give where the function gives others: see `is_wrong_result`. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agent.proposers.patterns.source import FunctionNode, Source


def is_wrong_result(source: Source, unit: ast.AST, after: ast.AST) -> bool:
    """Whether a `return` that becomes `after` would leave a function without a result that always had one, or would give an
    object where all results are True or False."""
    function = source.function(unit)
    if not isinstance(unit, ast.Return) or unit.value is None or function is None:
        return False
    new = [node for node in ast.walk(after) if isinstance(node, ast.Return | ast.Raise)]
    if not new:
        return _ends(function.body) and not _ends(function.body, without=unit)
    values = [node.value for node in new if isinstance(node, ast.Return) and isinstance(node.value, ast.Name | ast.Attribute)]
    if not values or not source.once(_is_truth, function):
        return False
    objects = source.once(_objects, function)
    return any(ast.unparse(value) in objects for value in values)


def _ends(block: list[ast.stmt], without: ast.stmt | None = None) -> bool:
    """Whether each way through the block ends in a `return` or `raise` other than `without`."""
    if not block:
        return False
    match block[-1]:
        case ast.Return() | ast.Raise():
            return block[-1] is not without
        case ast.If(body=body, orelse=orelse):
            return _ends(body, without) and _ends(orelse, without)
        case ast.With(body=body) | ast.AsyncWith(body=body):
            return _ends(body, without)
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=last):
            tried = _ends(orelse or body, without) and all(_ends(handler.body, without) for handler in handlers)
            return tried or _ends(last, without)
    return False


def _is_truth(source: Source, function: FunctionNode) -> bool:
    """Whether its annotation or all its results, at least two, say that it gives True or False."""
    if function.returns is not None:
        return source.segment(function.returns).strip("'\"") == "bool"
    values = [node.value for node in _own(function) if isinstance(node, ast.Return)]
    return len(values) > 1 and all(map(_gives_truth, values))


def _gives_truth(value: ast.expr | None) -> bool:
    match value:
        case ast.Constant(value=bool()) | ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.BoolOp(values=values):
            return all(map(_gives_truth, values))
        case ast.Call(func=ast.Name(id=name)):
            return name in ("bool", "isinstance", "issubclass", "hasattr", "callable", "any", "all")
    return False


def _objects(source: Source, function: FunctionNode) -> set[str]:
    """What the function reads attributes or items of."""
    return {ast.unparse(node.value) for node in _own(function) if isinstance(node, ast.Attribute | ast.Subscript)}


def _own(function: FunctionNode) -> Iterator[ast.AST]:
    """The nodes of a function, without those of inner functions and classes."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, FunctionNode | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
