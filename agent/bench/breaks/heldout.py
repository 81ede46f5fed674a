"""Removes tests from test files: those that are held out from the engine, and those that fail without a break. Pure."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterable, Mapping, Sequence

from agent.bench.breaks.code import Function, read
from agent.bench.lab import text_of
from agent.contract.verdicts import VerdictId
from agent.source.archive import File, Files
from agent.source.test_files import is_test

TestFunction = tuple[str, tuple[str, ...]]
"""A file, and the names that lead to the function in it: ("tests/test_a.py", ("TestA", "test_b"))."""


def chosen(red: Iterable[VerdictId], files: Files, rng: random.Random) -> tuple[VerdictId, ...]:
    """The failing tests to hold out: those of half of the names of test functions, rounded down, so that one stays visible.

    By names, because classes inherit tests: without the function in the base class, all classes lack the test.
    """
    ids: dict[str, list[VerdictId]] = {}
    for id_ in sorted(red):
        ids.setdefault((function_of(id_)[1] or ("",))[-1], []).append(id_)
    found = [name for name, each in ids.items() if any(_removed(files, [function_of(id_)]) is not None for id_ in each)]
    out = rng.sample(found, min(len(ids) // 2, len(found)))
    return tuple(id_ for name in sorted(out) for id_ in ids[name])


def without(files: Files, ids: Iterable[VerdictId]) -> dict[str, File]:
    """The files without the functions of these tests; a function that a file does not have is none to remove."""
    left = dict(files)
    for function in sorted({function_of(id_) for id_ in ids}):
        left.update(_removed(left, [function]) or {})
    return left


def leaving_out(files: Files, red: Iterable[VerdictId]) -> dict[str, File] | None:
    """The files without these tests, and without test files that cannot be collected; None if one of them cannot go."""
    ids = list(red)
    whole = {id_ for id_ in ids if id_ in files and is_test(id_) and id_.endswith(".py")}
    functions = {function_of(id_) for id_ in ids if id_ not in whole}
    if any(_removed(files, [function]) is None for function in functions):
        return None
    return {path: file for path, file in without(files, set(ids) - whole).items() if path not in whole}


def function_of(id_: VerdictId) -> TestFunction:
    path, *names = id_.partition("[")[0].split("::")
    return path, tuple(names)


def _removed(files: Files, functions: Sequence[TestFunction]) -> Mapping[str, File] | None:
    """The changed files; None if one of the functions is not there."""
    changed: dict[str, File] = {}
    for path, names in functions:
        file = changed.get(path) or files.get(path)
        text = text_of(file) if file is not None else None
        shorter = _without(text, names) if text is not None else None
        if file is None or shorter is None:
            return None
        changed[path] = File(shorter.encode(), file.executable)
    return changed


def _without(text: str, names: Sequence[str]) -> str | None:
    """None if the text has no such function or is no valid program without it."""
    module = read(text)
    body: list[ast.stmt] = module.tree.body if module is not None else []
    for name in names[:-1]:
        body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == name), [])
    found = [node for node in body if isinstance(node, Function) and node.name == names[-1]] if names else []
    if not found:
        return None
    lines = text.split("\n")
    for node in reversed(found):
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        is_only = len(body) == len(found) and node is found[0]
        lines[first - 1 : node.end_lineno] = [f"{' ' * node.col_offset}pass"] if is_only else []
    shorter = "\n".join(lines)
    return shorter if read(shorter) is not None else None
