"""Where statements stand in the text: their line, their indentation, their block."""

from __future__ import annotations

import ast

from agent.proposers.patterns.source import Source

Block = list[ast.stmt]


def indent(source: Source, node: ast.stmt) -> str:
    """What stands before the statement on its line."""
    start = source.offset(node.lineno, 0)
    return source.text[start : source.span(node)[0]]


def stands_alone(source: Source, node: ast.stmt) -> bool:
    """Does the statement begin its line and end it?"""
    end = source.span(node)[1]
    newline = source.text.find("\n", end)
    rest = source.text[end : newline if newline >= 0 else None].strip()
    decorated = getattr(node, "decorator_list", None)
    return not decorated and not indent(source, node).strip() and (not rest or rest.startswith("#"))


def line_end(source: Source) -> str:
    return "\r\n" if "\r\n" in source.text[:4000] else "\n"


def step(space: str) -> str:
    """One level of indentation more, as the file does it."""
    return "\t" if space.endswith("\t") else "    "


def siblings(source: Source, node: ast.stmt) -> Block:
    """The block that the statement stands in."""
    parent = source.parents[node]
    for name in ("body", "orelse", "finalbody"):
        block = getattr(parent, name, None)
        if isinstance(block, list) and node in block:
            return block
    return [node]
