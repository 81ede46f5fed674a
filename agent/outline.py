"""One Python module as an outline: its definitions, their signatures, what it imports and mentions. Pure, and never raises.

Where a text is not Python that parses, there is nothing in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef
LONGEST_VALUE = 160  # characters of a constant's value


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
        """Every name and attribute in it."""
        return _names(self.node)


class Module:
    """A file's text and its outline."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.lines = path, text.split("\n")
        try:
            self._tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._tree = ast.Module(body=[], type_ignores=[])
        self.definitions = tuple(_definitions(self._tree, ""))

    def text(self, first: int, last: int) -> str:
        return "\n".join(self.lines[first - 1 : last])

    def around(self, line: int, last: int | None = None) -> Definition | None:
        """The innermost function that holds these lines; else the innermost class."""
        holding = [each for each in self.definitions if each.first <= line and (last or line) <= each.last]
        return min(holding, key=lambda each: (each.is_class, each.last - each.first), default=None)

    def named(self, name: str) -> Definition | None:
        """By its qualified name, or by its own where that is unique."""
        exact = [each for each in self.definitions if each.name == name]
        alike = [each for each in self.definitions if each.name.rpartition(".")[2] == name]
        return exact[0] if exact else alike[0] if len(alike) == 1 else None

    def imports(self) -> list[tuple[str, str]]:
        """(module, name) of what it imports; the name is "" for `import module`. Relative ones are resolved by its path."""
        found = []
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import):
                found += [(alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found += [(self._absolute(node), alias.name) for alias in node.names]
        return list(dict.fromkeys(found))

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        package = self.path.split("/")[: -node.level]
        return ".".join([*package, *([node.module] if node.module else [])])

    def related(self, names: frozenset[str], hidden: frozenset[str]) -> list[str]:
        """Its imports, constants and signatures that have to do with `names`, without the definitions in `hidden`."""
        out = []
        for node in self._tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                if any((alias.asname or alias.name).partition(".")[0] in names for alias in node.names):
                    out.append(ast.unparse(node))
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(target, ast.Name) and target.id in names for target in targets):
                    text = self.text(node.lineno, node.end_lineno or node.lineno)  # as it is: it may have to be replaced
                    out.append(text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + " …")
        for each in self.definitions:
            own = each.name.rpartition(".")[2]
            is_bare = isinstance(each.node, ast.ClassDef) and not each.node.bases  # its name alone says nothing
            if own in names and each.name not in hidden and not is_bare:
                depth = each.name.count(".")
                out.append(each.signature if not depth else f"{each.signature}  # {each.name}")
        return out


def changed(before: Module, after: Module) -> list[Definition]:
    """The functions of `after` that `before` has too, with another text; of those inside each other the outermost."""
    known = {each.name: before.text(each.first, each.last) for each in before.definitions}
    found: list[Definition] = []
    for each in after.definitions:  # an outer one comes before what it holds
        is_new = known.get(each.name) in (None, after.text(each.first, each.last))
        if not each.is_class and not is_new and not any(one.first <= each.first <= one.last for one in found):
            found.append(each)
    return found


def _definitions(tree: ast.AST, prefix: str) -> Iterator[Definition]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield Definition(prefix + node.name, first, node.end_lineno or node.lineno, node)
            yield from _definitions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _definitions(node, prefix)


def _names(tree: ast.AST) -> frozenset[str]:
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return frozenset(found | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)})
