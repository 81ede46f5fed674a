"""What a test uses of its own file: set-up, fixtures, helpers and constants. Pure."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.source.outline import Function, first_line, parse

_SET_UP = frozenset({"setUp", "asyncSetUp", "setUpClass", "setup_method", "setup_class", "setup_function", "setup_module"})

Holder = ast.ClassDef | None  # None: the module


def body_of(text: str) -> list[ast.stmt]:
    """The statements of a module; none if it does not parse."""
    tree = parse(text.removeprefix("\ufeff"))
    return tree.body if tree else []


def comments_above(lines: Sequence[str], number: int) -> list[str]:
    """The whole-line comments directly above line `number`, counted from 1."""
    above = list(itertools.takewhile(lambda line: line.lstrip().startswith("#"), reversed(lines[: number - 1])))
    return above[::-1]


@dataclass(frozen=True, slots=True)
class Part:
    """A function or an assignment of a test's file. Lines count from 1, both ends included, with the comments above it."""

    holder: Holder
    names: tuple[str, ...]
    node: ast.stmt
    first: int
    last: int
    source: str

    @property
    def runs_unasked(self) -> bool:
        return bool(_SET_UP.intersection(self.names)) or any(
            "autouse=True" in ast.unparse(each) for each in getattr(self.node, "decorator_list", ())
        )

    @property
    def arguments(self) -> set[str]:
        """Of a function; those of a test name its fixtures."""
        nodes = ast.walk(self.node.args) if isinstance(self.node, Function) else ()
        return {each.arg for each in nodes if isinstance(each, ast.arg)}

    @property
    def names_used(self) -> set[str]:
        """The names that it uses, including its arguments, which name fixtures."""
        nodes = list(ast.walk(self.node))
        return {node.id for node in nodes if isinstance(node, ast.Name)} | {n.arg for n in nodes if isinstance(n, ast.arg)}

    @property
    def members_used(self) -> set[str]:
        attributes = {node.attr for node in ast.walk(self.node) if isinstance(node, ast.Attribute)}
        return attributes | {node.arg for node in ast.walk(self.node) if isinstance(node, ast.arg)}


def parts_of(text: str) -> list[Part]:
    """The definitions in a module and its classes, in order; classes only through their members."""
    return list(_parts(body_of(text), None, text.removeprefix("\ufeff").split("\n")))


def _parts(body: Sequence[ast.stmt], holder: Holder, lines: Sequence[str]) -> Iterator[Part]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _parts(node.body, node, lines)
        elif names := _defined(node):
            first = first_line(node)
            first -= len(comments_above(lines, first))
            last = node.end_lineno or first
            yield Part(holder, names, node, first, last, "\n".join(lines[first - 1 : last]))


def _defined(node: ast.stmt) -> tuple[str, ...]:
    if isinstance(node, Function):
        return (node.name,)
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return tuple(each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def named(parts: Sequence[Part], name: str) -> Part | None:
    """The part with this class and name; else the only one of that name, since it may be inherited."""
    same_name = [part for part in parts if part.names == (name.rpartition(".")[2],)]
    owner = name.rpartition(".")[0].rpartition(".")[2]
    exact = [part for part in same_name if (part.holder.name if part.holder else "") == owner]
    return exact[0] if exact else same_name[0] if len(same_name) == 1 else None


def used_by(parts: Sequence[Part], tests: Sequence[Part]) -> list[Part]:
    """The parts that the tests use, directly or not, nearest first: from their classes, base classes and module."""
    found = list(tests)
    for part in found:  # the list grows during the loop
        near = {None, part.holder, *_bases(parts, part.holder)}
        names, members = part.names_used, part.members_used
        for each in (each for each in parts if each.holder in near and each not in found):
            if each.runs_unasked or (members if each.holder else names).intersection(each.names):
                found.append(each)
    return [part for part in found if part not in tests and not part.names[0].startswith("test")]


def _bases(parts: Sequence[Part], holder: Holder) -> set[Holder]:
    names = bases_of(holder)
    return {part.holder for part in parts if part.holder and part.holder.name in names}


def bases_of(holder: Holder) -> set[str]:
    """The names of the base classes and of their modules."""
    return {part for base in (holder.bases if holder else ()) for part in ast.unparse(base).split(".")}
