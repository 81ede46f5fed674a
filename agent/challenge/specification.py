"""What a writer of tests may know: signatures and docstrings, and the tests that fail; never a function's code. Pure."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Mapping, Sequence

from agent.challenge.touched import Definition, Touched, functions_of
from agent.task import VerdictId

MOST_TESTS = 5
LONGEST = 6_000  # characters of each part


def specification(touched: Touched) -> str:
    """The functions that a change touches, without their bodies; empty where no docstring says what they do."""
    told = []
    for path, text in (touched.texts or {}).items():
        wanted = {function.name for function in touched.documented if function.path == path}
        parts = [_without_body(f.name, node) for f, node in functions_of(path, text).items() if f.name in wanted]
        if any(ast.get_docstring(node) for f, node in functions_of(path, text).items() if f.name in wanted):
            told.append("\n\n".join([f"# {path}", *parts]))
    return "\n\n".join(told)[:LONGEST]


def failing_tests(texts: Mapping[str, str], red: Sequence[VerdictId]) -> str:
    """The source of the first failing tests, with what their files import. `texts` are the files of the ids, by path."""
    told = []
    for path, text in texts.items():
        names = [name.partition("::")[2].partition("[")[0].replace("::", ".") for name in red if name.startswith(path + "::")]
        nodes = {f.name: node for f, node in functions_of(path, text).items()}
        imports = [ast.unparse(node) for node in _body(text) if isinstance(node, ast.Import | ast.ImportFrom)]
        sources = [ast.unparse(nodes[name]) for name in dict.fromkeys(names) if name in nodes][:MOST_TESTS]
        told.append("\n\n".join([f"# {path}", "\n".join(imports), *sources]))
    return "\n\n".join(told)[:LONGEST]


def is_stated(test: str, specification: str) -> bool:
    """Does each assertion of a test stand in the specification word for word, call and value on one line of it?"""
    lines = ["".join(line.split()).replace("'", '"') for line in _joined(specification.splitlines())]
    asserted = [node.test for node in ast.walk(ast.parse(test)) if isinstance(node, ast.Assert)]
    pairs = [(t.left, t.comparators[0]) for t in asserted if isinstance(t, ast.Compare) and isinstance(t.ops[0], ast.Eq)]
    return bool(pairs) and len(pairs) == len(asserted) and all(_stands(call, value, lines) for call, value in pairs)


def _stands(call: ast.expr, value: ast.expr, lines: Collection[str]) -> bool:
    one, other = ("".join(ast.unparse(node).split()).replace("'", '"') for node in (call, value))
    return any(one in line and other in line.partition(one)[2] for line in lines)


def _joined(lines: Sequence[str]) -> list[str]:
    """A session's call and its value as one line, beside all others."""
    return [
        *lines,
        *(f"{line} {following}" for line, following in itertools.pairwise(lines) if line.lstrip().startswith(">>>")),
    ]


def _without_body(name: str, node: Definition) -> str:
    """With the docstring alone; a method is told by its qualified name."""
    bare = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(bare, Definition)
    document = ast.get_docstring(node)
    bare.body = [ast.Expr(ast.Constant(document))] if document else [ast.Expr(ast.Constant(...))]
    bare.decorator_list = []
    return (f"# {name}\n" if "." in name else "") + ast.unparse(ast.fix_missing_locations(bare))


def _body(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text.removeprefix("\ufeff")).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
