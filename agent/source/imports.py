"""Adds import statements to a module's text. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from itertools import takewhile

from agent.source import syntax

_IMPORTS = ("import ", "from ")
_FIXED = re.compile(r"#!|#.*coding[:=]")  # comments that count only in the first two lines


def with_imports(text: str, imports: Sequence[str]) -> str:
    """The text of a module that parses, with these statements below its header, docstring and `__future__` imports.

    The header is the first comments. Those right above code other than an import describe that code instead.
    """
    if not imports:
        return text
    lines, after = text.split("\n"), 0
    while after < len(lines) and lines[after].startswith("#"):
        after += 1
    if after < len(lines) and lines[after].strip() and not lines[after].startswith(_IMPORTS):
        after = len([*takewhile(_FIXED.match, lines[:2])])
    for at, node in enumerate(syntax.tree(text).body):
        is_docstring = at == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            after = node.end_lineno or after
    rest = "\n".join(lines[after:]).lstrip("\r\n")
    code = next((line for line in rest.split("\n") if not line.startswith("#")), "")
    apart = 0 if rest.startswith(_IMPORTS) else 2 if code.startswith(("def ", "async def ", "class ", "@")) else 1
    end = "\r" if "\r\n" in text else ""
    added = [f"{each}{end}" for each in [*([""] if after else []), *imports, *[""] * apart]]
    return "\n".join([*lines[:after], *added, rest])
