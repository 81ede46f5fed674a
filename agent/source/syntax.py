"""Syntax trees of Python texts, from several threads.

CPython counts the depth of a tree for all threads together. If one is interrupted while it builds a tree (by the collector,
which runs finalizers) and another builds its own, the first ends with "SystemError: AST constructor recursion depth mismatch".
"""

from __future__ import annotations

import ast
import threading
from typing import Any

_LOCK = threading.Lock()


def tree(text: str) -> ast.Module:
    """Raises what `ast.parse` does."""
    with _LOCK:
        return ast.parse(text)


def literal(text: str) -> Any:
    """The value of a literal. Raises what `ast.literal_eval` does."""
    with _LOCK:
        node = ast.parse(text.lstrip(" \t"), mode="eval")
    return ast.literal_eval(node)


def expression(text: str) -> ast.Expression:
    """Raises what `ast.parse` does."""
    with _LOCK:
        return ast.parse(text, mode="eval")


def is_literal(node: ast.AST) -> bool:
    """Whether a tree names and calls nothing."""
    return not any(isinstance(inner, ast.Name | ast.Call | ast.Attribute | ast.Lambda | ast.Await) for inner in ast.walk(node))
