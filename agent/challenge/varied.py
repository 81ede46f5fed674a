"""Asks about changes that know a failing test by heart: the test runs with other values in it, with the change and without.

This works where a call cannot be made again outside of its test: with fixtures, objects, files and mocks. A value is replaced
everywhere in the test's file, so that what a fixture prepares still fits. The change is asked about if its answer stays the
same although what the base answers follows the values, or if it makes no difference any more once a value is replaced that the
change has brought in. Where some answer of the change follows the values, it computes, and nothing is asked.
"""

from __future__ import annotations

import ast
import asyncio
import re
import secrets
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from agent.challenge.generated_tests import run_files
from agent.challenge.specification import test_of
from agent.contract import words
from agent.contract.proposal import Edits
from agent.contract.verdicts import Check, CheckRun, VerdictId
from agent.source import syntax
from agent.source.outline import Function
from agent.state import Work

VALUES, OF_EACH = 8, 2  # values of the tests that are replaced, and by how many others each
ROOM = 400_000  # characters of all variations: a large file takes long to load
TELLING = 2  # values, or runs with others for the same value, that have to say the same
LONGEST, LARGEST = 60, 1 << 64  # characters of a text that is replaced, and the size of a number
_NEWLINE = re.compile(rb"\r\n|\r|\n")
_ADDRESS = re.compile(r"0x[0-9a-f]+")

Value = str | int | float
Ending = tuple[str, ...] | None  # the messages of the tests that failed; None if nothing is known


@dataclass(frozen=True, slots=True)
class Varied:
    """A test's file with one value replaced; `is_new`: the change brings in that value."""

    value: Value
    other: Value
    is_new: bool
    text: str

    def is_in(self, message: str) -> bool:
        """Whether a failure tells of the new value: then it is what the test expects, or what was refused."""
        shown = repr(self.other)[1:-1] if isinstance(self.other, str) else repr(self.other)
        return bool(re.search(rf"(?<![\w.]){re.escape(shown)}(?![\w.])", message))


@dataclass(frozen=True, slots=True)
class Runs:
    """How the tests end without the change and with it: as they are, and with each variation."""

    own: tuple[Ending, Ending]
    varied: Sequence[tuple[Varied, Ending, Ending]]


