"""Which Python functions do changes touch, and whose docstrings speak of what those do? Pure: texts in, names out."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.contract.proposal import Edits, FileChange
from agent.source.test_files import is_test

MOST = 12  # functions that are played with

Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Function:
    """One that is there before and after, at module level or in a class there; `line` is its first, decorators included."""

    path: str
    name: str  # qualified: "parse", "Parser.feed"
    line: int


@dataclass(frozen=True, slots=True)
class Touched:
    """`documented` are the functions whose docstrings are read: the touched ones and those of the same file that name one."""

    functions: tuple[Function, ...] = ()
    documented: tuple[Function, ...] = ()
    texts: Mapping[str, str] | None = None  # of the files before


def touched(candidates: Iterable[Edits]) -> Touched:
    """By any of these changes, which all begin at the same base. What does not parse, is new or gone, or is a test, is left."""
    functions: dict[Function, None] = {}
    documented: dict[Function, None] = {}
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


def functions_of(path: str, text: str) -> dict[Function, Definition]:
    """The functions at module level and in classes there; none where the text does not parse."""
    try:
        return dict(_found(path, ast.parse(text.removeprefix("\ufeff")).body, ""))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}


def _functions(change: FileChange, text: str | None) -> dict[Function, Definition]:
    return functions_of(change.path, text) if text and change.path.endswith(".py") and not is_test(change.path) else {}


def _found(path: str, body: list[ast.stmt], prefix: str) -> Iterable[tuple[Function, Definition]]:
    for node in body:
        if isinstance(node, Definition):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield Function(path, prefix + node.name, first), node
        elif isinstance(node, ast.ClassDef):
            yield from _found(path, node.body, f"{prefix}{node.name}.")


def _dumps(functions: Mapping[Function, Definition]) -> dict[str, set[str]]:
    dumps: dict[str, set[str]] = {}
    for function, node in functions.items():
        dumps.setdefault(function.name, set()).add(ast.dump(node))
    return dumps


def _names(node: ast.AST) -> set[str]:
    """What the code of a function mentions."""
    plain = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return plain | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}
