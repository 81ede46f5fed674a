"""A failing test in one line: the call, what it gave and what was expected, and the line of the code. Pure.

"add(1, 1) gave 3, expected 2 (solution.py, line 4)". The line is where an exception was raised, else where the function begins.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.contract import words
from agent.contract.verdicts import Failure, Frame
from agent.solving.code import Files, Function
from agent.source import syntax
from agent.source.outline import parse

LONGEST = 500  # characters
_COMPARED = re.compile(r"^(?:E +|AssertionError: )assert (?P<values>.+)$", re.MULTILINE)  # pytest's words: "assert 3 == 2"
_RESULT = re.compile(r"^E +\+ +where .+? = (?P<call>\w.*)$", re.MULTILINE)  # its next one: "+  where 3 = add(1, 1)"
_GENERATED = re.compile(r"test_example_\d+")  # a name that says nothing


@dataclass(frozen=True, slots=True)
class _Asserted:
    """What a statement of a test checks: this expression gives that result, or raises that type."""

    subject: ast.expr | ast.stmt
    wanted: ast.expr
    raises: bool


def line(failure: Failure, test: str, files: Files) -> str:
    """`test` is the text of the file with the test, `files` are those of the code."""
    path, _, name = failure.id.partition("::")
    inside = next((each for each in reversed(failure.frames) if each.path in files), None)
    if (asserted := _asserted(test, path, name, failure)) is None:
        said, where = f"{name or path}: {failure.message}", inside
    else:
        said = _said(asserted, failure, is_raised=inside is not None)
        said = said if _GENERATED.fullmatch(name) else f"{name}: {said}"
        where = inside or _beginning(asserted, files)
    return said[:LONGEST] + (f" ({where.path}, line {where.line})" if where is not None else "")


def assertion(test: str) -> str:
    """The first assertion of a test; "" if it has none."""
    found = next(_assertions(_tree(test)), None)
    return " ".join(ast.unparse(found.test if isinstance(found, ast.Assert) else found).split()) if found else ""


def _tree(text: str) -> ast.Module:
    """Empty if the text is not Python."""
    return parse(text) or ast.Module([], [])


def _assertions(tree: ast.AST) -> Iterator[ast.Assert | ast.With]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Assert | ast.With))


def _asserted(test: str, path: str, name: str, failure: Failure) -> _Asserted | None:
    """What failed, if it is a comparison or an expected exception. A test that hung has no line: its only assertion."""
    scopes: Sequence[ast.AST] = [_tree(test)]
    for part in name.partition("[")[0].split("::"):  # its classes, and itself
        inner = (node for scope in scopes for node in ast.walk(scope) if isinstance(node, Function | ast.ClassDef))
        scopes = [node for node in inner if node.name == part][:1]
    nodes = [node for scope in scopes for node in _assertions(scope)]
    if (at := next((each.line for each in reversed(failure.frames) if each.path == path), None)) is not None:
        nodes = [node for node in nodes if node.lineno <= at <= (node.end_lineno or at)][-1:]
    match nodes:
        case [ast.Assert(test=ast.Compare(left=subject, ops=[ast.Eq()], comparators=[wanted]))]:
            match subject:  # as `agent.solving.contract` writes what an interactive session shows
                case ast.Call(func=ast.Name(id="_printed"), args=[ast.Lambda(body=subject)]):
                    pass
            match wanted:
                case ast.Call(func=ast.Attribute(attr="approx") | ast.Name(id="approx"), args=[wanted, *_]):
                    pass
            return _Asserted(subject, wanted, raises=False)
        case [ast.With(items=[ast.withitem(ast.Call(func=ast.Attribute(attr="raises"), args=[wanted, *_]))], body=[subject])]:
            return _Asserted(subject, wanted, raises=True)
    return None


def _said(asserted: _Asserted, failure: Failure, *, is_raised: bool) -> str:
    subject, wanted = ast.unparse(asserted.subject), ast.unparse(asserted.wanted)
    if failure.message.startswith(words.HUNG):
        return f"{subject} {failure.message}"
    if failure.message in (words.DIED, words.STARVED):
        return f"{subject}: {failure.message}"
    compared, result = _COMPARED.search(f"{failure.details}\n{failure.message}"), _RESULT.search(failure.details)
    if is_raised or compared is None:
        raised = "nothing" if "DID NOT RAISE" in failure.message else failure.message
        return f"{subject} raised {raised}, expected {wanted}"
    gave, expected = _values(compared["values"])
    if result is not None and any(
        isinstance(node, ast.Name) for each in _arguments(asserted.subject) for node in ast.walk(each)
    ):
        subject = result["call"]  # with their values
    if _is_literal(asserted.wanted):
        expected = wanted
    verb = "gave" if isinstance(asserted.subject, ast.Call | ast.Await) else "is"
    return f"{subject} {verb} {gave}, expected {expected}"


def _arguments(node: ast.AST) -> list[ast.expr]:
    return [*node.args, *(each.value for each in node.keywords)] if isinstance(node, ast.Call) else []


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return False
    return True


def _values(compared: str) -> tuple[str, str]:
    """The sides of "3 == 2", each of which may have such a sign in a text."""
    parts = compared.split(" == ")
    sides = [(" == ".join(parts[:at]), " == ".join(parts[at:])) for at in range(1, len(parts))]
    for gave, expected in sides:
        try:
            syntax.literal(gave)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue
        return gave, expected
    return sides[0] if sides else (compared, "")


def _beginning(asserted: _Asserted, files: Files) -> Frame | None:
    """Where the function begins that is called."""
    names = {node.id for node in ast.walk(asserted.subject) if isinstance(node, ast.Name)}
    for path, text in files.items():
        for node in _tree(text).body:
            if isinstance(node, Function) and node.name in names:
                return Frame(path, node.lineno)
    return None
