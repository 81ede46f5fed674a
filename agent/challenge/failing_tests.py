"""The source of the failing tests with what they use: imports, fixtures, set-up, attributes, helpers. Pure.

It shows a model that writes more tests how the code is used, so every line is verbatim.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent.challenge.specification import body_of, comments_above, cut
from agent.contract.verdicts import VerdictId
from agent.source.outline import Function, first_line

MOST = 5  # tests
LONGEST = 2_400  # characters of all
LONGEST_USED = 700  # characters of one thing that they use
_SET_UP = frozenset({"setUp", "asyncSetUp", "setUpClass", "setup_method", "setup_class", "setup_function", "setup_module"})

Holder = ast.ClassDef | None  # None: the module


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
        """Including its arguments, which name fixtures."""
        nodes = list(ast.walk(self.node))
        return {node.id for node in nodes if isinstance(node, ast.Name)} | {n.arg for n in nodes if isinstance(n, ast.arg)}

    @property
    def members_used(self) -> set[str]:
        attributes = {node.attr for node in ast.walk(self.node) if isinstance(node, ast.Attribute)}
        return attributes | {node.arg for node in ast.walk(self.node) if isinstance(node, ast.arg)}


def failing_tests(texts: Mapping[str, str], red: Sequence[VerdictId]) -> str:
    """`texts` are the files of these tests, by path. What does not fit is dropped, tests last."""
    shown = [_excerpt(path, text, [name for name in red if name.startswith(path + "::")]) for path, text in texts.items()]
    return cut("\n\n".join(each for each in shown if each), LONGEST)


def _excerpt(path: str, text: str, red: Sequence[VerdictId]) -> str:
    lines = text.removeprefix("\ufeff").split("\n")
    parts = list(_parts(body_of(text), None, lines))
    names = dict.fromkeys(name.partition("::")[2].partition("[")[0].replace("::", ".") for name in red)
    tests = [part for name in names if (part := _named(parts, name)) is not None]
    shown, room = tests[:1], LONGEST - sum(len(part.source) for part in tests[:1])
    for part in [*_used_by(parts, tests[:1]), *tests[1:MOST], *_used_by(parts, tests[:MOST])]:
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
    """What the module and its classes define, in order; classes through their members."""
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
    """By class and name; else the only one of that name, as it may be inherited."""
    same_name = [part for part in parts if part.names == (name.rpartition(".")[2],)]
    owner = name.rpartition(".")[0].rpartition(".")[2]
    exact = [part for part in same_name if (part.holder.name if part.holder else "") == owner]
    return exact[0] if exact else same_name[0] if len(same_name) == 1 else None


def _used_by(parts: Sequence[_Part], tests: Sequence[_Part]) -> list[_Part]:
    """What the tests use, directly and indirectly, nearest first: from their classes, base classes and module."""
    found = list(tests)
    for part in found:  # grows meanwhile
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
    """In the order of the file, each in its class."""
    holder: Holder = None
    for part in (part for part in parts if part in shown):
        if part.holder is not None and part.holder is not holder:
            bases = ", ".join(ast.unparse(base) for base in part.holder.bases)
            yield f"class {part.holder.name}{f'({bases})' if bases else ''}:\n{part.source}"
        else:
            yield part.source
        holder = part.holder
