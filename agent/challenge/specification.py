"""Collects what a model that writes tests is allowed to see. Pure.

Of changed functions: signatures, docstrings and comments, never code. Of the failing tests: their source with what they use
(imports, fixtures, set-up, attributes, helpers), every line verbatim, as it shows how the code is used.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.challenge.touched import Touched, functions_of
from agent.contract.verdicts import VerdictId
from agent.source import syntax
from agent.source.outline import Function, first_line, parse

MOST_CALLERS = 4  # functions per file that are shown because they use a changed one
LONGEST = 4_000  # characters of the specification
LONGEST_CALLER = 1_500  # characters of the docstring of a function that uses a changed one
WORDS = 3  # fewest words of a meaningful comment
_WORD = re.compile(r"[A-Za-z]{2,}")
MOST_TESTS = 5
LONGEST_TESTS = 2_400  # characters of the tests and what they use
LONGEST_USED = 700  # characters of one definition that they use
_SET_UP = frozenset({"setUp", "asyncSetUp", "setUpClass", "setup_method", "setup_class", "setup_function", "setup_module"})

Holder = ast.ClassDef | None  # None: the module


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


def comments_above(lines: Sequence[str], number: int) -> list[str]:
    """The whole-line comments directly above line `number`, counted from 1."""
    above = list(itertools.takewhile(lambda line: line.lstrip().startswith("#"), reversed(lines[: number - 1])))
    return above[::-1]


def cut(text: str, characters: int) -> str:
    """The first lines of a text that fit."""
    return text if len(text) <= characters else text[:characters].rpartition("\n")[0]


def body_of(text: str) -> list[ast.stmt]:
    """The statements of a module; none if it does not parse."""
    tree = parse(text.removeprefix("\ufeff"))
    return tree.body if tree else []


@dataclass(frozen=True, slots=True)
class _Part:
    """A function, a class or an assignment of a test's file."""

    holder: Holder
    names: tuple[str, ...]
    node: ast.stmt
    source: str

    @property
    def runs_unasked(self) -> bool:
        return bool(_SET_UP.intersection(self.names)) or any(
            "autouse=True" in ast.unparse(each) for each in getattr(self.node, "decorator_list", ())
        )

    @property
    def names_used(self) -> set[str]:
        """The names that it uses, including its arguments, which name fixtures."""
        nodes = list(ast.walk(self.node))
        return {node.id for node in nodes if isinstance(node, ast.Name)} | {n.arg for n in nodes if isinstance(n, ast.arg)}

    @property
    def members_used(self) -> set[str]:
        attributes = {node.attr for node in ast.walk(self.node) if isinstance(node, ast.Attribute)}
        return attributes | {node.arg for node in ast.walk(self.node) if isinstance(node, ast.arg)}


def failing_tests(texts: Mapping[str, str], red: Sequence[VerdictId]) -> str:
    """The code of the tests `red`; `texts` are their files, by path. Whatever does not fit is dropped, tests last."""
    shown = [_excerpt(path, text, [name for name in red if name.startswith(path + "::")]) for path, text in texts.items()]
    return cut("\n\n".join(each for each in shown if each), LONGEST_TESTS)


def test_of(id_: str) -> str:
    """The test's name with its classes, without parameters: `TestMore::test_it`."""
    return id_.partition("::")[2].partition("[")[0]


def _excerpt(path: str, text: str, red: Sequence[VerdictId]) -> str:
    lines = text.removeprefix("\ufeff").split("\n")
    parts = list(_parts(body_of(text), None, lines))
    names = dict.fromkeys(test_of(name).replace("::", ".") for name in red)
    tests = [part for name in names if (part := _named(parts, name)) is not None]
    shown, room = tests[:1], LONGEST_TESTS - sum(len(part.source) for part in tests[:1])
    for part in [*_used_by(parts, tests[:1]), *tests[1:MOST_TESTS], *_used_by(parts, tests[:MOST_TESTS])]:
        if part not in shown and len(part.source) <= min(room, LONGEST_USED if part not in tests else room):
            shown.append(part)
            room -= len(part.source)
    used = {name for part in shown or parts for name in (*part.names_used, *_bases_of(part.holder))}
    imports = [
        ast.unparse(node)
        for node in body_of(text)
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any((each.asname or each.name).partition(".")[0] in used | {"*"} for each in node.names)
    ]
    return "\n\n".join([f"# {path}", *(["\n".join(imports)] if imports else []), *_in_order(parts, shown)])


def _parts(body: Sequence[ast.stmt], holder: Holder, lines: Sequence[str]) -> Iterator[_Part]:
    """The definitions in the module and its classes, in order; classes only through their members."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _parts(node.body, node, lines)
        elif names := _defined(node):
            first = first_line(node)
            first -= len(comments_above(lines, first))
            yield _Part(holder, names, node, "\n".join(lines[first - 1 : node.end_lineno]))


def _defined(node: ast.stmt) -> tuple[str, ...]:
    if isinstance(node, Function):
        return (node.name,)
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return tuple(each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def _named(parts: Sequence[_Part], name: str) -> _Part | None:
    """The part with this class and name; else the only one of that name, since it may be inherited."""
    same_name = [part for part in parts if part.names == (name.rpartition(".")[2],)]
    owner = name.rpartition(".")[0].rpartition(".")[2]
    exact = [part for part in same_name if (part.holder.name if part.holder else "") == owner]
    return exact[0] if exact else same_name[0] if len(same_name) == 1 else None


def _used_by(parts: Sequence[_Part], tests: Sequence[_Part]) -> list[_Part]:
    """The parts that the tests use, directly or not, nearest first: from their classes, base classes and module."""
    found = list(tests)
    for part in found:  # the list grows during the loop
        near = {None, part.holder, *_bases(parts, part.holder)}
        names, members = part.names_used, part.members_used
        for each in (each for each in parts if each.holder in near and each not in found):
            if each.runs_unasked or (members if each.holder else names).intersection(each.names):
                found.append(each)
    return [part for part in found if part not in tests and not part.names[0].startswith("test")]


def _bases(parts: Sequence[_Part], holder: Holder) -> set[Holder]:
    names = _bases_of(holder)
    return {part.holder for part in parts if part.holder and part.holder.name in names}


def _bases_of(holder: Holder) -> set[str]:
    """The names of the base classes and of their modules."""
    return {part for base in (holder.bases if holder else ()) for part in ast.unparse(base).split(".")}


def _in_order(parts: Sequence[_Part], shown: Sequence[_Part]) -> Iterator[str]:
    """The code of the parts in the order of the file, each in its class."""
    holder: Holder = None
    for part in (part for part in parts if part in shown):
        if part.holder is not None and part.holder is not holder:
            bases = ", ".join(ast.unparse(base) for base in part.holder.bases)
            yield f"class {part.holder.name}{f'({bases})' if bases else ''}:\n{part.source}"
        else:
            yield part.source
        holder = part.holder
