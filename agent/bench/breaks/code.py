"""One function of a module, as the operators see it: its nodes, the names around it, and edits of the module's text. Pure."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from agent.source import syntax

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes `start` to `end` of the module's UTF-8 text become `new`. `line` counts from 1."""

    line: int
    start: int
    end: int
    new: str


@dataclass(frozen=True)
class ParsedModule:
    """The text of a Python module and its syntax tree."""

    text: str
    tree: ast.Module

    @cached_property
    def data(self) -> bytes:
        return self.text.encode()

    @cached_property
    def starts(self) -> list[int]:
        """The offset of each line."""
        starts = [0]
        for line in self.data.split(b"\n"):
            starts.append(starts[-1] + len(line) + 1)
        return starts

    @cached_property
    def keys(self) -> dict[str, list[str]]:
        """The literal keys that the module uses, by the text of what they are looked up in; "" holds all of them."""
        found: dict[str, list[str]] = {"": []}
        for node in ast.walk(self.tree):
            for where, key in _keys(node):
                for name in ("", where):
                    found.setdefault(name, []).append(key)
        return {name: list(dict.fromkeys(keys)) for name, keys in found.items()}

    @cached_property
    def exceptions(self) -> list[str]:
        """The names that the module raises or catches."""
        names = []
        for node in ast.walk(self.tree):
            raised = node.exc if isinstance(node, ast.Raise) else node.type if isinstance(node, ast.ExceptHandler) else None
            raised = raised.func if isinstance(raised, ast.Call) else raised
            for one in raised.elts if isinstance(raised, ast.Tuple) else [raised]:
                if isinstance(one, ast.Name) and one.id[:1].isupper():
                    names.append(one.id)
        return list(dict.fromkeys(names))

    def functions(self) -> Iterator[Code]:
        """Every function, also those inside classes and functions."""
        yield from self._below(self.tree, "", None)

    def _below(self, node: ast.AST, prefix: str, owner: ast.ClassDef | None) -> Iterator[Code]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function):
                yield Code(self, child, f"{prefix}{child.name}", owner)
                yield from self._below(child, f"{prefix}{child.name}.", owner)
            elif isinstance(child, ast.ClassDef):
                yield from self._below(child, f"{prefix}{child.name}.", child)
            else:
                yield from self._below(child, prefix, owner)


@dataclass(frozen=True)
class Code:
    """One function. `owner` is the class of its `self`."""

    module: ParsedModule
    node: Function
    name: str  # qualified: "Class.method"
    owner: ast.ClassDef | None = None

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """The nodes of its body and its defaults, without those of inner functions and of annotations."""
        found: list[ast.AST] = []
        waiting: list[ast.AST] = [self.node.args, *self.node.body]
        while waiting:
            node = waiting.pop(0)
            found.append(node)
            if not isinstance(node, Function | ast.ClassDef):
                waiting += [child for name, child in _children(node) if name not in ("annotation", "returns")]
        return found

    @cached_property
    def bodies(self) -> list[Sequence[ast.stmt]]:
        """Every list of statements, its own first."""
        lists: list[Sequence[ast.stmt]] = [self.node.body]
        for node in self.nodes:
            if not isinstance(node, Function | ast.ClassDef):
                lists += [
                    part for name in ("body", "orelse", "finalbody") if isinstance(part := getattr(node, name, None), list)
                ]
        return [part for part in lists if part]

    @cached_property
    def parameters(self) -> list[str]:
        args = self.node.args
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        return [arg.arg for arg in every if arg.arg not in ("self", "cls")]

    @cached_property
    def bound(self) -> dict[str, int]:
        """Its variables, with the line from which they have a value."""
        lines = dict.fromkeys(self.parameters, self.node.lineno)
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                lines[node.id] = min(lines.get(node.id, node.lineno), node.lineno)
        return lines

    def source(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.module.data[start:end].decode()

    def span(self, node: ast.AST) -> tuple[int, int]:
        where = _Placed(node)
        starts = self.module.starts
        return starts[where.first - 1] + where.column, starts[where.last - 1] + where.end

    def replaced(self, node: ast.AST, new: str) -> Edit:
        start, end = self.span(node)
        return Edit(_Placed(node).first, start, end, new)

    def between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> Iterator[Edit]:
        """Replace the only `old` in the text between two nodes, such as an operator."""
        start, end = self.span(left)[1], self.span(right)[0]
        gap = self.module.data[start:end]
        if gap.count(old.encode()) == 1 and b"#" not in gap:
            at = start + gap.index(old.encode())
            line = self.module.data[:at].count(b"\n") + 1
            yield Edit(line, at, at + len(old.encode()), new)

    def without_lines(self, first: int, last: int, new: str = "") -> Edit:
        return Edit(first, self.module.starts[first - 1], min(self.module.starts[last], len(self.module.data)), new)

    def without(self, body: Sequence[ast.stmt], statement: ast.stmt) -> Iterator[Edit]:
        """The statement removed with its lines; `pass` stands for the only one of a body."""
        first, last = statement.lineno, statement.end_lineno or statement.lineno
        start, end = self.module.starts[first - 1], self.module.starts[last]
        alone = self.module.data[start:end].strip().rstrip(b"\\") and not any(
            other is not statement and other.lineno <= last and (other.end_lineno or 0) >= first for other in body
        )
        indented = not self.module.data[start : start + statement.col_offset].strip()
        if not (alone and indented):
            return
        if len([one for one in body if not _is_docstring(one)]) > 1:
            yield self.without_lines(first, last)
        elif body is not self.node.body:
            yield self.replaced(statement, "pass")


class _Placed:
    """A node's place: lines from 1, columns in bytes."""

    def __init__(self, node: ast.AST) -> None:
        assert isinstance(node, ast.expr | ast.stmt | ast.excepthandler | ast.keyword | ast.arg)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        self.first, self.column, self.last, self.end = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def read(text: str) -> ParsedModule | None:
    """None if it is not Python, or is nested too deeply."""
    try:
        return ParsedModule(text, syntax.tree(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def nearest(name: str, others: Iterable[str], least: float = 0.0) -> str | None:
    """The name that is most easily taken for this one; None if no other is at least so similar (0..1)."""
    known = [(difflib.SequenceMatcher(None, name, other).ratio(), other) for other in dict.fromkeys(others) if other != name]
    similarity, other = max(known, key=lambda pair: pair[0], default=(0.0, ""))
    return other if other and similarity >= least else None


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield name, child


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _keys(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Subscript):
        yield from ((ast.unparse(node.value), key) for key in literal(node.slice))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop", "setdefault"):
        yield from ((ast.unparse(node.func.value), key) for arg in node.args[:1] for key in literal(arg))
    elif isinstance(node, ast.Dict):
        yield from (("", key) for each in node.keys if each is not None for key in literal(each))


def literal(node: ast.expr) -> list[str]:
    """The text of a literal string that looks like a key."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) < 40:
        return [node.value]
    return []
