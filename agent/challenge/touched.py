"""Finds the Python functions that changes touch, and those of the same files that mention them. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.contract.proposal import Edits, FileChange
from agent.source.outline import Function, Module, names_of, parse
from agent.source.test_files import is_test

MOST = 12  # functions that are exercised


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function at module level or in a class; `line` is its first, with decorators."""

    path: str
    name: str  # qualified: "parse", "Parser.feed"
    line: int


@dataclass(frozen=True, slots=True)
class Touched:
    """`documented`: functions whose docstrings are read: the touched ones, and those of the same file that mention one."""

    functions: tuple[FunctionRef, ...] = ()
    documented: tuple[FunctionRef, ...] = ()
    texts: Mapping[str, str] | None = None  # the files before the change, by path


def touched(candidates: Iterable[Edits]) -> Touched:
    """The functions that any of these changes of one base touches, also by another value of a constant that they read.

    Without tests, and new, removed or unparsable code.
    """
    functions: dict[FunctionRef, None] = {}
    documented: dict[FunctionRef, None] = {}
    texts: dict[str, str] = {}
    for change in (change for edits in candidates for change in edits):
        before, after = _functions(change, change.before), _functions(change, change.after)
        same = _dumps(after)  # overloads share one name
        values = _changed_values(change) if before else set()
        kept = {f: node for f, node in before.items() if f.name in same and not f.name.endswith("__hash__")}  # a mere number
        changed = [f for f, node in kept.items() if ast.dump(node) not in same[f.name]]
        changed += [f for f, node in kept.items() if f not in changed and _read(node) & values]
        if changed and change.before is not None:
            texts[change.path] = change.before
            functions.update(dict.fromkeys(changed))
            simple = {function.name.rpartition(".")[2] for function in changed}
            documented.update(dict.fromkeys([*changed, *(f for f, node in before.items() if names_of(node) & simple)]))
    return Touched(tuple(functions)[:MOST], tuple(documented)[:MOST], texts)


def _changed_values(change: FileChange) -> set[str]:
    """Names at module level and in classes that get another value: the functions that read them answer differently."""
    before, after = (_values(tree) if (tree := parse(text or "")) else {} for text in (change.before, change.after))
    return {name for name, dumps in before.items() if after.get(name, dumps) != dumps}


def _values(tree: ast.Module) -> dict[str, list[str]]:
    """The assignments to each name, outside of functions."""
    found: dict[str, list[str]] = {}
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            stored = [each for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            for each in stored:
                found.setdefault(each.id, []).append(ast.dump(node))
        elif not isinstance(node, Function):
            waiting += reversed(list(ast.iter_child_nodes(node)))
    return found


def _read(node: Function) -> frozenset[str]:
    """The names and attributes in a function, without its own names."""
    stored = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}
    return names_of(node) - stored - {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}


def functions_of(path: str, text: str) -> dict[FunctionRef, Function]:
    """The functions at module level and in classes; none if the text does not parse."""
    found: dict[FunctionRef, Function] = {}
    inside = 0  # lines up to this one are inside a function that was found
    for each in Module(path, text.removeprefix("\ufeff")).definitions:
        if isinstance(each.node, Function) and each.first > inside:
            found[FunctionRef(path, each.name, each.first)] = each.node
            inside = each.last
    return found


def _functions(change: FileChange, text: str | None) -> dict[FunctionRef, Function]:
    return functions_of(change.path, text) if text and change.path.endswith(".py") and not is_test(change.path) else {}


def _dumps(functions: Mapping[FunctionRef, Function]) -> dict[str, set[str]]:
    dumps: dict[str, set[str]] = {}
    for function, node in functions.items():
        dumps.setdefault(function.name, set()).add(ast.dump(node))
    return dumps
