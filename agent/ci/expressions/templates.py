"""Expressions where a workflow has them: bare, in a text with any number of `${{ }}`, and as a condition."""

from __future__ import annotations

from agent.ci.expressions.errors import ExpressionError, within
from agent.ci.expressions.evaluation import Evaluator
from agent.ci.expressions.functions import STATUS_FUNCTIONS, refusal
from agent.ci.expressions.lexer import LENGTH_LIMIT
from agent.ci.expressions.parser import parse
from agent.ci.expressions.scope import Scope
from agent.ci.expressions.syntax import Expression
from agent.ci.expressions.values import Unknown, Value, text, truth


def evaluate(text: str, scope: Scope) -> Value:
    """The value of what stands inside `${{ }}`, or of a bare `if:`. Raises `ExpressionError`."""
    evaluator = Evaluator(scope)
    return evaluator.value(_parse(text, evaluator))


def render(template: str, scope: Scope) -> str | Unknown:
    """`template` with each `${{ }}` replaced by its value as text; the first `Unknown` it needs. Raises `ExpressionError`."""
    evaluator = Evaluator(scope)
    return _rendered(_fragments(template, evaluator), evaluator)


def value_of(template: str, scope: Scope) -> Value:
    """As `render`, but what is exactly one `${{ }}` keeps the type of its value. Raises `ExpressionError`."""
    evaluator = Evaluator(scope)
    pieces = _fragments(template, evaluator)
    if len(pieces) == 1 and isinstance(pieces[0], Expression):
        return evaluator.value(pieces[0])
    return _rendered(pieces, evaluator)


def condition(text: str | None, scope: Scope) -> bool | Unknown:
    """Whether an `if:` holds: `success() &&` goes before one that calls no status function. Raises `ExpressionError`.

    A `${{ }}` with more text around it makes a text, as at GitHub: one that is not empty, so that it always holds.
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
    # GitHub makes one call of `format` of several pieces: the limit is that of one expression.
    size = sum(len(piece) + sum(map(piece.count, "'{}")) for piece in pieces[0::2])
    size += sum(len("{0}, ") + len(piece.strip()) for piece in pieces[1::2])
    if size > LENGTH_LIMIT and sum(map(bool, pieces)) > 1:
        raise ExpressionError(f"the text with its expressions is longer than {LENGTH_LIMIT} characters")
    parsed = [_parse(piece, evaluator) if at % 2 else piece for at, piece in enumerate(pieces)]
    return [piece for piece in parsed if piece != ""]


def split(template: str) -> list[str]:
    """Text and expressions by turns: the pieces with odd indexes stand inside `${{ }}`. Raises `ExpressionError`."""
    pieces: list[str] = []
    at = 0
    while (start := template.find("${{", at)) >= 0:
        end = _closing(template, start)
        pieces += [template[at:start], template[start + 3 : end]]
        at = end + 2
    return [*pieces, template[at:]]


def _closing(template: str, start: int) -> int:
    """Where the `}}` of the expression that opens at `start` stands; one in a text in single quotes does not count."""
    at = start + 3
    while True:
        end = template.find("}}", at)
        if end < 0:
            raise ExpressionError("a ${{ is not closed by }}", template, start + 1)
        quote = template.find("'", at, end)
        if quote < 0:
            return end
        # A doubled quote closes one text and opens the next, which comes to the same.
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
