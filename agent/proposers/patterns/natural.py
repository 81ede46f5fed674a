"""Refuses mutations that nobody would write, although tests may pass with them: they satisfy the tests by accident. Pure.

A mutation is unnatural if it brings in something that the code did not have before: an operation without effect, a comparison
that always gives the same, the same operand twice, texts in an order, a number that is no longer round, a statement that does
nothing, a parameter or variable that nobody reads any more.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Iterator

from agent.proposers.patterns.misplaced import is_misplaced
from agent.proposers.patterns.results import is_wrong_result
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, assigned, each_of, parameters
from agent.source import syntax

LONGEST = 2_000  # characters of a statement that is looked at
ROUND = 1000  # smaller numbers are not called round
NEUTRAL = {ast.Add: 0, ast.Sub: 0, ast.BitOr: 0, ast.BitXor: 0, ast.LShift: 0, ast.RShift: 0,
           ast.Mult: 1, ast.Div: 1, ast.FloorDiv: 1, ast.Mod: 1, ast.Pow: 1}  # fmt: skip
NEUTRAL_LEFT = {ast.Add: 0, ast.BitOr: 0, ast.BitXor: 0, ast.Mult: 1}
CANCELLING = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.BitXor, ast.BitAnd, ast.BitOr)
# Methods that only answer: their call alone is a statement without effect.
ASKING = frozenset({"get", "keys", "values", "items", "copy", "lower", "upper", "strip", "lstrip", "rstrip", "split", "rsplit",
                    "startswith", "endswith", "find", "rfind", "index", "count", "join", "replace", "format", "encode",
                    "decode", "title", "partition", "union", "intersection", "difference"})  # fmt: skip
PARTING = frozenset({"split", "rsplit", "partition", "rpartition"})
# Nobody asks whether a value is one of these.
NO_TYPES = frozenset({"reversed", "sorted", "iter", "len", "sum", "min", "max", "any", "all", "abs", "round", "repr", "object",
                      "Generic", "Protocol", "ABC"})  # fmt: skip
# A comparison with an operand that is shifted by one has another operator instead.
SHIFTS = {ast.Gt: ast.Sub, ast.GtE: ast.Add, ast.Lt: ast.Add, ast.LtE: ast.Sub}
SHIFTED = "another operator, written as a shift by one"
SHIFTS_LEFT = {ast.Gt: ast.Add, ast.GtE: ast.Sub, ast.Lt: ast.Sub, ast.LtE: ast.Add}
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_Unit = ast.expr | ast.stmt


def naturally(source: Source, node: ast.AST, *, may_forget: bool = False) -> Callable[[Rewrite], bool]:
    """Tells which rewrites of the node somebody could have written; with `may_forget`, a name may become unused."""

    def is_natural(rewrite: Rewrite) -> bool:
        unit = _unit(source, node, rewrite)
        if unit is None:
            return True
        start, end = source.span(unit)
        after = _parsed(source, unit, source.text[start : rewrite.start] + rewrite.text + source.text[rewrite.end : end])
        if after is None:
            return True
        if (
            _offences(after) - source.once(_own_offences, unit)
            or is_misplaced(source, unit, after)
            or is_wrong_result(source, unit, after)
        ):
            return False
        return may_forget or not _forgets_a_name(source, unit, after)

    return is_natural


def _unit(source: Source, node: ast.AST, rewrite: Rewrite) -> _Unit | None:
    """The largest expression or the smallest statement that contains the rewrite; None if it is too long to look at."""
    found: _Unit | None = None
    for each in (node, *source.above(node)):
        if not isinstance(each, ast.expr | ast.stmt):
            continue
        if isinstance(each, ast.stmt) and found is not None:
            break
        start, end = source.span(each)
        if start <= rewrite.start and rewrite.end <= end:
            if end - start > LONGEST:
                break
            found = each
            if isinstance(each, ast.stmt):
                break
    # What an expression does can depend on its statement: one without effect, an assignment to itself, a raised text, a result.
    parent = source.parents.get(found) if isinstance(found, ast.expr) else None
    if isinstance(parent, ast.Expr | ast.Assign | ast.Raise | ast.Return) and len(source.segment(parent)) <= LONGEST:
        return parent
    return found


def _parsed(source: Source, unit: _Unit, text: str) -> ast.AST | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            if isinstance(unit, ast.expr):
                return syntax.expression(f"({text}\n)").body
            space = source.indent(unit)
            return syntax.tree(f"if 1:\n{space}{text}" if space and not space.strip() else text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _own_offences(source: Source, unit: _Unit) -> Counter[str]:
    parsed = _parsed(source, unit, source.segment(unit))
    if parsed is None:
        return Counter()
    found = _offences(parsed)
    # What is shifted by one already may get any other operator.
    found[SHIFTED] = sum(_is_shift(node, sign) for node in ast.walk(parsed) for sign in (ast.Add, ast.Sub))
    return found


def _offences(tree: ast.AST) -> Counter[str]:
    """What nobody would write on purpose, with the number of times; and the numbers that are nearly round."""
    nodes = (node for node in ast.walk(tree) if not isinstance(node, ast.Name | ast.expr_context))  # most of them are
    return Counter(itertools.chain.from_iterable(map(_in_node, nodes)))


def _in_node(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            if _is_number(right, NEUTRAL.get(type(op))) or _is_number(left, NEUTRAL_LEFT.get(type(op))):
                yield "no effect"
            elif isinstance(op, CANCELLING) and ast.dump(left) == ast.dump(right):
                yield "an operand with itself"
            elif isinstance(op, ast.Add) and isinstance(left, ast.Name) and ast.dump(left) == ast.dump(right):
                yield "an operand with itself"  # `2 * a`
            elif isinstance(op, ast.Add | ast.Sub) and (_is_negated(left) or _is_negated(right) or _is_negative(right)):
                yield "a negated operand"  # `(-a) + b` is `b - a`, and `a - -1` is `a + 1`
            elif isinstance(op, ast.Mult) and (_is_number(left, 0) or _is_number(right, 0)):
                yield "always zero"
        case ast.Call(func=ast.Name(id="abs"), args=[value]) if _is_never_negative(value):
            yield "no effect"
        case ast.Call(func=ast.Attribute(attr="replace"), args=[one, other]) if ast.dump(one) == ast.dump(other):
            yield "no effect"
        case ast.Call(args=[one, other]) if isinstance(one, ast.Attribute) and ast.dump(one) == ast.dump(other):
            yield "an operand with itself"
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, asked]):
            types = list(map(ast.unparse, each_of(asked)))
            if len(set(types)) < len(types):
                yield "an operand with itself"
            if not NO_TYPES.isdisjoint(types):
                yield "no type"
        case ast.AugAssign(op=op, value=value) if _is_number(value, NEUTRAL.get(type(op))):
            yield "no effect"
        case ast.BoolOp(values=values):
            if len({ast.dump(value) for value in values}) < len(values):
                yield "an operand with itself"
            if any(isinstance(value, ast.Constant) for value in values[:-1]):
                yield "a constant condition"
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            operands = [left, *comparators]
            for one, sign, other in zip(operands, ops, comparators, strict=False):
                yield from _in_comparison(one, sign, other)
        case ast.If(test=test) | ast.IfExp(test=test) if isinstance(test, ast.Constant) or _is_never_empty(test):
            yield "a constant condition"
        case ast.IfExp(body=body, orelse=orelse) if ast.dump(body) == ast.dump(orelse):
            yield "both branches alike"
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            own: set[str] = set()
            for loop in node.generators:
                own |= {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
                if any(own.isdisjoint(_reads_in(each)) for each in loop.ifs):
                    yield "a condition that is the same for all items"
        case ast.For(body=[_, *_, ast.Break()]) | ast.While(body=[_, *_, ast.Break()]) | ast.For(body=[ast.Break()]):
            if not any(isinstance(each, ast.Continue) for each in ast.walk(node)):
                yield "a loop that never loops"
        case ast.Assign(targets=[target], value=value) if _is_alike(target, value):
            yield "an assignment to itself"
        case ast.Assign(value=ast.Name(id="self" | "cls")):
            yield "the object for one of its values"
        case ast.Expr(value=value) if _does_nothing(value):
            yield "a statement without effect"
        case ast.Raise(exc=ast.expr() as raised) if _is_no_exception(raised):
            yield "no exception"
        case ast.Constant(value=int(number)) if type(number) is int and _is_nearly_round(number):
            yield f"nearly round: {number}"


def _in_comparison(one: ast.expr, op: ast.cmpop, other: ast.expr) -> Iterator[str]:
    texts = [each.value for each in (one, other) if isinstance(each, ast.Constant) and isinstance(each.value, str | bytes)]
    is_made = any(map(_is_made_text, (one, other)))
    if isinstance(op, ORDERED) and (is_made or not all(map(_begins_a_range, texts))):
        yield "texts in an order"
    if (
        isinstance(op, ORDERED)
        and isinstance(one, ast.Attribute)
        and isinstance(other, ast.Attribute)
        and one.attr == other.attr
    ):
        yield "an order of two objects"  # `a.value == b.value` asks whether they are alike
    if isinstance(one, ast.Constant) and isinstance(other, ast.Constant):
        yield "always the same"
    elif ast.dump(one) == ast.dump(other) and not (isinstance(op, ast.NotEq) and isinstance(one, ast.Name)):
        # `x != x` asks for NaN.
        yield "an operand with itself"
    if _is_shift(other, SHIFTS.get(type(op))) or _is_shift(one, SHIFTS_LEFT.get(type(op))):
        yield SHIFTED
    if isinstance(op, ast.Lt | ast.LtE | ast.GtE) and _is_negative(other) and ast.unparse(other) == "-1":
        yield "an order around -1"  # `> -1` is how some ask for an index
    for size, number, ways in ((one, other, (ast.Lt, ast.GtE)), (other, one, (ast.Gt, ast.LtE))):
        if _is_size(size) and ((isinstance(op, ways) and _is_number(number, 0)) or _is_negative(number)):
            yield "always the same"


def _begins_a_range(text: str | bytes) -> bool:
    """Whether one usually compares characters with it for a range, as in `"a" <= c` and `c < " "`."""
    character = text.decode("latin-1") if isinstance(text, bytes) else text
    return len(character) == 1 and (character.isalnum() or character.isspace() or not character.isprintable())


def _is_alike(target: ast.expr, value: ast.expr) -> bool:
    return type(target) is type(value) and ast.unparse(target) == ast.unparse(value)


def _is_shift(node: ast.AST, sign: type[ast.operator] | None) -> bool:
    """`a > b - 1` is `a >= b`, for whole numbers."""
    return sign is not None and isinstance(node, ast.BinOp) and isinstance(node.op, sign) and _is_number(node.right, 1)


def _is_made_text(node: ast.expr) -> bool:
    """A value that is turned into a text, as in `str(total) >= str(0)`."""
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(node, ast.JoinedStr) or (isinstance(called, ast.Name) and called.id in ("str", "repr", "bin", "hex"))


def _is_size(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len"


def _is_number(node: ast.AST, number: int | None) -> bool:
    return number is not None and isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == number


def _is_negative(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)


def _is_never_negative(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="len" | "abs")):
            return True
        case ast.Call(func=ast.Name(id="max"), args=parts):
            return any(map(_is_never_negative, parts))
        case ast.Call(func=ast.Name(id="min"), args=[_, *_] as parts):
            return all(map(_is_never_negative, parts))
        case ast.Constant(value=int() | float() as number):
            return number >= 0
    return False


def _is_never_empty(node: ast.AST) -> bool:
    """The parts of a text between separators: there is at least one."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name), args=[ast.Constant(value=str()), *_]):
            return name in PARTING
    return False


