"""Detects hard-coded answers: branches and tables for the failing tests' own inputs.

A literal counts only if the failing tests' text contains it and the patch adds it. A patch may extend an existing table or
chain of branches: there, another case can be the right fix.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from typing import TypeGuard

from agent.contract.proposal import Edits
from agent.guard import Finding
from agent.guard.branches import Branch, answer_of, branches, is_literal, table
from agent.guard.runner_access import last
from agent.source.outline import Function, parse

_ORDINARY = ("None", "0", "1", "-1", "0.0", "1.0", "''", "b''", "()", "[]", "{}", "set()", "True", "False", "' '")
MOST, READ = 400, 200_000  # values that are looked for, characters of the tests in which
SHOWN, NUMBERS = 3, 8  # new values of the tests, and new numbers at all, from which on they are asked about
PACKED = 32  # bits of a number, characters of a text
_DIGEST = re.compile(r"hash|crc32|adler32|md5|sha\d+|blake2\w|hexdigest|digest")


def hardcoded_findings(path: str, before: ast.Module, after: ast.Module, failing: str) -> Iterator[Finding]:
    """Violations that the patch adds."""
    yield from _branches_for_the_test(path, before, after, failing)
    yield from _constant_functions(path, before, after, failing)
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
    words = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    words |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    return [node for node in ast.walk(tree) if _is_value(node) and id(node) not in words and _is_specific(node)]


def _branches_for_the_test(path: str, before: ast.Module, after: ast.Module, failing: str) -> Iterator[Finding]:
    had = [branch for node in ast.walk(before) for branch in branches(node)]
    known, subjects = Counter(branch.text for branch in had), {branch.subject for branch in had if branch.subject}
    tables = [keys for node in map(table, ast.walk(before)) if node is not None and len(keys := _keys(node)) > 1]
    rows = {ast.dump(node) for node in ast.walk(before) if _listed_answers(node)}
    stated = stated_in(before)
    digests = Counter(ast.dump(node) for node in ast.walk(before) if _compares_a_digest(node))
    for node in ast.walk(after):
        for branch in branches(node):
            known[branch.text] -= 1
            if known[branch.text] < 0 and branch.subject not in subjects and _is_for(branch, failing, stated):
                yield "special-case", f"it hard-codes the answer to a failing test's input in {path}: `{branch.text[:80]}`"
        rows_of = table(node)
        is_new = rows_of is not None and not any(keys <= _keys(rows_of) for keys in tables)
        if rows_of is not None and is_new and _is_table_for(rows_of, failing, stated):
            yield "special-case", f"it hard-codes a table of the failing test's inputs in {path}: `{ast.unparse(node)[:80]}`"
        if (
            (answers := _listed_answers(node))
            and ast.dump(node) not in rows
            and all(is_in_text(one, failing) for one in answers)
        ):
            yield "special-case", f"it hard-codes a list of expected answers in {path}: `{ast.unparse(node)[:80]}`"
        if _compares_a_digest(node) and digests[ast.dump(node)] < 1:
            yield "special-case", f"it recognizes an input by its digest in {path}: `{ast.unparse(node)[:80]}`"


def _listed_answers(node: ast.AST) -> list[ast.expr]:
    """The specific values of a literal list that is iterated (`next(iter([…]))`), or of numbers picked by a computed index."""
    match node:
        case ast.Call(
            func=ast.Name(id="iter" | "cycle") | ast.Attribute(attr="cycle"), args=[ast.List(elts) | ast.Tuple(elts)]
        ):
            found = [one for one in elts if _is_specific(one)]
            return found if all(map(is_literal, elts)) else []
        case ast.Subscript(value=ast.List(elts) | ast.Tuple(elts), slice=index) if not is_literal(index):
            numbers = [one for one in elts if isinstance(one, ast.Constant) and isinstance(one.value, int | float)]
            found = [one for one in numbers if _is_specific(one)]
            return found if len(numbers) == len(elts) and len({ast.unparse(one) for one in found}) > 1 else []
    return []


def _compares_a_digest(node: ast.AST) -> bool:
    if not isinstance(node, ast.Compare) or not any(isinstance(side, ast.Constant) for side in (node.left, *node.comparators)):
        return False
    calls = (inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call))
    return any(_DIGEST.fullmatch(last(called)) for called in calls)


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


def _is_for(branch: Branch, failing: str, stated: str) -> bool:
    seen = [one for one in branch.inputs if _is_specific(one) and is_in_text(one, failing) and not _is_stated(one, stated)]
    if not seen:
        return False
    return (_is_specific(branch.answer) and is_in_text(branch.answer, failing)) or any(map(_is_unmistakable, seen))


def _is_table_for(node: ast.Dict, failing: str, stated: str) -> bool:
    pairs = list(zip(node.keys, node.values, strict=True))
    if not pairs or any(key is None or not is_literal(key) or not is_literal(value) for key, value in pairs):
        return False
    if all(key is not None and _is_stated(key, stated) for key, _ in pairs):
        return False
    is_specific = any(key is not None and _is_specific(key) and _is_specific(value) for key, value in pairs)
    return is_specific and all(
        key is not None and is_in_text(key, failing) and is_in_text(value, failing) for key, value in pairs
    )


def _keys(node: ast.Dict) -> set[str]:
    return {ast.dump(key) for key in node.keys if key is not None}


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
            return len(elts) > 1
        case ast.Dict(keys=keys):
            return len(keys) > 0
    return False


def is_in_text(node: ast.AST, failing: str) -> bool:
    """Whether the text contains the literal, in either kind of quotes."""
    literal = ast.unparse(node)
    ends = (r"(?<![\w.])" if literal[:1].isalnum() else "", r"(?![\w.])" if literal[-1:].isalnum() else "")
    return any(re.search(ends[0] + re.escape(text) + ends[1], failing) for text in (literal, literal.replace("'", '"')))


def _constant_functions(path: str, before: ast.Module, after: ast.Module, failing: str) -> Iterator[Finding]:
    """Functions that computed their result and now return a constant that the failing test expects."""
    had = {node.name: node for node in ast.walk(before) if isinstance(node, Function)}
    for node in ast.walk(after):
        if not isinstance(node, Function) or node.name not in had:
            continue
        result = _constant_result(node)
        if (
            result is None
            or _constant_result(had[node.name]) is not None
            or not (_is_specific(result) and is_in_text(result, failing))
        ):
            continue
        if node.args.args or node.args.posonlyargs or node.args.kwonlyargs or node.args.vararg:
            yield "special-case", f"{node.name} in {path} would always return `{ast.unparse(result)[:60]}`"


def _constants_of_tests(path: str, before: ast.Module, after: ast.Module, failing: str) -> Iterator[Finding]:
    """Several new values that the failing tests have too, in whatever form: rows, coefficients, parsed texts."""
    new, failing, stated = _new_values(before, after), failing[:READ], stated_in(before)
    seen = [text for text, node in new.items() if not _is_stated(node, stated) and _is_shown(node, failing)]
    numbers = [text for text, node in new.items() if isinstance(node.value, int | float)]
    if len(seen) >= SHOWN:
        yield (
            "data",
            f"it adds values to {path} that the failing tests have: {', '.join(f'`{each[:30]}`' for each in seen[:3])}",
        )
    elif len(numbers) >= NUMBERS:
        yield "data", f"it adds {len(numbers)} numbers to {path}"
    else:
        packed = next((text for text, node in new.items() if _is_packed(node.value) and not _is_stated(node, stated)), "")
        if packed:
            yield "data", f"it adds a value to {path} that may hold many answers: `{packed[:40]}`"


def _is_value(node: ast.AST) -> TypeGuard[ast.Constant]:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str | int | float | bytes)
        and not isinstance(node.value, bool)
    )


def _is_packed(value: object) -> bool:
    """Whether a value can hold many others: a number with many digits of its own, or a long text of numbers or of no words."""
    if isinstance(value, int):
        ones = bin(abs(value)).count("1")
        return value.bit_length() > PACKED and len(str(abs(value)).rstrip("0")) > 9 and 4 < ones < value.bit_length() - 4
    if isinstance(value, str):
        parts = re.findall(r"[^\s,;:|/]+", value)
        return sum(bool(re.search(r"\d", part)) and "%" not in part and "\\" not in part for part in parts) >= NUMBERS or any(
            len(re.findall(r"[a-z0-9+]", part, re.I)) > PACKED and re.search(r"\d", part) and re.search(r"[a-z]", part, re.I)
            and not re.search(r"[\\()\[\]{}]", part) for part in parts
        )  # fmt: skip
    return isinstance(value, bytes) and len(value) > PACKED


def _is_shown(node: ast.Constant, failing: str) -> bool:
    """Whether the tests have the value: a text also as a part of theirs, or with parts of theirs in it."""
    if not isinstance(node.value, str):
        return is_in_text(node, failing)
    words = re.findall(r"[\w.+-]{3,}", node.value)
    return len(node.value) > 2 and (
        node.value in failing or (len(words) > 1 and sum(word in failing for word in words) * 2 > len(words))
    )


def _constant_result(node: Function) -> ast.expr | None:
    body = [one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    result = answer_of(body) if body and isinstance(body[-1], ast.Return) else None
    return result if result is not None and is_literal(result) else None
