"""Finds two demands on a function that contradict each other, among examples and the assertions of tests. Pure.

Only what can be decided without running anything counts: the same arguments, and results that no value can have both.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import inspect
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter

from agent.solving.home import bound_in, spelled, taken, unbound_in
from agent.source import syntax

_UNCLEAR = re.compile(r"[(<]|\b(?:inf|nan)\b")  # in what a value shows of itself: it may equal a literal
_CLOSE, _TINY = 2e-6, 2e-12  # twice what pytest.approx allows


@dataclass(frozen=True, slots=True)
class Demand:
    """The result of a call: the type of its exception, a literal, or what an interactive session shows (`shown`)."""

    call: ast.Call
    error: str = ""
    value: object = None
    shown: str = ""
    where: str = ""  # the test
    case: int = 0  # of the test's parameters

    def __str__(self) -> str:
        result = f"raises `{self.error}`" if self.error else f"gives `{(self.shown or repr(self.value))[:200]}`"
        return f"`{ast.unparse(self.call)[:200]}` {result}{f' in `{self.where}`' if self.where else ''}"


def demanded(call: ast.Call, want: str, error: str = "") -> Demand:
    """The demand of an example with this result."""
    try:
        return Demand(call, error, None if error else syntax.literal(want))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return Demand(call, shown=" ".join(want.split()))


def contradiction(demands: Iterable[Demand], signature: str = "") -> tuple[Demand, Demand] | None:
    """The first demand with an earlier one that it contradicts. With a signature, arguments are compared by parameter.

    A call that one test makes again may give something else: what it calls may have a state.
    """
    known, parameters = dict[object, Demand](), parameters_of(signature) if signature else None
    made = set[object]()
    for each in demands:
        key = _key(each.call, parameters)
        if each.where:
            if (again := (each.where, each.case, key)) in made:
                continue
            made.add(again)
        first = known.setdefault(key, each)
        if not _agree(first, each):
            return first, each
    return None


def parameters_of(signature: str) -> inspect.Signature:
    """The parameters of a signature that parses; the defaults are nodes, so that nothing of the user is evaluated."""
    (node,) = syntax.tree(f"{signature}: ...").body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    given, empty = node.args, Parameter.empty
    plain = [*given.posonlyargs, *given.args]
    defaults = [*[empty] * (len(plain) - len(given.defaults)), *given.defaults]
    kinds = [Parameter.POSITIONAL_ONLY] * len(given.posonlyargs) + [Parameter.POSITIONAL_OR_KEYWORD] * len(given.args)
    found = [Parameter(arg.arg, kind, default=value) for arg, kind, value in zip(plain, kinds, defaults, strict=True)]
    if given.vararg:
        found.append(Parameter(given.vararg.arg, Parameter.VAR_POSITIONAL))
    for arg, value in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        found.append(Parameter(arg.arg, Parameter.KEYWORD_ONLY, default=value or empty))
    if given.kwarg:
        found.append(Parameter(given.kwarg.arg, Parameter.VAR_KEYWORD))
    return inspect.Signature(found)


def bound(call: ast.Call, parameters: inspect.Signature) -> inspect.BoundArguments | None:
    """The arguments by parameter; None if some are only known when it runs (`*`, `**`). Raises `TypeError`."""
    named = {each.arg: each.value for each in call.keywords if each.arg}
    if any(isinstance(each, ast.Starred) for each in call.args) or len(named) < len(call.keywords):
        return None
    return parameters.bind(*call.args, **named)


def _key(call: ast.Call, parameters: inspect.Signature | None) -> object:
    """Equal for calls of the same function with the same arguments."""
    try:
        arguments = bound(call, parameters) if parameters is not None else None
    except TypeError:  # a call that must fail
        arguments = None
    if arguments is None:
        return ast.dump(call.func), _dumped(call.args), tuple(sorted((str(each.arg), ast.dump(each)) for each in call.keywords))
    arguments.apply_defaults()
    return ast.dump(call.func), _dumped(arguments.arguments)


def _dumped(value: object) -> object:
    if isinstance(value, ast.AST):
        return ast.dump(value)
    if isinstance(value, Mapping):
        return tuple(sorted((name, _dumped(each)) for name, each in value.items()))
    return tuple(map(_dumped, value)) if isinstance(value, list | tuple) else value


def _agree(one: Demand, other: Demand) -> bool:
    """Whether one result can satisfy both."""
    if one.error or other.error:
        kinds = [getattr(builtins, each.error, None) for each in (one, other)]
        first, second = (kind if isinstance(kind, type) else BaseException for kind in kinds)  # a foreign one may be any
        return bool(one.error and other.error) and (issubclass(first, second) or issubclass(second, first))
    if one.shown or other.shown:
        return one.shown == other.shown or (
            not (one.shown and other.shown) and _UNCLEAR.search(one.shown + other.shown) is not None
        )
    if one.value == other.value:
        return True
    match one.value, other.value:
        case (float() as number, float() | int() as near) | (int() as number, float() as near):
            with contextlib.suppress(OverflowError):  # such an integer is far from all floats
                return math.isclose(number, near, rel_tol=_CLOSE, abs_tol=_TINY)
    return False


def demands_of(tests: str, module: str, name: str) -> Iterator[Demand]:
    """The demands with which the test functions begin, if no other function of the module is tested and nothing prepares them.

    `tests` must parse.
    """
    tree = syntax.tree(tests)
    found = [each for each in taken(tree) if each.module == module and each.name]
    names = {each.spelled for each in found if each.name == name} | ({name} & unbound_in(tree))
    changed = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    changed |= defined | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    plain = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    if (
        any(each.name != name for each in found)
        or any(each.partition(".")[0] in changed for each in names)
        or any(not isinstance(node, plain) and not _is_text(node) for node in tree.body)
        or any(each.startswith(("setup", "pytestmark")) for each in bound_in(tree))
        or "autouse" in tests
    ):
        return
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test")}
    for function in functions.values():
        for number, case in enumerate(_cases(function)):
            for statement in function.body:
                if _is_text(statement):
                    continue
                demand = _demand(_filled(statement, case), names, name)
                if demand is None:
                    break
                yield replace(demand, where=function.name, case=number)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _cases(function: ast.FunctionDef) -> Iterator[Mapping[str, ast.expr]]:
    """The values of a test's parameters; none if they are not literal, or if something else decorates it."""
    names = [each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)]
    match function.decorator_list:
        case [] if not names:
            yield {}
        case [ast.Call(func=ast.Attribute(attr="parametrize"), args=[given, ast.List() | ast.Tuple() as values], keywords=[])]:
            try:
                told = ast.literal_eval(given)
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
                return
            named = [each.strip() for each in told.split(",")] if isinstance(told, str) else told
            if not (isinstance(named, list | tuple) and all(isinstance(each, str) for each in named)):
                return
            for value in values.elts:
                parts = value.elts if len(named) > 1 and isinstance(value, ast.List | ast.Tuple) else [value]
                if sorted(named) == sorted(names) and len(parts) == len(named):
                    yield dict(zip(named, parts, strict=True))


