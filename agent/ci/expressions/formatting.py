"""`format`: `{0}` stands for the first value, `{{` and `}}` for the braces themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.expressions.bounds import within
from agent.ci.expressions.errors import ExpressionError, quoted
from agent.ci.expressions.values import Unknown, Value, text

# GitHub reads past whatever stands between the number and the closing brace.
_PART = re.compile(r"(?P<plain>[^{}]+)|(?P<brace>\{\{|\}\})|\{(?P<number>[0-9]+)[^}]*\}")


def formatted(template: str, values: Sequence[Value]) -> str | Unknown:
    """Unknown where a value that the template uses is. Raises `ExpressionError`."""
    parts: list[str] = []
    at = size = 0
    while at < len(template):
        found = _PART.match(template, at)
        if found is None:
            raise ExpressionError(f"format is given {quoted(template)}, which has a brace without its partner or number")
        part = found["plain"] or (found["brace"] or "")[:1]
        if found["number"] is not None:
            value = _numbered(found["number"], values)
            if isinstance(value, Unknown):
                return value
            part = text(value)
        size += len(part)
        within(size)
        parts.append(part)
        at = found.end()
    return "".join(parts)


def _numbered(digits: str, values: Sequence[Value]) -> Value:
    short = digits.lstrip("0") or "0"
    if len(short) > 4 or int(short) >= len(values):
        raise ExpressionError(f"format is to put in value {quoted(digits)[1:-1]}, counted from 0, and is given {len(values)}")
    return values[int(short)]
