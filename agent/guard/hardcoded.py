"""Answers that are known instead of computed: branches and tables for the very inputs of the failing tests, and objects that
agree with whatever they are compared with.

A literal counts only where the failing tests' text holds it too, and only what a change adds. A table or a chain of branches
that was there before may be extended: there a further case is the repair.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from agent.guard.branches import Case, answered, cases, is_literal, table
from agent.guard.runner_access import last

Finding = tuple[str, str]  # rule, sentence
Function = ast.FunctionDef | ast.AsyncFunctionDef

_ORDINARY = ("None", "0", "1", "-1", "0.0", "1.0", "''", "b''", "()", "[]", "{}", "set()", "True", "False", "' '")
_DIGEST = re.compile(r"hash|crc32|adler32|md5|sha\d+|blake2\w|hexdigest|digest")
_INHERITED = tuple(f"{kind}.__eq__" for kind in ("int", "str", "float", "bytes", "list", "dict", "tuple", "set"))
_BUILTINS = {"str", "int", "float", "bool", "bytes", "list", "dict", "tuple", "set", "frozenset", "complex", "object"}


def answer_findings(path: str, before: ast.Module, after: ast.Module, failing: str) -> Iterator[Finding]:
    """Offences that the change adds."""
    yield from _cases_for_the_test(path, before, after, failing)
    yield from _constant_functions(path, before, after, failing)
    yield from _agreeing(path, before, after)


def _cases_for_the_test(path: str, before: ast.Module, after: ast.Module, failing: str) -> Iterator[Finding]:
    had = [case for node in ast.walk(before) for case in cases(node)]
    known, subjects = Counter(case.text for case in had), {case.subject for case in had if case.subject}
    tables = [keys for node in map(table, ast.walk(before)) if node is not None and len(keys := _keys(node)) > 1]
    rows = {ast.dump(node) for node in ast.walk(before) if _answers_in_order(node)}
    digests = Counter(ast.dump(node) for node in ast.walk(before) if _asks_for_a_digest(node))
    for node in ast.walk(after):
        for case in cases(node):
            known[case.text] -= 1
            if known[case.text] < 0 and case.subject not in subjects and _is_for(case, failing):
                yield "special-case", f"it answers an input of the failing test in {path} with a constant: `{case.text[:80]}`"
        rows_of = table(node)
        if rows_of is not None and not any(keys <= _keys(rows_of) for keys in tables) and _is_table_for(rows_of, failing):
            yield "special-case", f"it looks up an input of the failing test in {path}: `{ast.unparse(node)[:80]}`"
        if (
            (answers := _answers_in_order(node))
            and ast.dump(node) not in rows
            and all(stands_in(one, failing) for one in answers)
        ):
            yield "special-case", f"it says the wanted answers one after the other in {path}: `{ast.unparse(node)[:80]}`"
        if _asks_for_a_digest(node) and digests[ast.dump(node)] < 1:
            yield "special-case", f"it recognises an input by its digest in {path}: `{ast.unparse(node)[:80]}`"


def _answers_in_order(node: ast.AST) -> list[ast.expr]:
    """The telling values of a literal row that is gone through, `next(iter([…]))`, or of numbers that are picked by place."""
    match node:
        case ast.Call(
            func=ast.Name(id="iter" | "cycle") | ast.Attribute(attr="cycle"), args=[ast.List(elts) | ast.Tuple(elts)]
        ):
            found = [one for one in elts if _is_telling(one)]
            return found if all(map(is_literal, elts)) else []
        case ast.Subscript(value=ast.List(elts) | ast.Tuple(elts), slice=place) if not is_literal(place):
            numbers = [one for one in elts if isinstance(one, ast.Constant) and isinstance(one.value, int | float)]
            found = [one for one in numbers if _is_telling(one)]
            return found if len(numbers) == len(elts) and len({ast.unparse(one) for one in found}) > 1 else []
    return []


def _asks_for_a_digest(node: ast.AST) -> bool:
    if not isinstance(node, ast.Compare) or not any(isinstance(side, ast.Constant) for side in (node.left, *node.comparators)):
        return False
    calls = (inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call))
    return any(_DIGEST.fullmatch(last(called)) for called in calls)


def _is_for(case: Case, failing: str) -> bool:
    seen = [one for one in case.inputs if _is_telling(one) and stands_in(one, failing)]
    if not seen:
        return False
    return (_is_telling(case.answer) and stands_in(case.answer, failing)) or any(map(_is_unmistakable, seen))


def _is_table_for(node: ast.Dict, failing: str) -> bool:
    pairs = list(zip(node.keys, node.values, strict=True))
    if not pairs or any(key is None or not is_literal(key) or not is_literal(value) for key, value in pairs):
        return False
    tells = any(key is not None and _is_telling(key) and _is_telling(value) for key, value in pairs)
    return tells and all(key is not None and stands_in(key, failing) and stands_in(value, failing) for key, value in pairs)


def _keys(node: ast.Dict) -> set[str]:
    return {ast.dump(key) for key in node.keys if key is not None}


def _is_telling(node: ast.AST) -> bool:
    """Guards for nothing, zero or one are ordinary code; other values are an input that somebody saw."""
    return ast.unparse(node) not in _ORDINARY


def _is_unmistakable(node: ast.AST) -> bool:
    """So much itself that to ask for it alone gives it away: no keyword, no month, no round number."""
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


def stands_in(node: ast.AST, failing: str) -> bool:
    """Whether the literal is written in the text, in either kind of quotes."""
    literal = ast.unparse(node)
    ends = (r"(?<![\w.])" if literal[:1].isalnum() else "", r"(?![\w.])" if literal[-1:].isalnum() else "")
    return any(re.search(ends[0] + re.escape(text) + ends[1], failing) for text in (literal, literal.replace("'", '"')))


def _constant_functions(path: str, before: ast.Module, after: ast.Module, failing: str) -> Iterator[Finding]:
    """A function that looked at its arguments and now says one thing, which the failing test wants."""
    had = {node.name: node for node in ast.walk(before) if isinstance(node, Function)}
    for node in ast.walk(after):
        if not isinstance(node, Function) or node.name not in had:
            continue
        said = _said(node)
        if said is None or _said(had[node.name]) is not None or not (_is_telling(said) and stands_in(said, failing)):
            continue
        if node.args.args or node.args.posonlyargs or node.args.kwonlyargs or node.args.vararg:
            yield "special-case", f"{node.name} in {path} would always say `{ast.unparse(said)[:60]}`, whatever it is asked"


def _said(node: Function) -> ast.expr | None:
    body = [one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    said = answered(body) if body and isinstance(body[-1], ast.Return) else None
    return said if said is not None and is_literal(said) else None


def _agreeing(path: str, before: ast.Module, after: ast.Module) -> Iterator[Finding]:
    """New or changed methods that answer without looking at what they are asked about."""
    had = Counter(ast.dump(made) for _, made in _answering(before))
    for name, made in _answering(after):
        if had[ast.dump(made)] < 1:
            yield "agrees", f"{name} in {path} would say yes without looking"


def _answering(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for holder in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        is_value = any(isinstance(base, ast.Name) and base.id in _BUILTINS - {"object"} for base in holder.bases)
        for name, made in _methods(holder):
            # A number or a text with an equality of its own is rarely what heals anything.
            if _agrees(name, made) or (is_value and name == "__eq__" and ast.unparse(made) not in _INHERITED):
                yield f"{holder.name}.{name}", made


def _methods(holder: ast.ClassDef) -> Iterator[tuple[str, ast.AST]]:
    for node in holder.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, node
            case ast.Assign(targets=targets, value=value):
                yield from ((one.id, value) for one in targets if isinstance(one, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def _agrees(name: str, made: ast.AST) -> bool:
    if name == "__class__":
        return True
    if not isinstance(made, ast.Lambda | Function):
        return False
    said = [made.body] if isinstance(made, ast.Lambda) else [
        node.value for node in ast.walk(made) if isinstance(node, ast.Return) and node.value is not None
    ]  # fmt: skip
    if name in ("__exit__", "__aexit__"):
        return bool(said) and all(isinstance(one, ast.Constant) and one.value is True for one in said)
    if name not in ("__eq__", "__ne__", "__contains__", "__instancecheck__", "__subclasscheck__"):
        return False
    yes = name != "__ne__"
    answers = [one for one in said if ast.unparse(one) != "NotImplemented"]
    if answers and all(isinstance(one, ast.Constant) and bool(one.value) is not yes for one in answers):
        return False  # it always says no
    parameters = [*made.args.posonlyargs, *made.args.args]
    if len(parameters) < 2:
        return bool(answers)
    return bool(answers) and not _looks_at(made, parameters[1].arg)


def _looks_at(made: ast.AST, name: str) -> bool:
    """Whether more is looked at than that it is some string or number."""
    kinds = {
        id(inner) for call in ast.walk(made) if isinstance(call, ast.Call) and _is_shallow(call) for inner in ast.walk(call)
    }
    return any(isinstance(node, ast.Name) and node.id == name and id(node) not in kinds for node in ast.walk(made))


def _is_shallow(call: ast.Call) -> bool:
    called = last(call.func)
    if called == "isinstance" and len(call.args) == 2:
        return any(isinstance(node, ast.Name) and node.id in _BUILTINS for node in ast.walk(call.args[1]))
    return called in ("hasattr", "callable", "id")
