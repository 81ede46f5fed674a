"""The realistic breaks of one module: slips of a tired developer, whatever a search may find easy to repair."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from agent.bench.breaks import expressions, names, statements
from agent.bench.breaks.code import Code, Edit, read

Operator = Callable[[Code], Iterator[Edit]]

OPERATORS: Mapping[str, Operator] = {
    "missing return": statements.missing_return,
    "removed branch": statements.removed_branch,
    "missing check": statements.missing_check,
    "dropped call": statements.dropped_call,
    "missing assignment": statements.missing_assignment,
    "moved statement": statements.moved_statement,
    "early return": statements.early_return,
    "wrong jump": statements.wrong_jump,
    "= for +=": statements.plain_assignment,
    "negated condition": expressions.negated_condition,
    "wrong connective": expressions.wrong_connective,
    "missing condition": expressions.missing_condition,
    "off by one": expressions.off_by_one,
    "wrong boundary": expressions.wrong_boundary,
    "wrong operator": expressions.wrong_operator,
    "swapped arguments": expressions.swapped_arguments,
    "missing argument": expressions.missing_argument,
    "dropped conversion": expressions.dropped_conversion,
    "missing await": expressions.missing_await,
    "wrong default": expressions.wrong_default,
    "wrong constant": expressions.wrong_constant,
    "wrong variable": names.wrong_variable,
    "wrong attribute": names.wrong_attribute,
    "wrong key": names.wrong_key,
    "sibling exception": names.sibling_exception,
    "wrong method": names.wrong_method,
    "get for setdefault": names.get_for_setdefault,
    "wrong function": names.wrong_function,
    "lost text": names.lost_text,
}
_TO_ITSELF = re.compile(r"→ `([\w.]+) = \1`$")


@dataclass(frozen=True, slots=True)
class Slip:
    """A possible break, not yet tried. Lines count from 1 and include both ends."""

    kind: str  # a key of `OPERATORS`
    function: str  # qualified
    body: tuple[int, int]  # the lines of the function
    line: int  # where the edit starts
    edit: Edit


@dataclass(frozen=True, slots=True)
class Break:
    """A slip in one file. `after` parses and is another program than `before`."""

    path: str
    kind: str  # a key of `OPERATORS`, or "by a person"
    function: str  # qualified; "" for code outside of functions
    before: str
    after: str

    @property
    def shown(self) -> str:
        """The first line that differs, for people: "`a += b` → `a = b`"."""
        pairs = zip([*self.before.split("\n"), ""], [*self.after.split("\n"), ""], strict=False)
        old, new = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
        return f"`{old.strip()[:100]}` → `{new.strip()[:100]}`"


def slips(text: str) -> list[Slip]:
    """Every slip in the module's functions; none if it is not Python."""
    module, found = read(text), list[Slip]()
    for code in module.functions() if module is not None else ():
        if _is_declaration(code):
            continue
        lines = (code.node.lineno, code.node.end_lineno or code.node.lineno)
        for kind, operator in OPERATORS.items():
            found += [Slip(kind, code.name, lines, edit.line, edit) for edit in operator(code)]
    return found


def broken(path: str, text: str, slip: Slip) -> Break | None:
    """The file with the slip; None if it no longer parses or is the same program."""
    data, edit = text.encode(), slip.edit
    after = (data[: edit.start] + edit.new.encode() + data[edit.end :]).decode()
    made = Break(path, slip.kind, slip.function, text, after)
    return made if same_program(after, text) is False and not _TO_ITSELF.search(made.shown) else None


def same_program(one: str, other: str) -> bool | None:
    """Whether two texts are the same apart from layout and comments; None if one of them is not Python."""
    if one == other:
        return True
    left, right = read(one), read(other)
    return None if left is None or right is None else ast.dump(left.tree) == ast.dump(right.tree)


def _is_declaration(code: Code) -> bool:
    """Overloads and abstract methods: nothing in them runs."""
    named = [ast.unparse(decorator) for decorator in code.node.decorator_list]
    return any(name.rpartition(".")[2] in ("overload", "abstractmethod") for name in named)
