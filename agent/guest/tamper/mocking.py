"""Which product code of the repository uses test tools: `unittest.mock.ANY` is equal to everything without being patched."""

import sys
import types

from . import failures

TOOLS = frozenset(("pytest", "_pytest", "pluggy", "unittest", "mock", "doctest", __package__))
_DEPTH = 4  # of functions in functions and methods in classes


def marks(root, is_test):
    """`PATH: uses TOOL` for each module inside `root` for whose path `is_test` is false."""
    found = set()
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None) if isinstance(module, types.ModuleType) else None
        path = failures.inside(path, root) if isinstance(path, str) else None
        if path and not is_test(path):
            found.update("%s: uses %s" % (path, tool) for tool in _held(vars(module), module.__name__, _DEPTH))
    return found


def _held(space, module, depth):
    for value in list(space.values()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, types.ModuleType):
            name = value.__name__
        elif isinstance(value, (type, types.FunctionType)) and value.__module__ == module:
            if isinstance(value, type):
                if depth:
                    yield from _held(dict(vars(value)), module, depth - 1)
            else:
                yield from _named(value.__code__, depth)
            continue
        else:
            kind = value if isinstance(value, (type, types.FunctionType)) else type(value)
            name = getattr(kind, "__module__", None)
        first = name.split(".")[0] if isinstance(name, str) else ""
        if first in TOOLS:
            yield first


def _named(code, depth):
    """Test tools that a function imports, or names in full."""
    for name in code.co_names:
        first = name.split(".")[0]
        if first in TOOLS:
            yield first
    for constant in code.co_consts:
        if depth and isinstance(constant, types.CodeType):
            yield from _named(constant, depth - 1)
