"""What a model that writes tests may know of changed functions: signatures, docstrings and comments, never code. Pure."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Sequence

from agent.challenge.touched import Touched, functions_of
from agent.source.outline import Function, first_line, parse

MOST_CALLERS = 4  # functions per file that are shown because they use a changed one
LONGEST = 4_000  # characters of all
WORDS = 3  # fewest words of a meaningful comment
_WORD = re.compile(r"[A-Za-z]{2,}")


def specification(touched: Touched) -> str:
    """The functions that a change touches and those that use them, without bodies; empty without docstrings and comments."""
    files = []
    changed = {(function.path, function.name) for function in touched.functions}
    for path, text in (touched.texts or {}).items():
        wanted = {function.name for function in touched.documented if function.path == path}
        known = {name: node for name, node in _by_name(path, text).items() if name in wanted}
        own = [name for name in known if (path, name) in changed]
        callers = [name for name, node in known.items() if name not in own and ast.get_docstring(node)][:MOST_CALLERS]
        comments = {name: _comments(text, known[name]) for name in own}
        parts = [_changed(name, known[name], comments[name]) for name in own]
        parts += [_caller(name, known[name]) for name in callers]
        if callers or any(comments.values()) or any(ast.get_docstring(known[name]) for name in own):
            files.append("\n\n".join([f"# {path}", *_classes(text, own), *parts]))
    return cut("\n\n".join(files), LONGEST)


def _by_name(path: str, text: str) -> dict[str, Function]:
    """One function per name: the implementation of overloads, and of several the first with a docstring."""
    found: dict[str, Function] = {}
    for function, node in functions_of(path, text).items():
        is_overload = any(ast.unparse(each).endswith("overload") for each in node.decorator_list)
        known = found.get(function.name)
        if not is_overload and (known is None or (ast.get_docstring(node) and not ast.get_docstring(known))):
            found[function.name] = node
    return found


def _classes(text: str, methods: Sequence[str]) -> list[str]:
    """The (outermost) classes of changed methods: docstring and constructor."""
    owners = {name.partition(".")[0] for name in methods if "." in name}
    return [_class(node, methods) for node in body_of(text) if isinstance(node, ast.ClassDef) and node.name in owners]


def _class(node: ast.ClassDef, methods: Sequence[str]) -> str:
    made = [each for each in node.body if isinstance(each, Function) and each.name == "__init__"][-1:]
    shown: list[ast.stmt] = [ast.Expr(ast.Constant(document))] if (document := ast.get_docstring(node)) else []
    if f"{node.name}.__init__" not in methods:
        shown += [_bare(each, ast.get_docstring(each)) for each in made]
    bare = ast.ClassDef(node.name, node.bases, node.keywords, shown or [ast.Expr(ast.Constant(...))], [])
    return ast.unparse(ast.fix_missing_locations(bare))


def is_stated(test: str, specification: str) -> bool:
    """Is each assertion of a test in the specification word for word, call and value on one line?"""
    lines = ["".join(line.split()).replace("'", '"') for line in _joined(specification.splitlines())]
    asserted = [node.test for node in ast.walk(ast.parse(test)) if isinstance(node, ast.Assert)]
    pairs = [(t.left, t.comparators[0]) for t in asserted if isinstance(t, ast.Compare) and isinstance(t.ops[0], ast.Eq)]
    return bool(pairs) and len(pairs) == len(asserted) and all(_stands(call, value, lines) for call, value in pairs)


def _stands(call: ast.expr, value: ast.expr, lines: Collection[str]) -> bool:
    one, other = ("".join(ast.unparse(node).split()).replace("'", '"') for node in (call, value))
    return any(one in line and other in line.partition(one)[2] for line in lines)


def _joined(lines: Sequence[str]) -> list[str]:
    """All lines, and each `>>>` call joined with its result."""
    return [
        *lines,
        *(f"{line} {following}" for line, following in itertools.pairwise(lines) if line.lstrip().startswith(">>>")),
    ]


def _changed(name: str, node: Function, comments: str) -> str:
    """With the qualified name as a comment."""
    text = ast.unparse(_bare(node, ast.get_docstring(node)))
    return "\n".join(part for part in (f"# {name}, which is changed", comments, text) if part)


def _caller(name: str, node: Function) -> str:
    """With the first paragraph of its docstring: it shows what the changed function is for."""
    text = ast.unparse(_bare(node, (ast.get_docstring(node) or "").partition("\n\n")[0]))
    return f"# {name}\n{text}" if "." in name else text


def _bare(node: Function, document: str | None) -> Function:
    """With this docstring for its body."""
    bare = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(bare, Function)
    bare.body = [ast.Expr(ast.Constant(document))] if document else [ast.Expr(ast.Constant(...))]
    bare.decorator_list = []
    return ast.fix_missing_locations(bare)


def _comments(text: str, node: Function) -> str:
    """Comments above a function and at the top of its body, without those for tools."""
    lines = text.removeprefix("\ufeff").split("\n")
    first = first_line(node)
    inner = node.body[ast.get_docstring(node) is not None :][:1]
    found = [*comments_above(lines, first), *(line for each in inner for line in comments_above(lines, each.lineno))]
    comments = [line.strip() for line in found]
    return "\n".join(comments) if any(len(_WORD.findall(line)) >= WORDS for line in comments) else ""


def comments_above(lines: Sequence[str], number: int) -> list[str]:
    """The whole-line comments directly above a line; it counts from 1."""
    above = list(itertools.takewhile(lambda line: line.lstrip().startswith("#"), reversed(lines[: number - 1])))
    return above[::-1]


def cut(text: str, characters: int) -> str:
    """The lines of a text that fit."""
    return text if len(text) <= characters else text[:characters].rpartition("\n")[0]


def body_of(text: str) -> list[ast.stmt]:
    """The statements of a module; none if it does not parse."""
    tree = parse(text.removeprefix("\ufeff"))
    return tree.body if tree else []
