"""Collects what a model that writes tests is allowed to see. Pure.

Of changed functions: signatures, docstrings and comments, never code. Of the failing tests: their source with what they use
(imports, fixtures, set-up, attributes, helpers), every line verbatim, as it shows how the code is used.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from agent.challenge.touched import Touched, functions_of
from agent.contract.verdicts import VerdictId
from agent.source import syntax
from agent.source.outline import Function, first_line
from agent.source.test_parts import Holder, Part, bases_of, body_of, comments_above, named, parts_of, used_by

MOST_CALLERS = 4  # functions per file that are shown because they use a changed one
LONGEST = 4_000  # characters of the specification
LONGEST_CALLER = 1_500  # characters of the docstring of a function that uses a changed one
WORDS = 3  # fewest words of a meaningful comment
_WORD = re.compile(r"[A-Za-z]{2,}")
MOST_TESTS = 5
LONGEST_TESTS = 2_400  # characters of the tests and what they use
LONGEST_USED = 700  # characters of one definition that they use


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
        is_told = any(ast.get_docstring(known[name]) for name in own)
        parts += [_caller(name, known[name], is_whole=not is_told) for name in callers]
        if callers or any(comments.values()) or is_told:
            files.append("\n\n".join([f"# {path}", *_classes(text, own), *parts]))
    return cut("\n\n".join(files), LONGEST)


def _by_name(path: str, text: str) -> dict[str, Function]:
    """One function per name: without overloads; of several, preferably one with a docstring."""
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
    asserted = [node.test for node in ast.walk(syntax.tree(test)) if isinstance(node, ast.Assert)]
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
    """A changed function with its name and comments, without its code."""
    text = ast.unparse(_bare(node, ast.get_docstring(node)))
    return "\n".join(part for part in (f"# {name}, which is changed", comments, text) if part)


def _caller(name: str, node: Function, *, is_whole: bool) -> str:
    """A caller with the first paragraph of its docstring, which shows what the changed function is for.

    With all of it where no changed function has a docstring: then this is the specification.
    """
    told = ast.get_docstring(node) or ""
    text = ast.unparse(_bare(node, cut(told, LONGEST_CALLER) if is_whole else told.partition("\n\n")[0]))
    return f"# {name}\n{text}" if "." in name else text


def _bare(node: Function, document: str | None) -> Function:
    """The function with its decorators, which can say how it is called, and only this docstring as its body."""
    bare = syntax.tree(ast.unparse(node)).body[0]
    assert isinstance(bare, Function)
    bare.body = [ast.Expr(ast.Constant(document))] if document else [ast.Expr(ast.Constant(...))]
    return ast.fix_missing_locations(bare)


def _comments(text: str, node: Function) -> str:
    """Comments above a function and at the top of its body, without those for tools."""
    lines = text.removeprefix("\ufeff").split("\n")
    first = first_line(node)
    inner = node.body[ast.get_docstring(node) is not None :][:1]
    found = [*comments_above(lines, first), *(line for each in inner for line in comments_above(lines, each.lineno))]
    comments = [line.strip() for line in found]
    return "\n".join(comments) if any(len(_WORD.findall(line)) >= WORDS for line in comments) else ""


def cut(text: str, characters: int) -> str:
    """The first lines of a text that fit."""
    return text if len(text) <= characters else text[:characters].rpartition("\n")[0]


def failing_tests(texts: Mapping[str, str], red: Sequence[VerdictId]) -> str:
    """The code of the tests `red`; `texts` are their files, by path. Whatever does not fit is dropped, tests last."""
    shown = [_excerpt(path, text, [name for name in red if name.startswith(path + "::")]) for path, text in texts.items()]
    return cut("\n\n".join(each for each in shown if each), LONGEST_TESTS)


def test_of(id_: str) -> str:
    """The test's name with its classes, without parameters: `TestMore::test_it`."""
    return id_.partition("::")[2].partition("[")[0]


def _excerpt(path: str, text: str, red: Sequence[VerdictId]) -> str:
    parts = parts_of(text)
    names = dict.fromkeys(test_of(name).replace("::", ".") for name in red)
    tests = [part for name in names if (part := named(parts, name)) is not None]
    shown, room = tests[:1], LONGEST_TESTS - sum(len(part.source) for part in tests[:1])
    for part in [*used_by(parts, tests[:1]), *tests[1:MOST_TESTS], *used_by(parts, tests[:MOST_TESTS])]:
        if part not in shown and len(part.source) <= min(room, LONGEST_USED if part not in tests else room):
            shown.append(part)
            room -= len(part.source)
    used = {name for part in shown or parts for name in (*part.names_used, *bases_of(part.holder))}
    imports = [
        ast.unparse(node)
        for node in body_of(text)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any((each.asname or each.name).partition(".")[0] in used | {"*"} for each in node.names)
    ]
    return "\n\n".join([f"# {path}", *(["\n".join(imports)] if imports else []), *_in_order(parts, shown)])


def _in_order(parts: Sequence[Part], shown: Sequence[Part]) -> Iterator[str]:
    """The code of the parts in the order of the file, each in its class."""
    holder: Holder = None
    for part in (part for part in parts if part in shown):
        if part.holder is not None and part.holder is not holder:
            bases = ", ".join(ast.unparse(base) for base in part.holder.bases)
            yield f"class {part.holder.name}{f'({bases})' if bases else ''}:\n{part.source}"
        else:
            yield part.source
        holder = part.holder