def _is_negated(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant)


def _does_nothing(value: ast.expr) -> bool:
    """Docstrings and `...` do nothing either, but people write them."""
    if isinstance(value, ast.Constant):
        return not (value.value is Ellipsis or (isinstance(value.value, str) and len(value.value) > 10))
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ASKING:
        return True
    acting = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
    return not any(isinstance(node, acting) for node in ast.walk(value))


def _is_no_exception(raised: ast.expr) -> bool:
    """Raising it gives a `TypeError` instead: a constant, an operation, the result of a builtin function such as `str`."""
    called = raised.func if isinstance(raised, ast.Call) else None
    if isinstance(called, ast.Name) and (known := getattr(builtins, called.id, None)) is not None:
        return not (isinstance(known, type) and issubclass(known, BaseException))
    return isinstance(
        raised, ast.Constant | ast.JoinedStr | ast.BinOp | ast.UnaryOp | ast.Compare | ast.Tuple | ast.List | ast.Dict
    )


def _is_nearly_round(number: int) -> bool:
    """Whether it is one more than a large round number, such as 1000001. One less than a limit is common, and so is 101."""
    return number > ROUND and str(number - 1).rstrip("0") in tuple("123456789")


def _forgets_a_name(source: Source, unit: _Unit, after: ast.AST) -> bool:
    """Whether a parameter, an inner function, or a local variable that is assigned by itself was read here only, and is not
    read any more."""
    function = source.function(unit)
    if function is None or unit in function.decorator_list:
        return False
    lost = source.once(_reads, unit).keys() - _reads_in(after).keys()
    if not lost:
        return False
    everywhere = source.once(_reads, function)
    return any(everywhere[name] == source.once(_reads, unit)[name] for name in lost & source.once(_made_to_be_read, function))


def _made_to_be_read(source: Source, function: FunctionNode) -> set[str]:
    """Loops, `with` and unpacking often make a variable that nobody reads; an assignment of one variable does not."""
    inner = {each.name for each in ast.walk(function) if isinstance(each, FunctionNode) and each is not function}
    return {*parameters(function), *assigned(function), *inner}


def _reads(source: Source, node: ast.stmt | ast.expr | FunctionNode) -> Counter[str]:
    return _reads_in(node)


def _reads_in(tree: ast.AST) -> Counter[str]:
    return Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
