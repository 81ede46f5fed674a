"""What the test tools and Python's own modules were before code of the repository was imported, and what has changed since.

Only replaced or added functions and classes count. Each is told as `PATH: NAME`, where PATH is the file of the repository that
holds what is there now, "" where it comes from elsewhere. Whoever reads it holds it against the unchanged code: what a
repository always did to its tools is no offence.
"""

import functools
import sys
import types

from . import failures

# Their functions decide what passes: also what does not come from the repository counts there.
TOOLS = ("_pytest", "pytest", "pluggy", "unittest", "builtins", "operator", "math", __package__)
# What runs one test. A change may be undone before the end, so these are looked at after each test.
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


class Seal(object):
    def __init__(self, root):
        import unittest.case  # noqa: F401 - before code of the repository changes it

        self._root = root
        self._modules = {name: module for name, module in list(sys.modules.items()) if isinstance(module, types.ModuleType)}
        self._held = {}  # (module, class or None) -> (owner, what its namespace held)
        for name, module in self._modules.items():
            space = vars(module)
            self._held[name, None] = (module, dict(space))
            for key, value in list(space.items()):
                if isinstance(value, type) and value.__module__ == name and value.__flags__ & (1 << 9):  # made in Python
                    self._held[name, key] = (value, dict(vars(value)))
        self._runs = [(key, self._held[key]) for key in _RUNS if key in self._held]
        self.classes = frozenset(id(owner) for owner, _ in self._held.values())

    def broken_now(self):
        """Changes of what runs one test: a few microseconds each."""
        return [mark for key, held in self._runs for mark in self._changes(key, held)]

    def broken(self):
        """All changes."""
        found = [mark for key, held in self._held.items() for mark in self._changes(key, held)]
        for name, module in self._modules.items():
            now = sys.modules.get(name)
            if now is not None and now is not module:
                found.append("%s: sys.modules[%r]" % (self._origin(now), name))
        return found

    def _changes(self, key, held):
        name, kind = key
        owner, was = held
        space = vars(owner)
        is_tool = name.split(".")[0] in TOOLS
        for attribute, old in was.items():
            new = space.get(attribute, _MISSING)
            if new is not old and (isinstance(old, _KINDS) or isinstance(new, _KINDS)):
                yield from self._told(name, kind, attribute, new, is_tool)
        if len(space) != len(was):
            for attribute in list(space):
                if attribute not in was and isinstance(space[attribute], _KINDS):
                    # A new name in a module is a module's loading unless it hides a builtin one.
                    hides = kind is not None or name == "builtins" or attribute in self._builtins
                    yield from self._told(name, kind, attribute, space[attribute], is_tool and hides)

    @property
    def _builtins(self):
        return self._held["builtins", None][1]

    def _told(self, module, kind, attribute, new, is_tool):
        origin = self._origin(new)
        if origin or is_tool:
            yield "%s: %s" % (origin, ".".join(filter(None, (module, kind, attribute))))

    def _origin(self, value):
        return origin(value, self._root)


def origin(value, root):
    """The file of the repository that holds what a function, a class, a module or an object does; "" for any other."""
    for _ in range(10):
        if isinstance(value, (classmethod, staticmethod, types.MethodType)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget or value.fset
        elif isinstance(value, functools.partial):
            value = value.func
        else:
            break
    if isinstance(value, types.FunctionType):
        path = value.__code__.co_filename
    elif isinstance(value, types.ModuleType):
        path = getattr(value, "__file__", None)
    else:
        kind = value if isinstance(value, type) else type(value)
        path = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return (failures.inside(path, root) or "") if isinstance(path, str) else ""
