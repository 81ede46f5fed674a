"""Refuses assignments that nobody would write where they stand, although others would be fine: see `is_misplaced`. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agent.proposers.patterns.source import FunctionNode, Source, names_in, parameters

OWN = frozenset({"self", "cls"})


def is_misplaced(source: Source, unit: ast.AST, after: ast.AST) -> bool:
    """Whether an assignment that becomes `after` would write into an argument instead of the value that the function returns;
    would shift what a setter is given; would do the same as another branch of its `if`; or would newly overwrite what the
    statement before it assigns."""
    function = source.function(unit)
    if not isinstance(unit, ast.Assign | ast.AugAssign) or function is None:
        return False
    new = next((node for node in ast.walk(after) if isinstance(node, ast.Assign | ast.AugAssign)), None)
    if new is None:
        return False
    given, before = {*parameters(function)} - OWN, set(_written(unit))
    if before & source.once(_returned, function) - given and given.intersection(_written(new)):
        return True
    if _is_setter(function) and isinstance(unit.value, ast.Name) and _is_shifted(new.value):
        return True
    if _is_overwriting(source, unit, new):
        return True
    others = _of_other_branches(source, unit)
    return not isinstance(new.value, ast.Constant) and any(ast.dump(new) == ast.dump(other) for other in others)


def _is_overwriting(source: Source, unit: ast.stmt, new: ast.Assign | ast.AugAssign) -> bool:
    block, index = source.block(unit)
    before = block[index - 1] if index else None
    match before:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return _assigns_anew(new, name) and not _assigns_anew(unit, name)
    return False


def _assigns_anew(node: ast.stmt, name: str) -> bool:
    """Whether it assigns to the name without reading it."""
    match node:
        case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
            return name not in names_in(value)
    return False


def _written(node: ast.AST) -> Iterator[str]:
    """The names of the objects into which a statement writes: `a` of `a[0] = 1` and of `a.b = 1`."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    for target in targets:
        base: ast.AST = target
        while isinstance(base, ast.Subscript | ast.Attribute):
            base = base.value
        if isinstance(base, ast.Name) and base is not target:
            yield base.id


def _returned(source: Source, function: FunctionNode) -> set[str]:
    values = (node.value for node in source.inside(function) if isinstance(node, ast.Return))
    return {value.id for value in values if isinstance(value, ast.Name)}


def _is_shifted(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and isinstance(node.right, ast.Constant)


def _is_setter(function: FunctionNode) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == "setter" for each in function.decorator_list)


def _of_other_branches(source: Source, unit: ast.stmt) -> Iterator[ast.stmt]:
    """The only statements of the other branches, if the unit is the only one of its own."""
    top: ast.AST = unit
    for above in source.above(unit):
        if not isinstance(above, ast.If) or [top] not in ((above.body, above.orelse) if top is unit else (above.orelse,)):
            break
        top = above
    while isinstance(top, ast.If):
        yield from (branch[0] for branch in (top.body, top.orelse) if len(branch) == 1 and branch[0] is not unit)
        top = top.orelse[0] if len(top.orelse) == 1 else ast.Pass()
