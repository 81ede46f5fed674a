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

LONGEST = 88  # characters of an import line extended by a name
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


def parse(source: str) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def add(source: str, wanted: Import, own: Collection[str] = ()) -> str | None:
    """Add an import at the top of the module. `own` are the top-level names of the repository's modules."""
    tree = parse(source)
    if tree is None:
        return None
    head = list(_head(tree))
    for node in head:
        if wanted.text in _texts(node):
            return None
    rows, end = lines(source), "\r\n" if "\r\n" in source else "\n"
    for node in head:
        if isinstance(node, ast.ImportFrom) and wanted.name and _source_of(node) == wanted.module:
            row = rows[node.lineno - 1].rstrip("\r\n")
            if node.lineno == node.end_lineno and re.fullmatch(r"from [\w.]+ import [\w ,]+", row):
                names = [f"{a.name} as {a.asname}" if a.asname else a.name for a in node.names]
                new = f"{wanted.name} as {wanted.alias}" if wanted.alias else wanted.name
                at = next((n for n, name in enumerate(names) if _name_order(name) > _name_order(new)), len(names))
                longer = f"from {wanted.module} import {', '.join([*names[:at], new, *names[at:]])}"
                if len(longer) <= LONGEST:
                    return _checked("".join([*rows[: node.lineno - 1], longer + end, *rows[node.lineno :]]))
    at, before, after = _place(tree, head, wanted, own, rows)
    return _checked("".join([*rows[:at], *[end] * before, wanted.text + end, *[end] * after, *rows[at:]]))


def redirect(source: str, line: int, module: str, name: str, to: Import) -> str | None:
    """Take the `name` that `line` imports from `module` from elsewhere, under the same local name."""
    tree = parse(source)
    node = None if tree is None else _import_of(tree, line, module, name)
    if node is None:
        return None
    alias = next(alias for alias in node.names if alias.name == name)
    bound = alias.asname or name
    statement = Import(to.module, to.name, bound if bound != to.name else "").text
    rows, end = lines(source), "\r\n" if "\r\n" in source else "\n"
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    indent = rows[first][: node.col_offset]
    if indent.strip():
        return None  # after a semicolon
    if len(node.names) == 1:
        return _checked("".join([*rows[:first], f"{indent}{statement}{end}", *rows[last + 1 :]]))
    shorter = _without(rows[first : last + 1], node, alias)
    return _checked("".join([*rows[:first], *shorter, f"{indent}{statement}{end}", *rows[last + 1 :]]))


def rename_module(source: str, old: str, new: str) -> str | None:
    """Import `new` instead of `old`, under the names that the code uses."""
    tree = parse(source)
    if tree is None:
        return None
    rows = lines(source)
    for node in _imports(tree):
        first = node.lineno - 1
        if isinstance(node, ast.ImportFrom) and not node.level and node.module == old:
            rows[first] = re.sub(
                rf"\bfrom(\s+){re.escape(old)}(\s+)import\b", rf"from\g<1>{new}\g<2>import", rows[first], count=1
            )
        elif isinstance(node, ast.Import) and [a.name for a in node.names] == [old]:
            bound = node.names[0].asname or old
            if "." in bound:
                return None
            indent = rows[first][: node.col_offset]
            package, _, last = new.rpartition(".")
            statement = Import(package, last, bound if bound != last else "") if package else Import(new, alias=bound)
            rows[first] = f"{indent}{statement.text}" + ("\r\n" if rows[first].endswith("\r\n") else "\n")
    text = "".join(rows)
    return _checked(text) if text != source else None


def replace_attribute(source: str, module: str, name: str, new_module: str, own: Collection[str] = ()) -> str | None:
    """Replace `module.name` by `new_module.name` everywhere, and import the new module."""
    tree = parse(source)
    if tree is None:
        return None
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == name and _dotted(n.value) == module]
    rows = lines(source)
    for node in sorted(found, key=lambda n: (n.value.lineno, n.value.col_offset), reverse=True):
        value = node.value
        if value.end_lineno != value.lineno:
            return None
        row = rows[value.lineno - 1].encode()
        rows[value.lineno - 1] = (row[: value.col_offset] + new_module.encode() + row[value.end_col_offset :]).decode()
    text = "".join(rows)
    return None if not found else add(text, Import(new_module), own) or _checked(text)


