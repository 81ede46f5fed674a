"""Edits import statements as text: everything else stays, including comments and line endings. Pure.

Each function returns the new source, or None if the edit is impossible or changes nothing. Placement follows isort's order
(standard library, third party, own) to satisfy linters.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from agent.edits.changes import lines
from agent.source.outline import Function, first_line, parse

LONGEST = 88  # maximum characters of an import line to which a name is added
_STATEMENT = re.compile(r"(?:from (?P<module>[\w.]+) )?import (?P<name>[\w.]+)(?: as (?P<alias>\w+))?")


@dataclass(frozen=True, slots=True)
class Import:
    """`import module as alias`, or `from module import name as alias`."""

    module: str
    name: str = ""
    alias: str = ""

    @property
    def text(self) -> str:
        renamed = f" as {self.alias}" if self.alias else ""
        return f"from {self.module} import {self.name}{renamed}" if self.name else f"import {self.module}{renamed}"


def read_import(text: str) -> Import | None:
    """One import of one name; None for any other text."""
    found = _STATEMENT.fullmatch(text)
    if found is None:
        return None
    alias = found["alias"] or ""
    return Import(found["module"], found["name"], alias) if found["module"] else Import(found["name"], alias=alias)


@dataclass(frozen=True, slots=True)
class _File:
    """A source that parses: its tree, its lines with their ends, and its line ending."""

    tree: ast.Module
    rows: list[str]
    end: str

    @classmethod
    def read(cls, source: str) -> _File | None:
        tree = parse(source)
        return None if tree is None else cls(tree, lines(source), "\r\n" if "\r\n" in source else "\n")

    def put(self, first: int, after: int, *new: str) -> str | None:
        """The text with some lines (from 0) replaced by others, given without line ends; None if it no longer parses."""
        return _checked("".join([*self.rows[:first], *(row + self.end for row in new), *self.rows[after:]]))


def add(source: str, wanted: Import, own: Collection[str] = ()) -> str | None:
    """Add an import at the top of the module. `own` are the top-level names of the repository's modules."""
    file = _File.read(source)
    head = list(_head(file.tree)) if file else []
    if file is None or any(wanted.text in _texts(node) for node in head):
        return None
    for node in head:
        if isinstance(node, ast.ImportFrom) and wanted.name and _source_of(node) == wanted.module:
            row = file.rows[node.lineno - 1].rstrip("\r\n")
            if node.lineno == node.end_lineno and re.fullmatch(r"from [\w.]+ import [\w ,]+", row):
                names = [ast.unparse(alias) for alias in node.names]
                new = f"{wanted.name} as {wanted.alias}" if wanted.alias else wanted.name
                at = next((n for n, name in enumerate(names) if _name_order(name) > _name_order(new)), len(names))
                longer = f"from {wanted.module} import {', '.join([*names[:at], new, *names[at:]])}"
                if len(longer) <= LONGEST:
                    return file.put(node.lineno - 1, node.lineno, longer)
    at, before, after = _place(file.tree, head, wanted, own, file.rows)
    return file.put(at, at, *[""] * before, wanted.text, *[""] * after)


def redirect(source: str, line: int, module: str, name: str, to: Import) -> str | None:
    """Import the `name` that `line` imports from `module` from elsewhere, under the same local name."""
    file = _File.read(source)
    node = _import_of(file.tree, line, module, name) if file else None
    if file is None or node is None:
        return None
    alias = next(alias for alias in node.names if alias.name == name)
    bound = alias.asname or name
    statement = Import(to.module, to.name, bound if bound != to.name else "").text
    first, after = node.lineno - 1, node.end_lineno or node.lineno
    indent = file.rows[first][: node.col_offset]
    if indent.strip():
        return None  # after a semicolon
    shorter = _without(file.rows[first:after], node, alias) if len(node.names) > 1 else []
    return file.put(first, after, *shorter, f"{indent}{statement}")


