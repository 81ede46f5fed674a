"""Evaluates expressions in every form that a workflow has: bare, in text with any number of `${{ }}`, and as a condition."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agent.ci.expressions import functions
from agent.ci.expressions.functions import STATUS_FUNCTIONS, refusal
from agent.ci.expressions.parser import (
    LENGTH_LIMIT,
    Comparison,
    ContextName,
    Expression,
    FunctionCall,
    Index,
    LiteralValue,
    Logical,
    Node,
    Not,
    parse,
)  # fmt: skip
from agent.ci.expressions.values import (
    ExpressionError,
    Filtered,
    Known,
    Scope,
    Unknown,
    Value,
    WorkMeter,
    compare,
    equal,
    is_primitive,
    number,
    text,
    truth,
    within,
)


def evaluate(text: str, scope: Scope) -> Value:
    """The value of the expression inside `${{ }}`, or of a bare `if:`. Raises `ExpressionError`."""
    evaluator = Evaluator(scope)
    return evaluator.value(_parse(text, evaluator))


def render(template: str, scope: Scope) -> str | Unknown:
    """`template` with each `${{ }}` replaced by its value, or the first `Unknown` it needs. Raises `ExpressionError`."""
    evaluator = Evaluator(scope)
    return _rendered(_fragments(template, evaluator), evaluator)


def value_of(template: str, scope: Scope) -> Value:
    """As `render`, but a template that is exactly one `${{ }}` keeps the type of its value. Raises `ExpressionError`."""
    evaluator = Evaluator(scope)
    pieces = _fragments(template, evaluator)
    if len(pieces) == 1 and isinstance(pieces[0], Expression):
        return evaluator.value(pieces[0])
    return _rendered(pieces, evaluator)


def condition(text: str | None, scope: Scope) -> bool | Unknown:
    """Whether an `if:` holds. A condition without a status function is read as `success() && …`. Raises `ExpressionError`.

    As on GitHub, a `${{ }}` with more text around it becomes a non-empty string, so the condition always holds.
    """
    if text is None or not text.strip():
        return scope.status == "success"
    evaluator = Evaluator(scope)
    pieces: list[str | Expression]
    pieces = _fragments(text, evaluator) if "${{" in text else [_parse(text, evaluator)]
    expressions = [piece for piece in pieces if isinstance(piece, Expression)]
    if scope.status != "success" and not any(STATUS_FUNCTIONS & expression.calls for expression in expressions):
        return False
    value = evaluator.value(expressions[0]) if len(pieces) == 1 else _rendered(pieces, evaluator)
    true = truth(value) if len(expressions) == len(pieces) else True
    return Unknown(value.what) if isinstance(value, Unknown) and true is None else bool(true)


def _parse(text: str, evaluator: Evaluator) -> Expression:
    return parse(text, evaluator.contexts, refusal)


def _fragments(template: str, evaluator: Evaluator) -> list[str | Expression]:
    pieces = split(template)
    # GitHub turns several pieces into one call of `format`, so the limit of one expression applies.
    size = sum(len(piece) + sum(map(piece.count, "'{}")) for piece in pieces[0::2])
    size += sum(len("{0}, ") + len(piece.strip()) for piece in pieces[1::2])
    if size > LENGTH_LIMIT and sum(map(bool, pieces)) > 1:
        raise ExpressionError(f"the text with its expressions is longer than {LENGTH_LIMIT} characters")
    parsed = [_parse(piece, evaluator) if at % 2 else piece for at, piece in enumerate(pieces)]
    return [piece for piece in parsed if piece != ""]


def split(template: str) -> list[str]:
    """Alternating text and expressions: the pieces at odd indexes are inside `${{ }}`. Raises `ExpressionError`."""
    pieces: list[str] = []
    at = 0
    while (start := template.find("${{", at)) >= 0:
        end = _closing(template, start)
        pieces += [template[at:start], template[start + 3 : end]]
        at = end + 2
    return [*pieces, template[at:]]


def _closing(template: str, start: int) -> int:
    """The position of the `}}` that closes the expression at `start`; a `}}` inside single quotes does not count."""
    at = start + 3
    while True:
        end = template.find("}}", at)
        if end < 0:
            raise ExpressionError("a ${{ is not closed by }}", template, start + 1)
        quote = template.find("'", at, end)
        if quote < 0:
            return end
        # A doubled quote is read as closing one string and opening the next, which has the same effect.
        at = template.find("'", quote + 1) + 1
        if not at:
            raise ExpressionError("a ${{ is not closed by }}", template, start + 1)


def _rendered(pieces: list[str | Expression], evaluator: Evaluator) -> str | Unknown:
    parts: list[str] = []
    size = 0
    for piece in pieces:
        value = piece if isinstance(piece, str) else evaluator.value(piece)
        if isinstance(value, Unknown):
            return Unknown(value.what)
        parts.append(text(value))
        size += len(parts[-1])
        within(size)
    return "".join(parts)


class Evaluator:
    """Evaluates expressions in one scope, with one meter for their work."""

    def __init__(self, scope: Scope) -> None:
        self._scope, self._meter = scope, WorkMeter()
        self._contexts = {name.lower(): value for name, value in scope.contexts.items()}
        # The keys of objects in lower case; the object is kept so that its id stays unique.
        self._keys: dict[int, tuple[Mapping[str, Value], dict[str, str]]] = {}
        self._text = ""

    @property
    def contexts(self) -> frozenset[str]:
        """The names that an expression can use, in lower case."""
        return frozenset(self._contexts)

    def value(self, expression: Expression) -> Value:
        """Raises `ExpressionError`."""
        self._text = expression.text
        try:
            return self._value(expression.root)
        except ExpressionError as error:
            raise error.placed(expression.text, 1) from None

    def _value(self, node: Node) -> Value:
        self._meter.spend(1)
        match node:
            case LiteralValue(constant):
                return constant
            case ContextName(name):
                return self._contexts[name]
            case Index(base, None):
                return self._filtered(self._value(base))
            case Index(base, key) if key is not None:
                wanted = self._value(key)
                return self._indexed(self._value(base), wanted)
            case Not(operand):
                value = self._value(operand)
                true = truth(value)
                return Unknown(value.what) if isinstance(value, Unknown) and true is None else not true
            case Logical():
                return self._logical(node)
            case Comparison():
                return self._compared(node)
            case FunctionCall(name, arguments, position):
                values = [self._value(argument) for argument in arguments]
                try:
                    return functions.call(name, values, self._scope, self._meter)
                except ExpressionError as error:
                    raise error.placed(self._text, position) from None
        raise TypeError(node)

    def _logical(self, node: Logical) -> Value:
        """The operand that decides. After an unknown operand, at most the truth of the result is known."""
        decisive = node.operator == "||"
        doubt: Unknown | None = None
        value: Value = None
        for operand in node.operands:
            try:
                value = self._value(operand)
            except ExpressionError:
                if doubt is None:
                    raise
                return doubt  # GitHub may not evaluate this operand
            true = truth(value)
            if true is decisive:
                return Unknown(doubt.what, decisive) if doubt else value
            if true is None and doubt is None and isinstance(value, Unknown):
                doubt = Unknown(value.what)
        return doubt or value

    def _compared(self, node: Comparison) -> Value:
        left = self._value(node.first)
        for operator, operand in node.rest:
            right = self._value(operand)
            self._meter.spend(sum(len(side) for side in (left, right) if isinstance(side, str)))
            if isinstance(left, Unknown):
                left = Unknown(left.what)
            elif isinstance(right, Unknown):
                left = Unknown(right.what)
            else:
                left = _holds(left, operator, right)
        return left

    def _filtered(self, base: Value) -> Value:
        if isinstance(base, Unknown):
            return Unknown(f"{base.what}.*")
        members: list[Value] = []
        for array in base if isinstance(base, Filtered) else (base,):
            if isinstance(array, Unknown):
                return Unknown(f"{array.what}.*")
            members += _members(array)
            self._meter.spend(1)
        self._meter.spend(len(members))
        return Filtered(members)

    def _indexed(self, base: Value, key: Value) -> Value:
        if isinstance(base, Unknown):
            named = isinstance(key, str | int | float) and not isinstance(key, bool)
            return Unknown(f"{base.what}.{text(key)}" if named and not isinstance(key, Unknown) else base.what)
        if isinstance(key, Unknown):
            return None if is_primitive(base) else Unknown(key.what)
        if not isinstance(base, Filtered):
            found = self._member(base, key)
            return None if found is _MISSING else found
        members: list[Value] = []
        for member in base:
            self._meter.spend(1)
            found = self._indexed(member, key) if isinstance(member, Unknown) else self._member(member, key)
            if found is not _MISSING:
                members.append(found)
        return Filtered(members)

    def _member(self, base: Known, key: Known) -> Value:
        """The member, or `_MISSING` if there is none."""
        if isinstance(base, Mapping):
            if not is_primitive(key):
                return _MISSING
            name = text(key)
            if name in base:
                return base[name]
            actual = self._lowered(base).get(name.lower())
            return _MISSING if actual is None else base[actual]
        if isinstance(base, Sequence) and not isinstance(base, str):
            at = number(key)
            if math.isfinite(at) and 0 <= at < len(base):
                return base[int(at)]
        return _MISSING

    def _lowered(self, base: Mapping[str, Value]) -> dict[str, str]:
        if id(base) not in self._keys:
            self._meter.spend(len(base))
            lowered: dict[str, str] = {}
            for key in base:
                lowered.setdefault(key.lower(), key)
            self._keys[id(base)] = (base, lowered)
        return self._keys[id(base)][1]


_MISSING = Filtered()  # recognized by its identity only


def _members(value: Known) -> list[Value]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []


def _holds(left: Known, operator: str, right: Known) -> bool:
    match operator:
        case "==":
            return equal(left, right)
        case "!=":
            return not equal(left, right)
        case "<" | "<=":
            return compare(left, "<", right) or (operator == "<=" and equal(left, right))
        case _:
            return compare(left, ">", right) or (operator == ">=" and equal(left, right))