def _filled(statement: ast.stmt, case: Mapping[str, ast.expr]) -> ast.stmt:
    class Values(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return case.get(node.id, node)

    return Values().visit(copy.deepcopy(statement)) if case else statement


def _demand(statement: ast.stmt, names: set[str], name: str) -> Demand | None:
    """What a statement demands of the function; None if that is not plain, or without arguments, as of a counter."""
    match statement:
        case ast.Assert(test=ast.Compare(left=ast.Call() as call, ops=[ast.Eq() | ast.Is()], comparators=[value])):
            error = ""
        case ast.Assert(test=ast.Compare(left=value, ops=[ast.Eq()], comparators=[ast.Call() as call])):
            error = ""
        case ast.With(
            items=[ast.withitem(context_expr=ast.Call(func=raises, args=[ast.Name(id=error)]))],
            body=[ast.Expr(value=ast.Call() as call)],
        ) if spelled(raises) in ("pytest.raises", "raises"):
            value = ast.Constant(None)
        case _:
            return None
    if spelled(call.func) not in names or not (call.args or call.keywords):
        return None
    try:
        for each in (*call.args, *(keyword.value for keyword in call.keywords), value):
            result = ast.literal_eval(each)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return Demand(ast.Call(ast.Name(name, ast.Load()), call.args, call.keywords), error, result)