def rename_module(source: str, old: str, new: str) -> str | None:
    """Import `new` instead of `old`, under the names that the code uses."""
    file = _File.read(source)
    if file is None:
        return None
    rows = file.rows
    for node in _imports(file.tree):
        first = node.lineno - 1
        if isinstance(node, ast.ImportFrom) and not node.level and node.module == old:
            rows[first] = re.sub(rf"\bfrom(\s+){re.escape(old)}(\s+)import\b", rf"from\1{new}\2import", rows[first], count=1)
        elif isinstance(node, ast.Import) and [a.name for a in node.names] == [old]:
            bound = node.names[0].asname or old
            if "." in bound:
                return None
            package, _, last = new.rpartition(".")
            statement = Import(package, last, bound if bound != last else "") if package else Import(new, alias=bound)
            rows[first] = f"{rows[first][: node.col_offset]}{statement.text}{file.end}"
    text = "".join(rows)
    return _checked(text) if text != source else None


def replace_attribute(source: str, module: str, name: str, new_module: str, own: Collection[str] = ()) -> str | None:
    """Replace `module.name` by `new_module.name` everywhere, and import the new module."""
    file = _File.read(source)
    tree = file.tree if file else ast.Module([], [])
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == name and _dotted(n.value) == module]
    if file is None or not found or any(node.value.end_lineno != node.value.lineno for node in found):
        return None
    for value in sorted((node.value for node in found), key=lambda n: (n.lineno, n.col_offset), reverse=True):
        row = file.rows[value.lineno - 1].encode()
        file.rows[value.lineno - 1] = (row[: value.col_offset] + new_module.encode() + row[value.end_col_offset :]).decode()
    text = "".join(file.rows)
    return add(text, Import(new_module), own) or _checked(text)


def make_local(source: str, line: int, module: str, name: str) -> str | None:
    """Move an import from module level into the functions that use the name, which breaks a circular import.

    Only if every use is inside a function.
    """
    file = _File.read(source)
    node = _import_of(file.tree, line, module, name) if file else None
    if file is None or node is None or node not in file.tree.body or len(node.names) != 1:
        return None
    users = _users(file.tree, node.names[0].asname or name)
    statement = "".join(file.rows[node.lineno - 1 : node.end_lineno]).strip()
    if not users or None in users or "\n" in statement:
        return None
    for function in sorted((f for f in dict.fromkeys(users) if f is not None), key=lambda f: f.lineno, reverse=True):
        body = function.body
        has_docstring = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and len(body) > 1
        at = body[1 if has_docstring else 0]
        indent = file.rows[at.lineno - 1][: at.col_offset]
        if at.lineno == function.lineno or indent.strip():
            return None
        file.rows.insert(first_line(at) - 1, f"{indent}{statement}{file.end}")
    del file.rows[node.lineno - 1 : node.end_lineno]
    text = "".join(file.rows)
    return _checked(text.lstrip("\r\n") if node is file.tree.body[0] else text)


def names_taken(source: str, line: int, module: str) -> tuple[str, ...]:
    """The names that the file imports from `module`, or the attributes that it reads from it."""
    tree = parse(source)
    if tree is None:
        return ()
    taken: list[str] = []
    for node in _imports(tree):
        if isinstance(node, ast.ImportFrom) and _source_of(node) == module:
            taken += [alias.name for alias in node.names if alias.name != "*"]
        elif isinstance(node, ast.Import):
            taken += [a for alias in node.names if alias.name == module for a in attributes(source, alias.asname or module)]
    return tuple(dict.fromkeys(taken))


def attributes(source: str, name: str) -> tuple[str, ...]:
    """The attributes that the source reads from a name."""
    tree = parse(source)
    found = (n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and _dotted(n.value) == name) if tree else ()
    return tuple(dict.fromkeys(found))


def imports_module(source: str, top: str) -> bool:
    """Does the source import a module with this top-level name?"""
    tree = parse(source)
    nodes = list(_imports(tree)) if tree else []
    modules = [a.name for n in nodes if isinstance(n, ast.Import) for a in n.names]
    modules += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return any(module.partition(".")[0] == top for module in modules)


def is_relative(source: str) -> bool:
    """Does the module use relative imports?"""
    tree = parse(source)
    return tree is not None and any(isinstance(node, ast.ImportFrom) and node.level for node in _head(tree))


def _checked(text: str) -> str | None:
    return text if parse(text) is not None else None


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))


