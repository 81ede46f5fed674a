"""Evaluates the tree of an expression."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from agent.ci.expressions import functions
from agent.ci.expressions.errors import ExpressionError, Meter
from agent.ci.expressions.scope import Scope
from agent.ci.expressions.syntax import (
    Comparison,
    ContextName,
    Expression,
    FunctionCall,
    Index,
    LiteralValue,
    Logical,
    Node,
    Not,
)
from agent.ci.expressions.values import Filtered, Known, Unknown, Value, compare, equal, is_primitive, number, text, truth


class Evaluator:
    """Evaluates expressions in one scope, on one meter."""

    def __init__(self, scope: Scope) -> None:
        self._scope, self._meter = scope, Meter()
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
        """`_MISSING` where there is none."""
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


_MISSING = Filtered()  # known by its identity alone


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
