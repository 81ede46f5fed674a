"""The values of a leg, read back from the name that GitHub shows, where the name or the matrix cannot be evaluated here.

Linear in the name: a template is hostile text, so no pattern is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.workflows.shapes import CLOSING, OPENING, expressions

_OF_MATRIX = re.compile(r"matrix\.([A-Za-z0-9_-]+)")


def values_shown(template: str, axes: Sequence[str], shown: str) -> dict[str, str] | None:
    """What `shown` says of the matrix, by key, or None where the template cannot have made it.

    A template without expressions is followed by the values of the axes in their order; in one with expressions each that is
    only a value of the matrix stands for it, up to the first place where the text after it goes on.
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
    told = shown[len(name) + 2 : -1].split(", ")
    return dict(zip(axes, told, strict=True)) if len(told) == len(axes) else {}


def _between(template: str, wanted: Sequence[str]) -> list[str]:
    """The texts before, between and after the expressions of a template."""
    texts, at = [], 0
    for expression in wanted:
        start = template.index(OPENING, at)
        texts.append(template[at:start])
        at = template.index(CLOSING, template.index(expression, start) + len(expression)) + len(CLOSING)
    return [*texts, template[at:]]
