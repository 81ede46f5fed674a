"""HumanEvalFix (Python): one broken function per line of JSON, with HumanEval's tests.

Its one long function `check` becomes a file of small tests. This is the variant with docstrings, as in real code: the
module consists of `prompt` and `buggy_solution`.
Layout: https://huggingface.co/datasets/bigcode/humanevalpack (bigcode-project/octopack, MIT).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.bench.data_file import FunctionLine, read_lines
from agent.bench.differential import Function
from agent.bench.functions import FunctionTask, OracleKind, function_benchmark
from agent.bench.lab import Benchmark, NotPosed
from agent.source import syntax

MODULE, TESTS = "solution", "test_solution"


class _Line(FunctionLine):
    """The fields of a line that are used."""

    canonical_solution: str
    buggy_solution: str
    bug_type: str = "unknown"


def load(file: Path, oracle: OracleKind) -> Benchmark:
    """Raises `BadInput`."""
    lines = {line.task_id: line for line in read_lines(file, _Line, "HumanEvalFix for Python")}
    groups = {id_: line.bug_type for id_, line in lines.items()}
    return function_benchmark("humanevalfix", groups, oracle, lambda id_: _task(lines[id_]))


def _task(line: _Line) -> FunctionTask:
    """Raises `NotPosed`."""
    source = line.prompt + line.buggy_solution
    try:
        tests = split_check(line.test, MODULE, source, line.entry_point)
    except NoTests as error:
        raise NotPosed(f"its tests cannot be split: {error}") from error
    return FunctionTask(
        id=line.task_id,
        files={f"{MODULE}.py": source},
        cases=tuple(tests.tests),
        write=lambda shown: {f"{TESTS}.py": tests.text(shown)},
        function=Function(MODULE, line.entry_point, tests=TESTS),
        reference={f"{MODULE}.py": line.prompt + line.canonical_solution},
    )


@dataclass(frozen=True, slots=True)
class SplitTests:
    """Separate tests. `tests` maps a function's name to its source, in order."""

    header: str  # the code before the tests
    tests: Mapping[str, str]

    def text(self, names: Sequence[str]) -> str:
        """The file with these tests."""
        chosen = [source for name, source in self.tests.items() if name in names]
        return "\n\n\n".join([self.header, *chosen]) + "\n"


class NoTests(Exception):
    """The text has no `check` function that can be split; the message gives the reason."""


def split_check(text: str, module: str, source: str, entry: str) -> SplitTests:
    """The tests of a HumanEval-like text: one for each assertion at the top level of `check`, with the set-up that it needs.

    A loop or another statement with an assertion inside stays whole. `source` is the text of the module under test; the
    tests import the names that they use from `module`. Raises `NoTests`.
    """
    try:
        tree = syntax.tree(text)
        defined = _bound(syntax.tree(source).body)
    except (SyntaxError, ValueError) as error:
        raise NoTests(f"it is not Python: {error}") from error
    check = next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"), None)
    if check is None or not check.args.args:
        raise NoTests("there is no function `check` that takes the function under test")
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
    return SplitTests("\n\n".join(header), {name: _function(name, body) for name, body in named.items()})


def _tests(body: Sequence[ast.stmt], asserting: frozenset[str]) -> list[list[ast.stmt]]:
    """The statements of each test: a statement that asserts, after the set-up that it depends on."""
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
    if trailing:  # a final call is a test too
        tests.append([*_needed(setup[: setup.index(trailing[-1])], trailing[-1]), trailing[-1]])
    return tests


def _needed(setup: Sequence[ast.stmt], statement: ast.stmt) -> list[ast.stmt]:
    """The set-up without statements that only bind unused names: they might fail because of another test's bug."""
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
    """Names of the helper functions that assert, directly or through other helpers."""
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
    tree = syntax.tree(f"def {name}(): pass")
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = list(body)
    return ast.unparse(tree)
