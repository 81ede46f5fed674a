"""Patterns on state that is set beside other state: a variable of a loop, an attribute, a name that each branch sets."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from agent.proposers.patterns.missing import inserted
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source
from agent.source import syntax

MOST = 6  # names that are set in one place
EMPTY = ("[]", "{}", "()", "set()", "list()", "dict()", "deque()", "collections.deque()")


def loops(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A loop sets a variable back to its first value, and forgets another one that it changes."""
    function = source.function(node)
    if function is None or not isinstance(node, ast.stmt) or (name := _reset(node)) is None:
        return
    loop = next((each for each in source.above(node) if isinstance(each, ast.For | ast.While | ast.AsyncFor)), None)
    if loop is None or not source.has_own_lines(node) or not _is_first(source, node):
        return
    first = {target: text for target, (text, line) in source.once(_first_values, function).items() if line < loop.lineno}
    block, _ = source.block(node)
    here = {_reset(each) for each in block}
    if name in first:
        for other in [each for each in source.once(_changed, loop) if each in first and each not in here][:MOST]:
            yield inserted(source, node, f"{other} = {first[other]}", 0.7)


def attributes(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """A method sets attributes back as `__init__` sets them first, and forgets one that other methods change."""
    if not isinstance(node, ast.Assign) or not source.has_own_lines(node) or not _is_first(source, node):
        return
    function = source.function(node)
    if function is not None and any(isinstance(target, ast.Attribute) for target in node.targets):
        for text, prior in source.once(_forgotten, function):
            yield inserted(source, node, text, prior)


def _forgotten(source: Source, function: FunctionNode) -> list[tuple[str, float]]:
    """The assignments that a method may lack, each with its prior."""
    owner = source.parents[function]
    if function.name == "__init__" or not isinstance(owner, ast.ClassDef):
        return []
    made = next((each for each in owner.body if isinstance(each, FunctionNode) and each.name == "__init__"), None)
    first = dict(pair for each in ast.walk(made) for pair in _set(source, each)) if made is not None else {}
    here = dict(pair for each in ast.walk(function) for pair in _set(source, each))
    again = {first[target]: text for target, text in here.items() if target in first}  # what is set for a first value
    elsewhere = {name for each in owner.body if each not in (made, function) for name in source.once(_changed, each)}
    forgotten = [each for each in first if again and each.startswith("self.") and each in elsewhere and each not in here]
    found = [(f"{each} = {again[first[each]]}", 0.6) for each in forgotten if first[each] in again]
    found += [(f"{each} = {first[each]}", 0.45) for each in forgotten if first[each] not in again and _is_plain(first[each])]
    return found[:MOST]


def branches(source: Source, node: ast.AST) -> Iterator[Rewrite]:
    """The other branches of an `if` set a name that this one forgets: to a literal of this branch, or as they do."""
    if not isinstance(node, ast.If) or not source.has_own_lines(node.body[0]):
        return
    above = source.parents[node]
    others = [above.body] if isinstance(above, ast.If) and node in above.orelse else []
    match node.orelse:
        case [ast.If(body=body, orelse=orelse)]:
            others += [body, orelse]
        case orelse:
            others.append(orelse)
    here = {target for each in node.body for target, _ in _set(source, each)}
    there: dict[str, list[str]] = {}
    for target, text in (pair for body in others for each in body for pair in _plain(source, each)):
        there.setdefault(target, []).append(text)
    constants = (each for part in (node.test, *node.body) for each in source.inside(part) if isinstance(each, ast.Constant))
    literals = [text for each in constants if _is_plain(text := source.segment(each))]
    for target, texts in [each for each in there.items() if each[0] not in here][:MOST]:
        for rank, text in enumerate(dict.fromkeys([*literals[:MOST], *texts[:MOST]])):
            yield inserted(source, node.body[0], f"{target} = {text}", 0.5 - 0.02 * rank)


def _first_values(source: Source, function: FunctionNode) -> dict[str, tuple[str, int]]:
    """The plain values of the function's own statements, each with its line."""
    return {target: (text, each.lineno) for each in function.body for target, text in _plain(source, each)}


def _is_first(source: Source, node: ast.stmt) -> bool:
    """Whether no statement before it in its block sets anything: one place in a block is enough."""
    block, index = source.block(node)
    return not any(isinstance(each, ast.Assign) or _reset(each) for each in block[:index])


def _reset(node: ast.stmt) -> str | None:
    """The variable that a statement sets to a plain value, or empties."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_plain(ast.unparse(value)):
            return name
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="clear"), args=[])):
            return name
    return None


def _plain(source: Source, node: ast.AST) -> Iterator[tuple[str, str]]:
    return ((target, text) for target, text in _set(source, node) if _is_plain(text))


def _set(source: Source, node: ast.AST) -> Iterator[tuple[str, str]]:
    """The names and attributes that a statement assigns, each with the value's text."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name | ast.Attribute):
                yield source.segment(target), source.segment(node.value)
    elif isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name | ast.Attribute):
        yield source.segment(node.target), source.segment(node.value)


def _is_plain(text: str) -> bool:
    if text in EMPTY:
        return True
    try:
        syntax.literal(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return len(text) < 40


def _changed(_: Source, node: ast.AST) -> list[str]:
    """The names and attributes that are assigned inside, in order."""
    found = dict[str, None]()
    for each in ast.walk(node):
        targets = each.targets if isinstance(each, ast.Assign) else [each.target] if isinstance(each, ast.AugAssign) else []
        found |= {ast.unparse(target): None for target in targets if isinstance(target, ast.Name | ast.Attribute)}
    return list(found)
