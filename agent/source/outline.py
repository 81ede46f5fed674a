"""One Python module as an outline: its definitions, their signatures, its imports and calls. Pure, and never raises.

The outline of a text that does not parse as Python is empty.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from agent.source import syntax

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or a class. Lines count from 1, both ends included, decorators too."""

    name: str  # qualified: "Class.method"
    first: int
    last: int
    node: Function | ast.ClassDef

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    @property
    def signature(self) -> str:
        if isinstance(self.node, ast.ClassDef):
            return f"class {self.node.name}({', '.join(ast.unparse(base) for base in self.node.bases)}): ..."
        prefix = "async def" if isinstance(self.node, ast.AsyncFunctionDef) else "def"
        returns = f" -> {ast.unparse(self.node.returns)}" if self.node.returns else ""
        return f"{prefix} {self.node.name}({ast.unparse(self.node.args)}){returns}: ..."

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.node) or ""

    @property
    def mentions(self) -> frozenset[str]:
        """Every name and attribute in its code."""
        return names_of(self.node)


@dataclass(frozen=True, slots=True)
class Constant:
    """A value to which a module or a class gives a name. Lines count from 1, both ends included."""

    name: str  # qualified: "Class.NAME"
    first: int
    last: int
    value: ast.expr | None


def parse(text: str) -> ast.Module | None:
    """The tree of an untrusted text; None if it is not Python, or is nested too deeply."""
    try:
        return syntax.tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def first_line(node: ast.stmt) -> int:
    """The first line of a statement or its decorators, from 1."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


class Module:
    """A file's text and its outline."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.lines = path, text.split("\n")
        self._tree = parse(text) or ast.Module(body=[], type_ignores=[])
        self.definitions = tuple(_definitions(self._tree, ""))
        self.constants = tuple(_constants(self._tree, ""))
        self._imports: list[tuple[str, str]] | None = None
        self._calls: dict[str, list[int]] | None = None

    @property
    def begins(self) -> int:
        """The line of the first statement after the licence and the docstring."""
        body = self._tree.body[1:] if ast.get_docstring(self._tree) is not None else self._tree.body
        return body[0].lineno if body else 1

    def text(self, first: int, last: int) -> str:
        return "\n".join(self.lines[first - 1 : last])

    def around(self, line: int, last: int | None = None) -> Definition | None:
        """The innermost function that contains these lines; else the innermost class."""
        holding = [each for each in self.definitions if each.first <= line and (last or line) <= each.last]
        return min(holding, key=lambda each: (each.is_class, each.last - each.first), default=None)

    def named(self, name: str) -> Definition | None:
        """The definition with this qualified name; else the only one with this last name part."""
        exact = [each for each in self.definitions if each.name == name]
        alike = [each for each in self.definitions if each.name.rpartition(".")[2] == name]
        return exact[0] if exact else alike[0] if len(alike) == 1 else None

    def imports(self) -> list[tuple[str, str]]:
        """(module, name) of each import; the name is "" for `import module`. Relative ones are resolved by the path."""
        if self._imports is None:
            found = []
            for node in ast.walk(self._tree):
                if isinstance(node, ast.Import):
                    found += [(alias.name, "") for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    found += [(self._absolute(node), alias.name) for alias in node.names]
            self._imports = list(dict.fromkeys(found))
        return self._imports

    def import_lines(self) -> list[int]:
        """The lines of its module-level imports."""
        imports = (node for node in self._tree.body if isinstance(node, ast.Import | ast.ImportFrom))
        return [line for node in imports for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)]

    def calls(self, name: str) -> list[int]:
        """The lines that call a function or method of this name."""
        if self._calls is None:
            self._calls = {}
            for node in ast.walk(self._tree):
                if isinstance(node, ast.Call) and (own := getattr(node.func, "attr", getattr(node.func, "id", ""))):
                    self._calls.setdefault(own, []).append(node.func.end_lineno or node.lineno)
        return sorted(set(self._calls.get(name, ())))

    def bases(self, name: str) -> list[str]:
        """The names of the base classes of the class with this name."""
        found = self.named(name)
        return (
            [ast.unparse(base).rpartition(".")[2] for base in found.node.bases]
            if found and isinstance(found.node, ast.ClassDef)
            else []
        )

    def imported(self, names: frozenset[str]) -> list[str]:
        """Its module-level imports, reduced to these names, one line per module."""
        told: dict[str, list[str]] = {}
        for node in self._tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                start = f"from {'.' * node.level}{node.module or ''} import " if isinstance(node, ast.ImportFrom) else "import "
                used = [alias for alias in node.names if (alias.asname or alias.name).partition(".")[0] in names]
                if used:
                    told.setdefault(start, []).extend(ast.unparse(alias) for alias in used)
        return [start + ", ".join(dict.fromkeys(parts)) for start, parts in told.items()]

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.path.split("/")[: -node.level]
        return ".".join([*package, *([node.module] if node.module else [])])


def changed(before: Module, after: Module) -> list[Definition]:
    """The functions of `after` whose text differs in `before`, without new ones; of nested functions only the outermost."""
    known: dict[str, set[str]] = {}  # functions of one name are overloads, or are in branches
    for each in before.definitions:
        known.setdefault(each.name, set()).add(before.text(each.first, each.last))
    found: list[Definition] = []
    for each in after.definitions:  # an outer definition comes before those inside it
        is_changed = each.name in known and after.text(each.first, each.last) not in known[each.name]
        if not each.is_class and is_changed and not any(one.first <= each.first <= one.last for one in found):
            found.append(each)
    return found


def _definitions(tree: ast.AST, prefix: str) -> Iterator[Definition]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function | ast.ClassDef):
            yield Definition(prefix + node.name, first_line(node), node.end_lineno or node.lineno, node)
            yield from _definitions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _definitions(node, prefix)


def _constants(tree: ast.AST, prefix: str) -> Iterator[Constant]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for name in (each.id for each in ast.walk(target) if isinstance(each, ast.Name)):
                    yield Constant(prefix + name, node.lineno, node.end_lineno or node.lineno, node.value)
        elif isinstance(node, ast.ClassDef):
            yield from _constants(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _constants(node, prefix)


def names_of(tree: ast.AST) -> frozenset[str]:
    """Every name and attribute in the tree."""
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return frozenset(found | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)})
