"""Notices values of the failing tests in a change: a sieve, which does not try to know every way to write one.

What a change does near the tests' calls, and with other values in the tests, is found out by running it (`agent/challenge`).
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from typing import TypeGuard

from agent.contract import words
from agent.contract.proposal import Edits
from agent.guard import Finding
from agent.source import syntax
from agent.source.outline import Function, parse

_ORDINARY = ("None", "0", "1", "-1", "0.0", "1.0", "''", "b''", "()", "[]", "{}", "set()", "True", "False", "' '")
MOST, READ = 400, 200_000  # values that are looked for, characters of the tests in which
SHOWN = 3  # new values of the tests, from which on they are asked about


def hardcoded_findings(path: str, before: ast.Module, after: ast.Module, failing: str) -> Iterator[Finding]:
    """Violations that the patch adds."""
    yield from _compared_inputs(path, before, after, failing)
    yield from _constants_of_tests(path, before, after, failing)


def new_values(edits: Edits) -> tuple[object, ...]:
    """The values that a change adds and that may be answers; of a file of another kind, its text."""
    found: dict[object, None] = {}
    for edit in edits:
        before, after = (parse(text or "") if edit.path.endswith(".py") else None for text in (edit.before, edit.after))
        if before is None or after is None:
            found[edit.after or edit.path] = None
        else:
            found |= {node.value: None for node in _new_values(before, after).values()}
    return tuple(found)


def _new_values(before: ast.Module, after: ast.Module) -> dict[str, ast.Constant]:
    had = {ast.unparse(node) for node in ast.walk(before) if isinstance(node, ast.Constant)}
    new = ((text, node) for node in _values(after) if (text := ast.unparse(node)) not in had)
    return dict(itertools.islice(new, MOST))


def _values(tree: ast.Module) -> list[ast.Constant]:
    """The specific values in code, without docstrings and the words of messages."""
    # Between what an f-string inserts, words of the answer are ordinary.
    said = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    said |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    return [node for node in ast.walk(tree) if _is_value(node) and id(node) not in said and _is_specific(node)]


def _compared_inputs(path: str, before: ast.Module, after: ast.Module, failing: str) -> Iterator[Finding]:
    """Comparisons with what only the failing tests have."""
    had, stated = {ast.dump(node) for node in _compared(before)}, stated_in(before)
    for node in _compared(after):
        is_known = ast.dump(node) in had or _is_stated(node, stated)
        if _is_unmistakable(node) and not is_known and is_in_text(node, failing):
            yield "special-case", f"it compares with an input of a failing test in {path}: {words.code(ast.unparse(node), 80)}"


def _compared(tree: ast.Module) -> Iterator[ast.expr]:
    """The literals that something is compared with for equality, with the entries of those for membership."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                for one, op, other in zip((left, *comparators), ops, comparators, strict=False):
                    if isinstance(op, ast.Eq | ast.NotEq):
                        yield from filter(syntax.is_literal, (one, other))
                    elif isinstance(op, ast.In | ast.NotIn) and isinstance(other, ast.List | ast.Tuple | ast.Set):
                        yield from filter(syntax.is_literal, other.elts)
            case ast.MatchValue(value=value):
                yield value


def stated_in(before: ast.Module) -> str:
    """The words of the docstrings, without examples: lines with a call, a prompt or what follows it.

    A value that the specification names ("4.0 is an A+") is no answer by heart.
    """
    kept, in_example = [], False
    for node in ast.walk(before):
        if not isinstance(node, Function | ast.ClassDef | ast.Module):
            continue
        for line in (ast.get_docstring(node) or "").split("\n"):
            in_example = ">>>" in line or (in_example and bool(line.strip()))
            if not in_example and not re.search(r"\w\(", line):
                kept.append(line)
    return "\n".join(kept)


def _is_stated(node: ast.AST, stated: str) -> bool:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return bool(re.search(rf"(?<!\w){re.escape(node.value)}(?!\w)", stated))
    return is_in_text(node, stated)


def _is_specific(node: ast.AST) -> bool:
    """Whether the value can be a hard-coded input or answer. Checks for None, zero, one or empty values are ordinary code."""
    return ast.unparse(node) not in _ORDINARY


def _is_unmistakable(node: ast.AST) -> bool:
    """Whether comparing with the value alone shows hard-coding: not a keyword, a month or a round number."""
    match node:
        case ast.Constant(value=str(text)):
            return len(text) > 3 and not re.fullmatch(r"[\w.+-]{1,20}", text)
        case ast.Constant(value=int(number)) | ast.UnaryOp(operand=ast.Constant(value=int(number))):
            return number > 1000 and number % 100 != 0
        case ast.List(elts) | ast.Tuple(elts) | ast.Set(elts):
            return len(elts) > 1 and any(map(_is_specific, elts))
        case ast.Dict(keys=keys):
            return len(keys) > 0
    return False


def is_in_text(node: ast.AST, failing: str) -> bool:
    """Whether the text contains the literal, in either kind of quotes."""
    literal = ast.unparse(node)
    ends = (r"(?<![\w.])" if literal[:1].isalnum() else "", r"(?![\w.])" if literal[-1:].isalnum() else "")
    return any(re.search(ends[0] + re.escape(text) + ends[1], failing) for text in (literal, literal.replace("'", '"')))


def _constants_of_tests(path: str, before: ast.Module, after: ast.Module, failing: str) -> Iterator[Finding]:
    """Several new values that the failing tests have too, in whatever form: rows, coefficients, parsed texts."""
    new, failing, stated = _new_values(before, after), failing[:READ], stated_in(before)
    seen = [text for text, node in new.items() if not _is_stated(node, stated) and _is_shown(node, failing)]
    if len(seen) >= SHOWN:
        shown = ", ".join(f"`{each[:30]}`" for each in seen[:3])
        yield "data", f"it adds values to {path} that the failing tests have: {shown}"


def _is_value(node: ast.AST) -> TypeGuard[ast.Constant]:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str | int | float | bytes)
        and not isinstance(node.value, bool)
    )


def _is_shown(node: ast.Constant, failing: str) -> bool:
    """Whether the tests have the value: a text also as a part of theirs, or with parts of theirs in it."""
    if not isinstance(node.value, str):
        return is_in_text(node, failing)
    parts = re.findall(r"[\w.+-]{3,}", node.value)
    return len(node.value) > 2 and (
        node.value in failing or (len(parts) > 1 and sum(part in failing for part in parts) * 2 > len(parts))
    )
