"""The test tools and Python's own modules before code of the repository was imported, and what has changed since.

Only replaced or added functions and classes count. Each is reported as `PATH: NAME`, where PATH is the file of the repository
that defines the new value, "" where it comes from elsewhere. The gate compares these with the unchanged code, so patches that
a repository always made do not count.
"""

from __future__ import annotations

import functools
import sys
import types

from .. import NAME
from ..wire import failures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    Key = tuple[str, "str | None"]  # module, class or None
    Saved = tuple[Any, dict[str, Any]]  # owner, what its namespace held

# Their functions decide what passes: a replacement counts wherever it comes from.
TOOLS = ("_pytest", "pytest", "pluggy", "unittest", "builtins", "operator", "math", NAME)
# What runs one test. A change may be undone before the end, so these are compared after each test.
_RUNS = (
    ("_pytest.runner", None),
    ("_pytest.runner", "CallInfo"),
    ("_pytest.reports", "TestReport"),
    ("_pytest.python", "Function"),
    ("_pytest.python", None),
    ("_pytest.outcomes", None),
    ("_pytest.python_api", None),
    ("_pytest.python_api", "ApproxScalar"),
    ("_pytest.raises", None),
    ("_pytest.unittest", "TestCaseFunction"),
    ("pluggy._callers", None),
    ("unittest.case", None),
    ("unittest.case", "TestCase"),
    ("unittest.result", "TestResult"),
)
_MISSING = object()
_KINDS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    classmethod,
    staticmethod,
    property,
    type,
    functools.partial,
    type(list.append),
    type(object.__init__),
)


class Snapshot:
    def __init__(self, root: str) -> None:
        import unittest.case  # noqa: F401 - before code of the repository changes it

        self._root = root
        self._modules = {name: module for name, module in list(sys.modules.items()) if isinstance(module, types.ModuleType)}
        self._saved: dict[Key, Saved] = {}
        for name, module in self._modules.items():
            space = vars(module)
            self._saved[name, None] = (module, dict(space))
            for key, value in list(space.items()):
                if isinstance(value, type) and value.__module__ == name and value.__flags__ & (1 << 9):  # made in Python
                    self._saved[name, key] = (value, dict(vars(value)))
        self._runners = [(key, self._saved[key]) for key in _RUNS if key in self._saved]
        self.classes = frozenset(id(owner) for owner, _ in self._saved.values())

    def runner_changes(self) -> list[str]:
        """Changes to what runs one test: a few microseconds each."""
        return [mark for key, saved in self._runners for mark in self._changes(key, saved)]

    def changes(self) -> list[str]:
        """All changes."""
        found = [mark for key, saved in self._saved.items() for mark in self._changes(key, saved)]
        for name, module in self._modules.items():
            now = sys.modules.get(name)
            if now is not None and now is not module:
                found.append("%s: sys.modules[%r]" % (origin(now, self._root), name))
        return found

    def _changes(self, key: Key, saved: Saved) -> Iterator[str]:
        name, kind = key
        owner, was = saved
        space = vars(owner)
        is_tool = name.split(".")[0] in TOOLS
        for attribute, old in was.items():
            new = space.get(attribute, _MISSING)
            if new is not old and (isinstance(old, _KINDS) or isinstance(new, _KINDS)):
                yield from self._marks(name, kind, attribute, new, is_tool)
        if len(space) != len(was):
            for attribute in list(space):
                if attribute not in was and isinstance(space[attribute], _KINDS):
                    # A new name in a module comes from loading it, unless it hides a builtin.
                    hides = kind is not None or name == "builtins" or attribute in self._builtins
                    yield from self._marks(name, kind, attribute, space[attribute], is_tool and hides)

    @property
    def _builtins(self) -> Collection[str]:
        return self._saved["builtins", None][1]

    def _marks(self, module: str, kind: str | None, attribute: str, new: object, is_tool: bool) -> Iterator[str]:
        path = origin(new, self._root)
        if path or is_tool:
            yield "%s: %s" % (path, ".".join(filter(None, (module, kind, attribute))))


def origin(value: Any, root: str) -> str:
    """The file of the repository that defines a function, a class, a module or an object's class; "" for any other."""
    for _ in range(10):
        if isinstance(value, (classmethod, staticmethod, types.MethodType)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget or value.fset
        elif isinstance(value, functools.partial):
            value = value.func
        else:
            break
    path: object
    if isinstance(value, types.FunctionType):
        path = value.__code__.co_filename
    elif isinstance(value, types.ModuleType):
        path = getattr(value, "__file__", None)
    else:
        kind = value if isinstance(value, type) else type(value)
        path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return (failures.relative_path(path, root) or "") if isinstance(path, str) else ""
