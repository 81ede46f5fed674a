"""Checks a document against shapes, with the messages of GitHub's own validation.

A shape lists what one value may be. Knows nothing of workflows; their shapes are in `schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent.ci.expressions.evaluation import split
from agent.ci.expressions.functions import STATUS_FUNCTIONS, refusal
from agent.ci.expressions.parser import parse
from agent.ci.expressions.values import ExpressionError
from agent.ci.workflows.document import Items, Keys, Node, Scalar, WorkflowError, text_of

OPENING = "${{"


@dataclass(frozen=True, slots=True)
class Availability:
    """What expressions in one place can use: contexts by name, `hashFiles`, and the status functions of an `if`.

    A `condition` is an expression with or without `${{ }}`; a job's condition can query the status of jobs by their ids.
    """

    contexts: frozenset[str]
    hashing: bool = False
    condition: bool = False
    of_jobs: bool = False

    def refusal(self, function: str, count: int) -> str | None:
        """Why a function cannot be called here with so many arguments, as a clause."""
        if (function in STATUS_FUNCTIONS and not self.condition) or (function == "hashfiles" and not self.hashing):
            return "cannot be called here"
        if function in ("success", "failure") and self.of_jobs:
            return None
        return refusal(function, count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a value may be; every field that is set allows one more kind."""

    text: bool = False
    filled: bool = False  # text that is not empty
    words: frozenset[str] = frozenset()  # these texts
    number: bool = False
    flag: bool = False
    nothing: bool = False
    template: Availability | None = None  # `${{ … }}`, whatever its value would be
    anything: bool = False
    later: bool = False  # anything; checked later
    items: Shape | None = None
    keys: Mapping[str, Shape] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    others: Shape | None = None  # values of keys that are not in `keys`


def check(node: Node, shape: Shape) -> None:
    """Raises `WorkflowError` for the first value that does not fit."""
    if shape.later:
        return
    if isinstance(node, Scalar):
        _check_scalar(node, shape)
    elif isinstance(node, Items):
        if shape.items is None and not shape.anything:
            raise WorkflowError("A sequence was not expected.", node.line)
        for item in node.nodes:
            check(item, shape if shape.items is None else shape.items)
    else:
        _check_keys(node, shape)


def expressions(text: str, line: int | None = None) -> list[str]:
    """The expressions of a template, without their braces. Raises `WorkflowError` for one that is not closed or is empty."""
    try:
        found = [expression.strip() for expression in split(text)[1::2]]
    except ExpressionError:
        raise WorkflowError("The expression is not closed: a '${{' was found, but no '}}' after it.", line) from None
    if "" in found:
        raise WorkflowError("An expression was expected between '${{' and '}}'.", line)
    return found


def _check_scalar(node: Scalar, shape: Shape) -> None:
    value, place = node.value, shape.template
    inner = expressions(value, node.line) if isinstance(value, str) else []
    if inner and place is None and (shape.keys or shape.others is not None):
        raise WorkflowError("An expression in place of a whole mapping is not supported here.", node.line)
    if inner and place is None:
        raise WorkflowError("A template expression is not allowed in this context.", node.line)
    bare = place is not None and place.condition and not inner and text_of(value).strip()
    for expression in [text_of(value)] if bare else inner:
        assert place is not None
        try:
            parse(expression, place.contexts, place.refusal)
        except ExpressionError as error:
            raise WorkflowError(f"The expression cannot be read: {error}.", node.line) from None
    if inner:
        return
    fits = (
        shape.anything
        or (value is None and shape.nothing)
        or (isinstance(value, bool) and shape.flag)
        or (isinstance(value, int | float) and not isinstance(value, bool) and shape.number)
        or shape.text
        or (shape.filled and text_of(value) != "")
        or text_of(value) in shape.words
    )
    if not fits:
        raise WorkflowError(f"Unexpected value '{text_of(value)[:200]}'.", node.line)


def _check_keys(node: Keys, shape: Shape) -> None:
    if not shape.keys and shape.others is None and not shape.anything:
        raise WorkflowError("A mapping was not expected.", node.line)
    for entry in node.entries:
        inner = shape.keys.get(entry.key, shape if shape.anything else shape.others)
        if OPENING in entry.key:
            raise WorkflowError("An expression as a key is not supported.", entry.line)
        if inner is None:
            raise WorkflowError(f"Unexpected value '{entry.key[:200]}'.", entry.line)
        check(entry.value, inner)
    for key in shape.required:
        if node.get(key) is None:
            raise WorkflowError(f"Required property is missing: {key}.", node.line)
