"""Turns text into tokens, and tokens into a tree by precedence climbing.

The caller says which names and how many arguments are allowed. A chain of operators is one node, so long texts do not make deep
trees.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, NoReturn, TypeAlias, cast

from agent.ci.expressions.values import ExpressionError, Primitive, parsed_number, quoted


@dataclass(frozen=True, slots=True)
class LiteralValue:
    value: Primitive


@dataclass(frozen=True, slots=True)
class ContextName:
    name: str  # in lower case


@dataclass(frozen=True, slots=True)
class Index:
    """`base[key]`, `base.key`; without a key the object filter, `base.*`."""

    base: Node
    key: Node | None


@dataclass(frozen=True, slots=True)
class Not:
    operand: Node


@dataclass(frozen=True, slots=True)
class Logical:
    operator: Literal["&&", "||"]
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`first`, then each operator with its right operand, from left to right; `position` is that of the first operator."""

    first: Node
    rest: tuple[tuple[str, Node], ...]
    position: int


@dataclass(frozen=True, slots=True)
class FunctionCall:
    name: str  # in lower case
    arguments: tuple[Node, ...]
    position: int


Node: TypeAlias = LiteralValue | ContextName | Index | Not | Logical | Comparison | FunctionCall


@dataclass(frozen=True, slots=True)
class Expression:
    text: str
    root: Node
    calls: frozenset[str]  # the functions it names, in lower case


LENGTH_LIMIT: Final = 21_000  # characters of one expression, as on GitHub

_DOUBLE = ("==", "!=", "<=", ">=", "&&", "||")
_SINGLE = "()[],!<>*"
_BOUNDARIES = frozenset("()[],.!<>=&|")
_NAME_START = frozenset(string.ascii_letters + "_")
_NAME = _NAME_START | frozenset(string.digits + "-")
_KEYWORDS: dict[str, Primitive] = {"true": True, "false": False, "null": None, "NaN": math.nan, "Infinity": math.inf}

Kind: TypeAlias = Literal["name", "literal", "end"] | str  # or the operator itself


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    position: int  # characters, from 1
    value: Primitive = None  # of a literal


def tokens(text: str) -> list[Token]:
    """The tokens of `text`, followed by one of kind "end". Raises `ExpressionError`."""
    if len(text) > LENGTH_LIMIT:
        raise ExpressionError(f"the expression is longer than {LENGTH_LIMIT} characters", text, LENGTH_LIMIT + 1)
    found: list[Token] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        token = _token(text, at, found[-1].kind if found else "end")
        found.append(token)
        at += len(token.text)
    found.append(Token("end", "", len(text) + 1))
    return found


def _token(text: str, at: int, before: Kind) -> Token:
    character = text[at]
    if text[at : at + 2] in _DOUBLE:
        return Token(text[at : at + 2], text[at : at + 2], at + 1)
    if character in _SINGLE or (character == "." and before in ("name", ")", "]", "*")):
        return Token(character, character, at + 1)
    if character == "'":
        return _text(text, at)
    numeric = character in "+-." or character in string.digits
    end = at + 1
    while end < len(text) and not text[end].isspace() and (text[end] not in _BOUNDARIES or (numeric and text[end] == ".")):
        end += 1
    word = text[at:end]
    if numeric:
        number = parsed_number(word)
        return _unexpected(text, at, word) if math.isnan(number) else Token("literal", word, at + 1, number)
    if word in _KEYWORDS and before != ".":
        return Token("literal", word, at + 1, _KEYWORDS[word])
    if character not in _NAME_START or not _NAME.issuperset(word):
        _unexpected(text, at, word)
    return Token("name", word, at + 1)


def _text(text: str, at: int) -> Token:
    end = at + 1
    while True:
        end = text.find("'", end)
        if end < 0:
            raise ExpressionError("a string in single quotes is not closed", text, at + 1)
        if text[end + 1 : end + 2] != "'":
            break
        end += 2  # a doubled quote stands for one
    return Token("literal", text[at : end + 1], at + 1, text[at + 1 : end].replace("''", "'"))


def _unexpected(text: str, at: int, word: str) -> NoReturn:
    raise ExpressionError(f"unexpected {quoted(word)}", text, at + 1)


DEPTH_LIMIT: Final = 50  # nested groups, arguments, indexes, logical operators and negations, as on GitHub

_LEVELS = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4}

Arity = Callable[[str, int], str | None]  # why a function, named in lower case, cannot be called with so many arguments


def parse(text: str, contexts: Collection[str], arity: Arity) -> Expression:
    """Parse `text`; the names in `contexts` are in lower case. Raises `ExpressionError`."""
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
        """A chain of the operators that bind more tightly than level `above`."""
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
                raise ExpressionError(f"the context {quoted(name.text)} is not available here", self._text, name.position)
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