def make_local(source: str, line: int, module: str, name: str) -> str | None:
    """The name is imported where functions use it and no more when the module loads, which breaks a circle of imports.

    Only where every use lies inside a function.
    """
    tree = parse(source)
    node = None if tree is None else _import_of(tree, line, module, name)
    if tree is None or node is None or node not in tree.body or len(node.names) != 1:
        return None
    bound = node.names[0].asname or name
    users: dict[int, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    for function, inside in _uses(tree, bound):
        if function is None or not inside:
            return None
        users[function.lineno] = function
    rows = lines(source)
    end = "\r\n" if "\r\n" in source else "\n"
    statement = "".join(rows[node.lineno - 1 : node.end_lineno]).strip()
    if not users or "\n" in statement:
        return None
    for function in sorted(users.values(), key=lambda f: f.lineno, reverse=True):
        body = function.body
        has_docstring = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and len(body) > 1
        at = body[1 if has_docstring else 0]
        if at.lineno == function.lineno or rows[at.lineno - 1][: at.col_offset].strip():
            return None
        above = min([at.lineno, *(d.lineno for d in getattr(at, "decorator_list", []))])
        rows.insert(above - 1, f"{rows[at.lineno - 1][: at.col_offset]}{statement}{end}")
    del rows[node.lineno - 1 : node.end_lineno]
    text = "".join(rows)
    return _checked(text.lstrip("\r\n") if node is tree.body[0] else text)


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
    """The attributes read from a name."""
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
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
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
    """How many lines stay above the import, and how many blank lines go before and after it."""

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
    """The import of `name` at `line`; if none is there, one from a module with the same last name."""
    last = module.rpartition(".")[2]
    found = [n for n in _imports(tree) if isinstance(n, ast.ImportFrom) and any(a.name == name for a in n.names)]
    at_line = [node for node in found if node.lineno <= line <= (node.end_lineno or node.lineno)]
    named = [node for node in found if (node.module or last).rpartition(".")[2] == last]
    return next(iter([*at_line, *named]), None)


def _without(rows: list[str], node: ast.ImportFrom, gone: ast.alias) -> list[str]:
    """The lines of an import without one of its names."""
    text = "".join(rows)
    kept = [f"{a.name} as {a.asname}" if a.asname else a.name for a in node.names if a is not gone]
    end = "\r\n" if "\r\n" in text else "\n"
    if len(rows) == 1 and "(" not in text:
        comment = re.search(r"\s*#.*$", text.rstrip("\r\n"))
        return [
            f"{text[: node.col_offset]}from {_source_of(node)} import {', '.join(kept)}{comment[0] if comment else ''}{end}"
        ]
    own_row = rows[gone.lineno - node.lineno]
    if re.fullmatch(r"\s*[\w ]+,?\s*(#.*)?", own_row.rstrip("\r\n")):
        return [row for row in rows if row is not own_row]
    return [f"{text[: node.col_offset]}from {_source_of(node)} import {', '.join(kept)}{end}"]


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute) and (left := _dotted(node.value)):
        return f"{left}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _uses(tree: ast.Module, name: str) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef | None, bool]]:
    """Each use: the outermost function around it, and whether it lies in the function's body."""

    def walk(
        node: ast.AST, function: ast.FunctionDef | ast.AsyncFunctionDef | None, inside: bool
    ) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef | None, bool]]:
        if isinstance(node, ast.Name) and node.id == name:
            yield function, inside
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST):
                    continue
                if function is None and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from walk(child, node if field == "body" else None, field == "body")
                else:
                    yield from walk(child, function, inside)

    yield from walk(tree, None, False)
