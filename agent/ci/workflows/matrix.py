"""The legs of a job's matrix, as GitHub makes them.

The rules are those of the runner's published `MatrixBuilder`: the product of the axes in the order they are written, without
what an `exclude` matches; an `include` adds to every combination whose axes it matches, and is a leg of its own if it matches
none. Values can be objects; their templates were evaluated before, and what only GitHub knows is `Unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from agent.ci.expressions import Unknown, Value
from agent.ci.expressions.values import equal, text
from agent.ci.workflows.document import WorkflowError, WorkflowProblem
from agent.ci.workflows.shapes import OPENING

LEG_LIMIT = 256  # GitHub's own
_PRODUCT_LIMIT = 10_000  # before excludes
_FILTER_LIMIT = 1_000_000  # combinations times excludes and includes: about a second


@dataclass(frozen=True, slots=True)
class MatrixLeg:
    """One run of a job: `values` is its `matrix` context, `shown` the values that its default name lists."""

    values: Mapping[str, Value]
    shown: tuple[str, ...] = ()


def evaluated(value: Value, value_of: Callable[[str], Value]) -> Value:
    """A matrix as read, with its templates replaced by their values. Raises what `value_of` raises."""
    if isinstance(value, str):
        return value_of(value) if OPENING in value else value
    if isinstance(value, Mapping):
        return {key: evaluated(inner, value_of) for key, inner in value.items()}
    if isinstance(value, Sequence):
        return [evaluated(inner, value_of) for inner in value]
    return value


def legs(matrix: Value) -> tuple[MatrixLeg, ...] | Unknown | WorkflowProblem:
    """The legs of an evaluated matrix, in GitHub's order; one without values if there is no matrix.

    `Unknown` if an axis, `include` or `exclude` is; then only the name that GitHub displays shows the values.
    """
    if matrix is None:
        return (MatrixLeg({}),)
    if isinstance(matrix, Unknown):
        return matrix
    try:
        return _legs(matrix)
    except WorkflowError as refused:
        return refused.problem


def leaves(value: Value) -> Iterator[str]:
    """The scalars of a value that a leg's name lists, in order; empty ones are left out."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from leaves(inner)
    elif not isinstance(value, Unknown) and value is not None and text(value):
        yield text(value)


def _legs(matrix: Value) -> tuple[MatrixLeg, ...] | Unknown:
    if not isinstance(matrix, Mapping):
        raise WorkflowError("The matrix is not a mapping of axes to lists.")
    for part in matrix.values():
        if isinstance(part, Unknown):
            return part
    axes = {name: _axis(name, part) for name, part in matrix.items() if name not in ("include", "exclude")}
    includes = [_filter(item, "include") for item in _items(matrix, "include")]
    excludes = [_filter(item, "exclude") for item in _items(matrix, "exclude")]
    for exclude in excludes:
        for key in exclude:
            if key not in axes:
                raise WorkflowError(f"The exclude key '{key[:100]}' does not match any key within the matrix.")
    combinations = prod(map(len, axes.values()))
    if combinations > _PRODUCT_LIMIT:
        raise WorkflowError(f"The matrix has more than {LEG_LIMIT} legs.")
    if combinations * (len(includes) + len(excludes)) > _FILTER_LIMIT:
        raise WorkflowError(f"The matrix has too many includes and excludes: {len(includes) + len(excludes)}.")

    found: list[MatrixLeg] = []
    matched = [False] * len(includes)
    for combination in product(*axes.values()) if axes else ():
        original = dict(zip(axes, combination, strict=True))
        if any(_matches(exclude, original) for exclude in excludes):
            continue
        extra: dict[str, Value] = {}
        for i, include in enumerate(includes):
            if _matches({key: value for key, value in include.items() if key in axes}, original):
                matched[i] = True
                extra |= {key: value for key, value in include.items() if key not in axes}
        # What an include adds is in the context, and not in the name.
        found.append(MatrixLeg({**original, **extra}, tuple(leaves(original))))
    for include, was_matched in zip(includes, matched, strict=True):
        if not was_matched:
            values = {key: include[key] for key in sorted(include, key=lambda key: key not in axes)}
            found.append(MatrixLeg(values, tuple(leaves(values))))
    if not found:
        raise WorkflowError("The matrix has no legs.")
    if len(found) > LEG_LIMIT:
        raise WorkflowError(f"The matrix has {len(found)} legs; GitHub allows {LEG_LIMIT}.")
    return tuple(found)


def _axis(name: str, values: Value) -> Sequence[Value]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise WorkflowError(f"The axis '{name[:100]}' of the matrix is not a list.")
    if not values:
        raise WorkflowError(f"The axis '{name[:100]}' of the matrix does not contain any values.")
    return values


def _items(matrix: Mapping[str, Value], key: str) -> Sequence[Value]:
    items = matrix.get(key)
    if items is None:
        return ()
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise WorkflowError(f"The '{key}' of the matrix is not a list.")
    return items


def _filter(item: Value, kind: str) -> Mapping[str, Value]:
    if not isinstance(item, Mapping) or not item:
        raise WorkflowError(f"An item of '{kind}' in the matrix is not a mapping with values.")
    return item


def _matches(wanted: Value, value: Value) -> bool:
    """Whether every scalar of `wanted` equals (by the `==` of expressions) the value in its place in `value`."""
    if isinstance(wanted, Mapping):
        inner = value if isinstance(value, Mapping) else {}
        return all(_matches(part, inner.get(key)) for key, part in wanted.items())
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        items = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
        return all(_matches(part, items[i] if i < len(items) else None) for i, part in enumerate(wanted))
    if isinstance(wanted, Unknown) or isinstance(value, Unknown):
        return False
    return equal(value, wanted)
