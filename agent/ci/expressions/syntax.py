"""The syntax tree.

A chain of operators is one node, so that long texts make no deep trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent.ci.expressions.values import Primitive


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
    """`first` and then, from the left, each operator with what follows it; `position` is the first operator's."""

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
