"""Text to tokens."""

from __future__ import annotations

import math
import string
from dataclasses import dataclass
from typing import Final, Literal, NoReturn, TypeAlias

from agent.ci.expressions import numbers
from agent.ci.expressions.errors import ExpressionError, quoted
from agent.ci.expressions.values import Primitive

LENGTH_LIMIT: Final = 21_000  # characters of one expression, as at GitHub

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
    """The tokens of `text`, closed by one of kind "end". Raises `ExpressionError`."""
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
        number = numbers.parsed(word)
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
            raise ExpressionError("a text in single quotes is not closed", text, at + 1)
        if text[end + 1 : end + 2] != "'":
            break
        end += 2  # a doubled quote stands for one
    return Token("literal", text[at : end + 1], at + 1, text[at + 1 : end].replace("''", "'"))


def _unexpected(text: str, at: int, word: str) -> NoReturn:
    raise ExpressionError(f"unexpected {quoted(word)}", text, at + 1)