async def knows_by_heart(
    work: Work, check: Check, path: str, text: str, red: Sequence[VerdictId], edits: Edits, new: Collection[object]
) -> str:
    """A question about the change, a clause; "" if there is none. `red` are failing tests in the file `path`, `new` are the
    values that the change brings in. Raises `SandboxError` if the sandbox is lost."""
    names = list(dict.fromkeys(test_of(id_) for id_ in red if "::" in id_))
    found = await asyncio.to_thread(lambda: list(islice(variations(text, names, new), ROOM // (len(text) + 1))))
    if not found:
        return ""
    texts = [text, *(each.text for each in found)]
    mark = secrets.token_hex(4)  # avoids the repository's own file names
    sides = (_endings(work, check, mark, path, texts, names, side) for side in ((), edits))
    base, changed = await asyncio.gather(*sides)
    return question(names[0], Runs((base[0], changed[0]), list(zip(found, base[1:], changed[1:], strict=True))))


def question(test: str, runs: Runs) -> str:
    """Pure."""
    before, after = runs.own
    if not before or after != ():
        return ""  # it does not fail without the change, or not pass with it, beside its own file
    known = [(each, base, now) for each, base, now in runs.varied if base is not None and now is not None]
    given = [found for found in known if not found[0].is_new and not any(map(found[0].is_in, (*found[1], *found[2])))]
    if any(now and now != base for _, base, now in given):
        return ""  # its answer follows the test's values
    # Values that change what the base answers.
    telling = [(each.value, now == ()) for each, base, now in given if not {*base} <= {*before}]
    # Only a test that expects a certain value tells whether an answer ever changes.
    expects = any(any(map(each.is_in, now)) for each, _, now in known)
    if expects and len({value for value, _ in telling}) >= TELLING and all(is_kept for _, is_kept in telling):
        return f"{words.code(test)} passes with it whatever other values the test uses, so it may know the answer by heart"
    for value in dict.fromkeys(each.value for each, _, _ in known if each.is_new):
        lost = [bool(base) and now == base for each, base, now in known if each.value == value]
        if len(lost) >= TELLING and all(lost):
            other = f"with another value than {words.code(repr(value))} in {words.code(test)}"
            return f"it makes no difference {other}, so it may know the test by heart"
    return ""


def variations(text: str, tests: Sequence[str], new: Collection[object]) -> Iterator[Varied]:
    """A test file with one value of the tests (`Class::test_name`) replaced in each; values that the change brings in first."""
    try:
        tree = syntax.tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    places: dict[tuple[type, Value], list[ast.Constant]] = {}
    for node in _values(tree):
        places.setdefault((type(node.value), _value(node)), []).append(node)
    wanted = [node for name in tests for node in _of_test(tree, name)]
    named = {id(node) for test in wanted for node in ast.walk(test)}
    testing = {id(part) for node in ast.walk(tree) if _is_test(node) for part in ast.walk(node)}
    mine = [value for value, nodes in places.items() if any(id(node) in named for node in nodes)]
    theirs = [value for value, nodes in places.items() if value not in mine and not all(id(node) in testing for node in nodes)]
    brought = {(type(value), value) for value in new}
    known = {value for _, value in (*places, *brought)}
    for key in sorted([*mine, *theirs][: 3 * VALUES], key=lambda key: key not in brought)[:VALUES]:
        for other in _others(key[1], known)[:OF_EACH]:
            yield Varied(key[1], other, key in brought, _replaced(text, places[key], other))


def _values(tree: ast.Module) -> Iterator[ast.Constant]:
    """Numbers and texts, without docstrings, the names of parameters, and parts of f-strings, which have no own place."""
    left_out: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr() | ast.Expr(value=ast.Constant()):
                left_out |= {id(part) for part in ast.walk(node)}
            case ast.Call(func=ast.Attribute(attr="parametrize"), args=[names, *_]):
                left_out |= {id(part) for part in ast.walk(names)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in left_out and _is_replaceable(node.value):
            yield node


def _is_replaceable(value: object) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= LONGEST
    return type(value) in (int, float) and isinstance(value, int | float) and -LARGEST < value < LARGEST


def _value(node: ast.Constant) -> Value:
    assert isinstance(node.value, str | int | float)
    return node.value


def _of_test(tree: ast.Module, name: str) -> list[ast.stmt]:
    """The test function of this name."""
    body: list[ast.stmt] = tree.body
    *classes, function = name.split("::")
    for each in classes:
        body = next((node.body for node in body if isinstance(node, ast.ClassDef) and node.name == each), [])
    return [node for node in body if isinstance(node, Function) and node.name == function]


def _is_test(node: ast.AST) -> bool:
    return isinstance(node, Function) and node.name.startswith("test")


def _others(value: Value, known: Collection[object]) -> list[Value]:
    """Values beside this one that neither the tests nor the change have."""
    if isinstance(value, str):
        swapped = [value[:at] + value[at + 1] + value[at] + value[at + 2 :] for at in range(len(value) - 1)]
        found: list[Value] = [*swapped, value + value[-1], value[0] + value]
    else:
        found = [value + step for step in (1, -1, 2, -2, 3, 4, 5)]
    return [each for each in dict.fromkeys(found) if each not in known]


def _replaced(text: str, nodes: Sequence[ast.Constant], other: Value) -> str:
    data = text.encode()
    starts = [0, *(found.end() for found in _NEWLINE.finditer(data))]
    for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        data = data[:start] + f"({other!r})".encode() + data[end:]
    return data.decode()


async def _endings(
    work: Work, check: Check, mark: str, path: str, texts: Sequence[str], tests: Sequence[str], edits: Edits
) -> list[Ending]:
    """How the tests end in each of the texts, which stand beside the file `path`, with this change."""
    folder, _, name = path.rpartition("/")
    paths = [f"{folder}/test_{mark}_{at}_{name}".lstrip("/") for at in range(len(texts))]
    # Not by their ids: one that cannot be collected would end the whole run.
    chosen = " or ".join(test.rpartition("::")[2] for test in tests)
    files = dict(zip(paths, texts, strict=True))
    done = await run_files(work, check, files, edits, "--continue-on-collection-errors", "-k", chosen)
    if done is None:
        return [None] * len(texts)
    return [_ending(done, each, tests) for each in paths]


def _ending(done: CheckRun, path: str, tests: Sequence[str]) -> Ending:
    def is_meant(id_: str) -> bool:
        return id_.startswith(f"{path}::") and test_of(id_) in tests

    if not any(map(is_meant, done.verdicts)):
        return None
    return tuple(sorted(_ADDRESS.sub("0x", failure.message) for failure in done.failures if is_meant(failure.id)))
