"""One file's text and its syntax tree, with matching positions. Knows nothing about patterns, tests or sandboxes.

The text is hostile: whatever Python's parser cannot read within bounds is `Unreadable`.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeVar, cast

from agent.source import syntax

LIMIT = 512 * 1024  # characters of one file
DEPTH = 100  # levels of nested nodes
_LINE_END = re.compile("\r\n|\r|\n")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Positioned = ast.expr | ast.stmt | ast.keyword | ast.arg
N = TypeVar("N", bound=ast.AST)
T = TypeVar("T")


class Unreadable(Exception):
    """The text cannot be searched as Python; the message is a clause with the reason."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Replace text[start:end]; offsets count characters. `prior` is 0..1: how likely this kind of change is to be the fix."""

    start: int
    end: int
    text: str
    title: str
    prior: float
    names: tuple[str, str] | None = None  # a replaced variable: its name before and after
    wants: tuple[str, tuple[str, ...]] | None = None  # a variable, and the names of the types to which the change applies

    def apply(self, text: str) -> str:
        return text[: self.start] + self.text + text[self.end :]


@dataclass(frozen=True)
class Source:
    """Text and tree of one file. Use `Source.read`."""

    path: str
    text: str
    tree: ast.Module
    parents: dict[ast.AST, ast.AST] = field(repr=False)
    words: tuple[str, ...] = field(default=(), repr=False)  # string literals in the failing tests' files
    lost: tuple[str, ...] = ()  # methods that the failures show to be missing somewhere
    known: dict[tuple[Callable[..., object], ast.AST], object] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, path: str, text: str, words: tuple[str, ...] = (), lost: tuple[str, ...] = ()) -> Source:
        """Raises `Unreadable`."""
        if len(text) > LIMIT:
            raise Unreadable(f"it is longer than {LIMIT // 1024} KiB")
        try:
            tree = syntax.tree(text.removeprefix("\ufeff"))
            parents: dict[ast.AST, ast.AST] = {}
            level: list[ast.AST] = [tree]
            for _ in range(DEPTH):
                level_below: list[ast.AST] = []
                for node in level:
                    for child in ast.iter_child_nodes(node):
                        parents[child] = node
                        level_below.append(child)
                level = level_below
            if level:
                raise Unreadable("it is nested too deeply")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise Unreadable(f"Python cannot parse it ({type(error).__name__})") from error
        return cls(path, text, tree, parents, words, lost)

    @cached_property
    def _lines(self) -> list[tuple[int, bytes | None]]:
        """Offset of each line's first character, and the line's bytes if it is not ASCII."""
        ends = [m.end() for m in _LINE_END.finditer(self.text)]
        starts = [1 if self.text.startswith("\ufeff") else 0, *ends]
        lines = [self.text[a:b] for a, b in zip(starts, [*ends, len(self.text)], strict=True)]
        return [(start, None if line.isascii() else line.encode()) for start, line in zip(starts, lines, strict=True)]

    def offset(self, line: int, column: int) -> int:
        """Python's (line from 1, column in UTF-8 bytes) as an offset in characters."""
        start, encoded = self._lines[line - 1]
        return start + (column if encoded is None else len(encoded[:column].decode(errors="replace")))

    def span(self, node: Positioned) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)

    def segment(self, node: Positioned) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around this one, innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def inside(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes below this one, without those in f-strings: before Python 3.12 they have no positions."""
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.JoinedStr):
                yield child
                yield from self.inside(child)

    def function(self, node: ast.AST) -> FunctionNode | None:
        """The innermost function around the node."""
        return next((n for n in self.above(node) if isinstance(n, FunctionNode)), None)

    def outermost_function(self, node: ast.AST) -> FunctionNode | None:
        functions = [n for n in (node, *self.above(node)) if isinstance(n, FunctionNode)]
        return functions[-1] if functions else None

    def qualified_name(self, node: ast.AST) -> str:
        """ "Class.method" around (or of) the node; empty at module level."""
        around = [n.name for n in (node, *self.above(node)) if isinstance(n, FunctionNode | ast.ClassDef)]
        return ".".join(reversed(around))

    def indent(self, node: ast.stmt) -> str:
        """The text before the statement on its line."""
        return self.text[self.offset(node.lineno, 0) : self.span(node)[0]]

    def has_own_lines(self, node: ast.stmt) -> bool:
        """Is nothing else on the lines of the statement, except a comment? False for decorated definitions."""
        end = self.span(node)[1]
        newline = self.text.find("\n", end)
        rest = self.text[end : newline if newline >= 0 else None].strip()
        is_decorated = bool(getattr(node, "decorator_list", None))
        return not is_decorated and not self.indent(node).strip() and (not rest or rest.startswith("#"))

    def has_own_line(self, node: ast.stmt) -> bool:
        return self.has_own_lines(node) and "\n" not in self.segment(node)

    def is_elif(self, node: ast.If) -> bool:
        return self.text.startswith("elif", self.span(node)[0])

    def block(self, node: ast.stmt) -> tuple[list[ast.stmt], int]:
        """The block that contains the statement, and its index there."""
        for name in ("body", "orelse", "finalbody"):
            block = getattr(self.parents[node], name, None)
            if isinstance(block, list) and node in block:
                return block, block.index(node)
        return [node], 0

    def laid_out(self, node: ast.stmt, template: str, *values: str) -> str:
        """A template filled with values: newlines as in the file, lines indented like the node, a tab one level deeper."""
        space = self.indent(node)
        newline = "\r\n" if "\r\n" in self.text[:4000] else "\n"
        deeper = "\t" if space.endswith("\t") else "    "
        return template.replace("\t", deeper).replace("\n", newline + space).format(*values)

    def put_before(self, node: ast.stmt, text: str, title: str, prior: float) -> Rewrite:
        """A statement on a line of its own above the node, indented like it."""
        start, _ = self.span(node)
        return Rewrite(start, start, self.laid_out(node, "{}\n", text), title, prior)

    def put_behind(self, node: ast.stmt, text: str, title: str, prior: float) -> Rewrite:
        _, end = self.span(node)
        return Rewrite(end, end, self.laid_out(node, "\n{}", text), title, prior)

    def once(self, facts: Callable[[Source, N], T], node: N) -> T:
        """`facts(self, node)`, computed once per node."""
        key = (facts, node)
        if key not in self.known:
            self.known[key] = facts(self, node)
        return cast(T, self.known[key])

    def replaced(self, node: Positioned, text: str, prior: float, *, title: str = "", compound: bool = False) -> Rewrite:
        """The node replaced by a text; a `compound` text gets parentheses if it might parse differently without them."""
        start, end = self.span(node)
        title = title or quoted(self.text[start:end], text)
        if compound and not self._stands_alone(node, "," in text):
            text = f"({text})"
        return Rewrite(start, end, text, title, prior)

    def exchanged(self, one: Positioned, other: Positioned, title: str, prior: float) -> Iterator[Rewrite]:
        """Swaps two nodes; the second comes after the first."""
        (a, b), (c, d) = self.span(one), self.span(other)
        if self.text[a:b] != self.text[c:d]:
            yield self.together([(a, b, self.text[c:d]), (c, d, self.text[a:b])], title, prior)

    def together(self, parts: Iterable[tuple[int, int, str]], title: str, prior: float) -> Rewrite:
        """Several replacements (start, end, new text) that do not overlap, as one change."""
        ordered = sorted(parts)
        begin = position = ordered[0][0]
        text = ""
        for start, end, new in ordered:
            text += self.text[position:start] + new
            position = end
        return Rewrite(begin, position, text, title, prior)

    def _stands_alone(self, node: Positioned, has_comma: bool) -> bool:
        parent = self.parents[node]
        if isinstance(parent, ast.Tuple | ast.List | ast.Set):
            return not has_comma
        if isinstance(parent, ast.Call):
            return node is not parent.func
        if isinstance(parent, ast.Subscript):
            return node is parent.slice
        if isinstance(parent, ast.comprehension):
            return False
        statements = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.If | ast.While | ast.Expr
        return isinstance(parent, statements | ast.keyword | ast.Slice)


ATOMS = (
    ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.Subscript, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp,
    ast.SetComp, ast.JoinedStr,
)  # fmt: skip


def is_compound(node: ast.expr) -> bool:
    """Might its text need parentheses in another context?"""
    return not isinstance(node, ATOMS) or (
        isinstance(node, ast.Constant) and not isinstance(node.value, str | bytes | int | float)
    )


def plain(source: Source, node: ast.expr) -> str:
    """Its text as an operand, in parentheses if it might need them."""
    return f"({source.segment(node)})" if is_compound(node) else source.segment(node)


def names_in(tree: ast.AST) -> list[str]:
    """The names in the tree, each once."""
    return list(dict.fromkeys(n.id for n in ast.walk(tree) if isinstance(n, ast.Name)))


def parameters(function: FunctionNode | ast.Lambda) -> list[str]:
    """Those with a name of their own that a caller gives, in order, without `self`, `cls` and `_`."""
    return [each.arg for each in arguments(function) if each.arg not in ("self", "cls", "_")]


def arguments(function: FunctionNode | ast.Lambda) -> list[ast.arg]:
    """In order, without `*` and `**`."""
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def unread(source: Source, function: FunctionNode | ast.Lambda) -> list[str]:
    """Parameters, and variables assigned by themselves, that the body never reads: perhaps somebody forgot to."""
    body = function.body if isinstance(function.body, list) else [function.body]
    nodes = [node for part in body for node in ast.walk(part)]
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    local = sorted(assigned(function)) if isinstance(function, FunctionNode) else []
    return [name for name in dict.fromkeys([*parameters(function), *local]) if name not in read and not name.startswith("_")]


def assigned(function: FunctionNode) -> set[str]:
    """The function's own variables that are assigned by themselves, as in `total = 0`."""
    found, outside = set[str](), set[str]()
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                found.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                outside.update(names)
    return found - outside


def called_name(node: ast.Call) -> str:
    """The name of the called function or method, without its owner; "" for another expression."""
    return node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""


def first_statement(source: Source, node: ast.AST) -> ast.stmt | None:
    """A function's first statement after the docstring; None if it shares a line with other code."""
    if not isinstance(node, FunctionNode):
        return None
    body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    return body[0] if body and body[0].lineno > node.lineno and source.has_own_lines(body[0]) else None


def each_of(node: ast.expr) -> list[ast.expr]:
    """The parts of a tuple, such as types or exceptions; anything else alone."""
    return node.elts if isinstance(node, ast.Tuple) else [node]


def has_place(source: Source, node: ast.expr) -> bool:
    """Does an expression in an f-string stand where its position says? Some Pythons before 3.12 give others."""
    try:
        return ast.dump(syntax.expression(f"({source.segment(node)})").body) == ast.dump(node)
    except (SyntaxError, ValueError, IndexError, RecursionError):
        return False


@lru_cache(maxsize=10_000)
def likeness(one: str, other: str) -> float:
    """How alike two names are, from 0 to 1."""
    return difflib.SequenceMatcher(None, one, other).ratio()


def short(text: str, limit: int = 40) -> str:
    """Code shortened for a title: one line of at most `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def quoted(before: str, after: str) -> str:
    return f"`{short(before)}` becomes `{short(after)}`"
