"""Finds the Python functions that changes touch, and the functions whose docstrings mention them. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.contract.proposal import Edits, FileChange
from agent.source.test_files import is_test

MOST = 12  # functions that are exercised

Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function before and after the change, at module level or in a class; `line` is its first, with decorators."""

    path: str
    name: str  # qualified: "parse", "Parser.feed"
    line: int


@dataclass(frozen=True, slots=True)
class Touched:
    """`documented`: functions whose docstrings are read, the touched ones and those of the same file that mention one."""

    functions: tuple[FunctionRef, ...] = ()
    documented: tuple[FunctionRef, ...] = ()
    texts: Mapping[str, str] | None = None  # of the files before


def touched(candidates: Iterable[Edits]) -> Touched:
    """By any of these changes of the same base, without tests and without new, removed or unparsable code."""
    functions: dict[FunctionRef, None] = {}
    documented: dict[FunctionRef, None] = {}
    texts: dict[str, str] = {}
    for change in (change for edits in candidates for change in edits):
        before, after = _functions(change, change.before), _functions(change, change.after)
        same = _dumps(after)  # of overloads there are several of one name
        changed = [f for f, node in before.items() if f.name in same and ast.dump(node) not in same[f.name]]
        if changed and change.before is not None:
            texts[change.path] = change.before
            functions.update(dict.fromkeys(changed))
            simple = {function.name.rpartition(".")[2] for function in changed}
            documented.update(dict.fromkeys([*changed, *(f for f, node in before.items() if _names(node) & simple)]))
    return Touched(tuple(functions)[:MOST], tuple(documented)[:MOST], texts)


def functions_of(path: str, text: str) -> dict[FunctionRef, Definition]:
    """The functions at module level and in classes; none if the text does not parse."""
    try:
        return dict(_found(path, ast.parse(text.removeprefix("\ufeff")).body, ""))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}


def _functions(change: FileChange, text: str | None) -> dict[FunctionRef, Definition]:
    return functions_of(change.path, text) if text and change.path.endswith(".py") and not is_test(change.path) else {}


def _found(path: str, body: list[ast.stmt], prefix: str) -> Iterable[tuple[FunctionRef, Definition]]:
    for node in body:
        if isinstance(node, Definition):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield FunctionRef(path, prefix + node.name, first), node
        elif isinstance(node, ast.ClassDef):
            yield from _found(path, node.body, f"{prefix}{node.name}.")


def _dumps(functions: Mapping[FunctionRef, Definition]) -> dict[str, set[str]]:
    dumps: dict[str, set[str]] = {}
    for function, node in functions.items():
        dumps.setdefault(function.name, set()).add(ast.dump(node))
    return dumps


def _names(node: ast.AST) -> set[str]:
    """The names that a function mentions."""
    plain = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return plain | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
