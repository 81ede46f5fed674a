"""Finds product code that uses test tools: `unittest.mock.ANY` is equal to everything without being patched."""

from __future__ import annotations

import sys
import types

from .. import NAME
from ..wire import failures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

TOOLS = frozenset(("pytest", "_pytest", "pluggy", "unittest", "mock", "doctest", NAME))
_DEPTH = 4  # levels of nested functions and classes


def marks(root: str, is_test: Callable[[str], bool]) -> set[str]:
    """`PATH: uses TOOL` for each module inside `root` for whose path `is_test` is false."""
    found: set[str] = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) if isinstance(module, types.ModuleType) else None
        path = failures.relative_path(file, root) if isinstance(file, str) else None
        if path and not is_test(path):
            found.update("%s: uses %s" % (path, tool) for tool in _tools_in(vars(module), module.__name__, _DEPTH))
    return found


def _tools_in(space: Mapping[str, Any], module: str, depth: int) -> Iterator[str]:
    name: object
    for value in list(space.values()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, types.ModuleType):
            name = value.__name__
        elif isinstance(value, (type, types.FunctionType)) and value.__module__ == module:
            if isinstance(value, type):
                if depth:
                    yield from _tools_in(dict(vars(value)), module, depth - 1)
            else:
                yield from _tools_named(value.__code__, depth)
            continue
        else:
            kind = value if isinstance(value, (type, types.FunctionType)) else type(value)
            name = getattr(kind, "__module__", None)
        first = name.split(".")[0] if isinstance(name, str) else ""
        if first in TOOLS:
            yield first


def _tools_named(code: types.CodeType, depth: int) -> Iterator[str]:
    """Test tools that a function imports, or names in full."""
    for name in code.co_names:
        first = name.split(".")[0]
        if first in TOOLS:
            yield first
    for constant in code.co_consts:
        if depth and isinstance(constant, types.CodeType):
            yield from _tools_named(constant, depth - 1)
