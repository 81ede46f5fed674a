"""Reads the values of a leg from the name that GitHub shows, where the name or the matrix cannot be evaluated.

Linear in the name: a template is hostile text, so it never becomes a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.workflows.shapes import CLOSING, OPENING, expressions

_OF_MATRIX = re.compile(r"matrix\.([A-Za-z0-9_-]+)")


def values_shown(template: str, axes: Sequence[str], shown: str) -> dict[str, str] | None:
    """The matrix values in `shown`, by key, or None if the template cannot have produced it.

    After a template without expressions, the values of the axes follow in order. In one with expressions, a plain
    `matrix.key` is read up to the first occurrence of the text after it.
    """
    template = " ".join(template.split())
    wanted = list(expressions(template))
    if not wanted:
        return _listed(template, axes, shown)
    texts = _between(template, wanted)
    if not shown.startswith(texts[0]) or len(shown) < sum(map(len, texts)) or not shown.endswith(texts[-1]):
        return None
    values: dict[str, str] = {}
    at, end = len(texts[0]), len(shown) - len(texts[-1])
    for i, expression in enumerate(wanted):
        stop = end if i == len(wanted) - 1 else shown.find(texts[i + 1], at, end)
        if stop < at:
            return None
        if found := _OF_MATRIX.fullmatch(expression):
            values[found[1]] = shown[at:stop]
        at = stop + len(texts[i + 1])
    return values


def _listed(name: str, axes: Sequence[str], shown: str) -> dict[str, str] | None:
    if shown == name:
        return {}
    if not shown.startswith(f"{name} (") or not shown.endswith(")"):
        return None
    listed = shown[len(name) + 2 : -1].split(", ")
    return dict(zip(axes, listed, strict=True)) if len(listed) == len(axes) else {}


def _between(template: str, wanted: Sequence[str]) -> list[str]:
    """The texts before, between and after the expressions of a template."""
    texts, at = [], 0
    for expression in wanted:
        start = template.index(OPENING, at)
        texts.append(template[at:start])
        at = template.index(CLOSING, template.index(expression, start) + len(expression)) + len(CLOSING)
    return [*texts, template[at:]]