def _head(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports before the first definition."""
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef):
            return
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node


def _source_of(node: ast.ImportFrom) -> str:
    return "." * node.level + (node.module or "")


def _texts(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [Import(alias.name, alias=alias.asname or "").text for alias in node.names]
    return [Import(_source_of(node), alias.name, alias.asname or "").text for alias in node.names]


def _name_order(name: str) -> tuple[int, str]:
    """isort's order of names: constants, classes, the rest."""
    word = name.partition(" ")[0]
    return (0 if word.isupper() and len(word) > 1 else 1 if word[:1].isupper() else 2), word


def _section(module: str, own: Collection[str]) -> int:
    top = module.partition(".")[0]
    if module == "__future__":
        return 0
    return 4 if module.startswith(".") else 1 if top in sys.stdlib_module_names else 3 if top in own else 2


def _place(
    tree: ast.Module, head: list[ast.Import | ast.ImportFrom], wanted: Import, own: Collection[str], rows: list[str]
) -> tuple[int, int, int]:
    """The number of lines above the new import, and of blank lines to add before and after it."""

    def order(node: ast.Import | ast.ImportFrom) -> tuple[int, bool, str]:
        module = _source_of(node) if isinstance(node, ast.ImportFrom) else node.names[0].name
        return _section(module, own), isinstance(node, ast.ImportFrom), module.lower()

    new = (_section(wanted.module, own), bool(wanted.name), wanted.module.lower())
    same = [node for node in head if order(node)[0] == new[0]]
    if same:
        above = [node for node in same if order(node) <= new]
        return (above[-1].end_lineno or above[-1].lineno, 0, 0) if above else (same[0].lineno - 1, 0, 0)
    lower = [node for node in head if order(node)[0] < new[0]]
    if lower:
        return lower[-1].end_lineno or lower[-1].lineno, 1, 0
    if head:
        return head[0].lineno - 1, 0, 1
    first = tree.body[0] if tree.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.end_lineno or first.lineno, 1, 0
    at = 0
    while at < len(rows) and rows[at].startswith("#"):
        at += 1
    below = rows[at].strip() if at < len(rows) else ""
    return at, 1 if at else 0, (2 if below.startswith(("def ", "class ", "async ", "@")) else 1) if below else 0


def _import_of(tree: ast.Module, line: int, module: str, name: str) -> ast.ImportFrom | None:
    """The import of `name` at `line`; else one from a module whose last name part is the same."""
    last = module.rpartition(".")[2]
    found = [n for n in _imports(tree) if isinstance(n, ast.ImportFrom) and any(a.name == name for a in n.names)]
    at_line = [node for node in found if node.lineno <= line <= (node.end_lineno or node.lineno)]
    named = [node for node in found if (node.module or last).rpartition(".")[2] == last]
    return next(iter([*at_line, *named]), None)


def _without(rows: list[str], node: ast.ImportFrom, gone: ast.alias) -> list[str]:
    """The lines of an import with one of its names removed, and without line ends."""
    rows = [row.rstrip("\r\n") for row in rows]
    at = gone.lineno - node.lineno
    is_one_line = len(rows) == 1 and "(" not in rows[0]
    if not is_one_line and re.fullmatch(r"\s*[\w ]+,?\s*(#.*)?", rows[at]):
        return [*rows[:at], *rows[at + 1 :]]
    comment = re.search(r"\s*#.*$", rows[0]) if is_one_line else None
    kept = ", ".join(ast.unparse(alias) for alias in node.names if alias is not gone)
    return [f"{rows[0][: node.col_offset]}from {_source_of(node)} import {kept}{comment[0] if comment else ''}"]


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute) and (left := _dotted(node.value)):
        return f"{left}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _users(tree: ast.Module, name: str) -> list[Function | None]:
    """For each use, the outermost function whose body contains it."""
    holders: dict[ast.AST, Function] = {}
    for function in (node for node in ast.walk(tree) if isinstance(node, Function)):  # outer ones come first
        for statement in function.body:
            for node in ast.walk(statement):
                holders.setdefault(node, function)
    return [holders.get(node) for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
