"""What a writer of tests may know: signatures and docstrings, and the tests that fail; never a function's code. Pure."""

from __future__ import annotations

import ast
import itertools
import textwrap
from collections.abc import Collection, Mapping, Sequence

from agent.challenge.touched import Definition, Touched, functions_of
from agent.task import VerdictId

MOST_TESTS = 5
MOST_CALLERS = 4  # functions of a file that are told because they use a changed one
LONGEST = 6_000  # characters of each part


def specification(touched: Touched) -> str:
    """The functions that a change touches and those that use them, without their bodies; empty where no docstring says what
    they do."""
    told = []
    changed = {(function.path, function.name) for function in touched.functions}
    for path, text in (touched.texts or {}).items():
        wanted = {function.name for function in touched.documented if function.path == path}
        known = {name: node for name, node in _told(path, text).items() if name in wanted}
        own = [name for name in known if (path, name) in changed]
        callers = [name for name, node in known.items() if name not in own and ast.get_docstring(node)][:MOST_CALLERS]
        parts = [_without_body(name, known[name], is_changed=name in own) for name in (*own, *callers)]
        if any(ast.get_docstring(known[name]) for name in (*own, *callers)):
            told.append("\n\n".join([f"# {path}", *_classes(text, own), *parts]))
    return "\n\n".join(told)[:LONGEST]


def _told(path: str, text: str) -> dict[str, Definition]:
    """One function a name: of overloads the one that has the code, of several the first with a docstring."""
    found: dict[str, Definition] = {}
    for function, node in functions_of(path, text).items():
        is_overload = any(ast.unparse(each).endswith("overload") for each in node.decorator_list)
        known = found.get(function.name)
        if not is_overload and (known is None or (ast.get_docstring(node) and not ast.get_docstring(known))):
            found[function.name] = node
    return found


def _classes(text: str, methods: Sequence[str]) -> list[str]:
    """The docstrings of the classes whose methods are changed; of nested ones the outermost."""
    owners = {name.partition(".")[0] for name in methods if "." in name}
    classes = [node for node in _body(text) if isinstance(node, ast.ClassDef) and node.name in owners]
    return [f'class {node.name}:\n    """{document}"""' for node in classes if (document := ast.get_docstring(node))]


def failing_tests(texts: Mapping[str, str], red: Sequence[VerdictId]) -> str:
    """The first failing tests as they are written, with the imports that they use. `texts` are their files, by path."""
    told = []
    for path, text in texts.items():
        names = [name.partition("::")[2].partition("[")[0].replace("::", ".") for name in red if name.startswith(path + "::")]
        found = {f.name: (f.line, node) for f, node in functions_of(path, text).items()}
        shown = [found[name] for name in dict.fromkeys(names) if name in found][:MOST_TESTS]
        used = {each.id for _, node in shown for each in ast.walk(node) if isinstance(each, ast.Name)}
        imports = [
            ast.unparse(node)
            for node in _body(text)
            if isinstance(node, ast.Import | ast.ImportFrom)
            and any((each.asname or each.name).partition(".")[0] in used | {"*"} for each in node.names)
        ]
        lines = text.removeprefix("\ufeff").splitlines()
        sources = [textwrap.dedent("\n".join(lines[first - 1 : node.end_lineno])) for first, node in shown]
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


def _without_body(name: str, node: Definition, *, is_changed: bool) -> str:
    """With the docstring alone; a method is told by its qualified name."""
    bare = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(bare, Definition)
    document = ast.get_docstring(node)
    bare.body = [ast.Expr(ast.Constant(document))] if document else [ast.Expr(ast.Constant(...))]
    bare.decorator_list = []
    heading = f"# {name}{', which is changed' if is_changed else ''}\n" if is_changed or "." in name else ""
    return heading + ast.unparse(ast.fix_missing_locations(bare))


def _body(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text.removeprefix("\ufeff")).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
