"""One long `check` function becomes a file of small tests.

Pure: syntax trees in, text out.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TestFile:
    """Tests that can be told apart. `tests` maps a function's name to its source, in order."""

    __test__ = False

    header: str  # what comes before the tests
    tests: Mapping[str, str]

    def text(self, names: Sequence[str]) -> str:
        """The file with these tests."""
        chosen = [source for name, source in self.tests.items() if name in names]
        return "\n\n\n".join([self.header, *chosen]) + "\n"


class NoTests(Exception):
    """The text holds no `check` function that can be taken apart; the message says what is wrong."""


def split_check(text: str, module: str, source: str, entry: str) -> TestFile:
    """The tests of a HumanEval-like text: one for each assertion at the top of `check`, with the set-up that it needs.

    A loop or another statement that asserts inside stays whole. `source` is the text of the module under test; what the
    tests use of it is imported from `module`. Raises `NoTests`.
    """
    try:
        tree = ast.parse(text)
        defined = _bound(ast.parse(source).body)
    except (SyntaxError, ValueError) as error:
        raise NoTests(f"it is not Python: {error}") from error
    check = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"), None)
    if check is None or not check.args.args:
        raise NoTests("there is no function `check` that takes the one under test")
    rest = [node for node in tree.body if node is not check and not _is_call_of_check(node)]
    tests = _tests(check.body, _asserting([*rest, *check.body]))
    if not tests:
        raise NoTests("its function `check` is empty")
    candidate = check.args.args[0].arg
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - _bound([*rest, *check.body]) - {candidate}
    names = sorted((used & defined) | ({entry} if candidate == entry else set()))
    wanted = names if candidate == entry else [f"{entry} as {candidate}", *names]
    header = [f"from {module} import {', '.join(wanted)}", *(ast.unparse(node) for node in rest)]
    width = len(str(len(tests)))
    named = {f"test_{number:0{width}}": body for number, body in enumerate(tests, 1)}
    return TestFile("\n\n".join(header), {name: _function(name, body) for name, body in named.items()})


def _tests(body: Sequence[ast.stmt], asserting: frozenset[str]) -> list[list[ast.stmt]]:
    """The statements of each test: one that asserts, after the set-up before it on which it depends."""
    tests: list[list[ast.stmt]] = []
    setup: list[ast.stmt] = []
    for statement in body:
        if _is_docstring(statement):
            continue
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef) and _asserts(statement, asserting):
            tests.append([*_needed(setup, statement), statement])
            continue
        setup.append(statement)
    last = max((body.index(test[-1]) for test in tests), default=-1)
    trailing = [statement for statement in setup if body.index(statement) > last and not _only_binds(statement)]
    if trailing:  # it ends by calling something: that is a test too
        tests.append([*_needed(setup[: setup.index(trailing[-1])], trailing[-1]), trailing[-1]])
    return tests


def _needed(setup: Sequence[ast.stmt], statement: ast.stmt) -> list[ast.stmt]:
    """The set-up without what binds names that are not used: it might fail for another test's reason."""
    used, kept = _used(statement), []
    for earlier in reversed(setup):
        if not _only_binds(earlier) or _bound([earlier]) & used:
            used |= _used(earlier)
            kept.append(earlier)
    return kept[::-1]


def _asserts(statement: ast.AST, asserting: frozenset[str]) -> bool:
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in asserting)
        for node in ast.walk(statement)
    )


def _asserting(statements: Sequence[ast.stmt]) -> frozenset[str]:
    """Names of the helper functions that assert, also through one another."""
    helpers = [node for node in statements if isinstance(node, ast.FunctionDef)]
    names: frozenset[str] = frozenset()
    while (found := frozenset(node.name for node in helpers if _asserts(node, names))) != names:
        names = found
    return names


def _only_binds(statement: ast.stmt) -> bool:
    kinds = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.ClassDef)
    return isinstance(statement, kinds) and bool(_bound([statement]))


def _bound(statements: Sequence[ast.stmt]) -> set[str]:
    """Names that these statements bind in their own scope."""
    names: set[str] = set()
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
        else:
            names |= {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return names


def _used(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


def _is_call_of_check(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "check"


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _function(name: str, body: Sequence[ast.stmt]) -> str:
    tree = ast.parse(f"def {name}(): pass")
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = list(body)
    return ast.unparse(tree)
