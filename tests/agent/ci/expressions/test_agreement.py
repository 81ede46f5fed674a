"""Whether our reading of expressions is GitHub's: the same values, and the same refusals."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agent.ci.expressions import ExpressionError, Scope, Unknown, Value, evaluate
from tests.agent.ci.expressions.corpus import CONTEXTS, expressions
from tests.judges.node import Judge


@pytest.mark.optional(reason="needs node and GitHub's packages from npm")
def test_every_expression_has_the_value_that_github_s_own_package_gives_it(judge: Judge) -> None:
    texts = expressions()
    answers = judge.answer("expressions.mjs", {"contexts": CONTEXTS, "expressions": texts})
    assert len(texts) == len(answers) > 600
    refused = sum("error" in answer for answer in answers)
    assert refused > 100
    assert len(answers) - refused > 500
    differences = [
        (text, answer, ours)
        for text, answer in zip(texts, answers, strict=True)
        if (ours := _ours(text)) != answer.get("value", REFUSED)
    ]
    assert not differences, f"{len(differences)} of {len(texts)}: " + "\n".join(str(each)[:300] for each in differences[:20])


REFUSED = "«refused»"


def _ours(text: str) -> Any:
    try:
        return _plain(evaluate(text, Scope(CONTEXTS)))
    except ExpressionError:
        return REFUSED


def _plain(value: Value) -> Any:
    """As the judge's script writes values."""
    assert not isinstance(value, Unknown)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return {"number": "NaN" if math.isnan(value) else struct.pack(">d", value).hex()}
    if isinstance(value, Mapping):
        return {"object": [[key, _plain(member)] for key, member in value.items()]}
    assert isinstance(value, Sequence)
    return [_plain(member) for member in value]
