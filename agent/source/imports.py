"""Adds import statements to a module's text. Pure."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from agent.source import syntax


def with_imports(text: str, imports: Sequence[str]) -> str:
    """The text of a module that parses, with these statements below its first comments, docstring and `__future__` imports."""
    if not imports:
        return text
    lines, after = text.split("\n"), 0
    while after < len(lines) and lines[after].startswith("#"):
        after += 1
    for at, node in enumerate(syntax.tree(text).body):
        is_docstring = at == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            after = node.end_lineno or after
    rest = "\n".join(lines[after:]).lstrip("\r\n")
    apart = 0 if rest.startswith(("import ", "from ")) else 2 if rest.startswith(("def ", "async def ", "class ", "@")) else 1
    end = "\r" if "\r\n" in text else ""
    added = [f"{each}{end}" for each in [*([""] if after else []), *imports, *[""] * apart]]
    return "\n".join([*lines[:after], *added, rest])
