"""Tokens to a tree, by precedence climbing. Knows which names and how many arguments are allowed only as far as it is told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final, Literal, NoReturn, cast

from agent.ci.expressions.errors import ExpressionError, quoted
from agent.ci.expressions.lexer import Kind, Token, tokens
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

DEPTH_LIMIT: Final = 50  # as at GitHub: groups, arguments, indexes, logical operators and negations inside each other

_LEVELS = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4}

Arity = Callable[[str, int], str | None]  # why a function, named in lower case, cannot be called with so many arguments


def parse(text: str, contexts: Collection[str], arity: Arity) -> Expression:
    """`contexts` in lower case. Raises `ExpressionError`."""
    return _Parser(text, contexts, arity).parse()


class _Parser:
    def __init__(self, text: str, contexts: Collection[str], arity: Arity) -> None:
        self._text, self._contexts, self._arity = text, contexts, arity
        self._tokens, self._at, self._depth = tokens(text), 0, 0
        self._calls: set[str] = set()

    def parse(self) -> Expression:
        root = self._expression()
        if self._next.kind != "end":
            self._unexpected()
        return Expression(self._text, root, frozenset(self._calls))

    def _expression(self) -> Node:
        with self._deeper():
            return self._operators(0)

    def _operators(self, above: int) -> Node:
        """A chain of the operators that bind stronger than level `above`."""
        left = self._unary()
        while (level := _LEVELS.get(self._next.kind, 0)) > above:
            position = self._next.position
            rest: list[tuple[str, Node]] = []
            logical = level <= _LEVELS["&&"]
            with self._deeper(logical):
                while _LEVELS.get(self._next.kind) == level:
                    rest.append((self._take().kind, self._operators(level)))
            if logical:
                operator = cast(Literal["&&", "||"], rest[0][0])
                left = Logical(operator, (left, *(operand for _, operand in rest)))
            else:
                left = Comparison(left, tuple(rest), position)
        return left

    def _unary(self) -> Node:
        if not self._accept("!"):
            return self._indexed()
        with self._deeper():
            return Not(self._unary())

    def _indexed(self) -> Node:
        node: Node
        if self._next.kind == "name":
            node = self._named(self._take())
        elif self._accept("("):
            node = self._expression()
            self._expect(")")
        elif self._next.kind == "literal":
            return LiteralValue(self._take().value)
        else:
            self._unexpected()
        outside = self._depth
        while self._next.kind in (".", "["):
            node = Index(node, self._property() if self._accept(".") else self._bracketed())
            self._enter()
        self._depth = outside
        return node

    def _named(self, name: Token) -> Node:
        lower = name.text.lower()
        if not self._accept("("):
            if lower not in self._contexts:
                raise ExpressionError(f"there is no context {quoted(name.text)} here", self._text, name.position)
            return ContextName(lower)
        arguments: list[Node] = []
        while not self._accept(")"):
            arguments.append(self._expression())
            if self._next.kind != ")":
                self._expect(",")
        if (why := self._arity(lower, len(arguments))) is not None:
            raise ExpressionError(f"{quoted(name.text)} {why}", self._text, name.position)
        self._calls.add(lower)
        return FunctionCall(lower, tuple(arguments), name.position)

    def _property(self) -> Node | None:
        if self._accept("*"):
            return None
        return LiteralValue(self._expect("name").text)

    def _bracketed(self) -> Node | None:
        self._expect("[")
        key = None if self._accept("*") else self._expression()
        self._expect("]")
        return key

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _accept(self, kind: Kind) -> bool:
        if self._next.kind != kind:
            return False
        self._at += 1
        return True

    def _expect(self, kind: Kind) -> Token:
        return self._take() if self._next.kind == kind else self._unexpected()

    def _unexpected(self) -> NoReturn:
        token = self._next
        raise ExpressionError(
            "unexpected end" if token.kind == "end" else f"unexpected {quoted(token.text)}", self._text, token.position
        )

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_LIMIT:
            raise ExpressionError(f"the expression is nested deeper than {DEPTH_LIMIT} levels", self._text, self._next.position)

    @contextmanager
    def _deeper(self, counted: bool = True) -> Iterator[None]:
        if counted:
            self._enter()
        yield
        self._depth -= counted
