"""Finds what code of the repository has changed or added in this process to tamper with the tests.

Each of three kinds is reported as `PATH: WHAT`, where PATH is the file of the repository that did it. The gate compares these
with those of the unchanged code, so what a repository always did does not count.

- `Snapshot`: test tools and modules of Python that were changed since. Only replaced or added functions and classes count. PATH
is "" if a new value comes from elsewhere.
- Classes whose objects are equal to everything, or contain everything. They are probed at the end of a run with random values,
on objects that were never initialised: an honest comparison returns false, or fails because attributes are missing.
- Product code that uses test tools: `unittest.mock.ANY` is equal to everything without any patching.
"""

from __future__ import annotations

import functools
import random
import sys
import types
import warnings
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, Dict, Optional, Tuple

from .. import NAME
from ..wire.channel import relative_path

Key = Tuple[str, Optional[str]]  # module, class or None
Saved = Tuple[Any, Dict[str, Any]]  # owner, contents of its namespace

# Their functions decide what passes, so a replacement counts wherever it comes from.
TOOLS = ("_pytest", "pytest", "pluggy", "unittest", "builtins", "operator", "math", NAME)
_USED = frozenset(("pytest", "_pytest", "pluggy", "unittest", "mock", "doctest", NAME))  # used only by tests
_DEPTH = 4  # levels of nested functions and classes
# What runs one test. A change can be undone before the end, so these are compared after each test.
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
_HEAP = 1 << 9  # a class made in Python
_PROBED = 2000  # classes, at most
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
                if isinstance(value, type) and value.__module__ == name and value.__flags__ & _HEAP:
                    self._saved[name, key] = (value, dict(vars(value)))
        self._runners = [(key, self._saved[key]) for key in _RUNS if key in self._saved]
        self.classes = frozenset(id(owner) for owner, _ in self._saved.values())

    def runner_changes(self) -> list[str]:
        """Changes to what runs one test. Takes a few microseconds."""
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
                    hides = kind is not None or name == "builtins" or attribute in self._saved["builtins", None][1]
                    yield from self._marks(name, kind, attribute, space[attribute], is_tool and hides)

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
    return (relative_path(path, root) or "") if isinstance(path, str) else ""


def agreeing_classes(root: str, known: Container[int]) -> set[str]:
    """`PATH: CLASS.METHOD accepts everything` for classes whose ids are not in `known`."""
    found = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cls in list(_made_since(known))[:_PROBED]:
            for name in ("__eq__", "__contains__"):
                method = type.__getattribute__(cls, "__dict__").get(name)  # defined in the class's own body
                path = origin(method, root) if callable(method) else ""
                if path and _agrees(method, _uninitialised(cls)):
                    found.add("%s: %s.%s accepts everything" % (path, cls.__name__, name))
            meta = type(cls)
            method = None if meta is type else vars(meta).get("__eq__")
            if method is not None and origin(method, root) and _agrees(method, cls):
                found.add("%s: %s.__eq__ accepts everything" % (origin(method, root), meta.__name__))
    return found


def _made_since(known: Container[int]) -> Iterator[type]:
    seen: set[int] = set()
    waiting: list[Any] = [object]
    while waiting:
        for sub in type.__subclasses__(waiting.pop()):
            if id(sub) not in seen:
                seen.add(id(sub))
                waiting.append(sub)
                if id(sub) not in known:
                    yield sub


def _uninitialised(cls: type) -> Any:
    base: Any = next(one for one in type.mro(cls) if not one.__flags__ & _HEAP)
    try:
        return base.__new__(cls)
    except Exception:  # a class that is abstract or needs arguments, or the code of any extension
        return None


def _agrees(method: Callable[..., Any], made: Any) -> bool:
    number = random.SystemRandom().getrandbits(60)
    for value in (number, str(number), [number], float(number), object()) if made is not None else ():
        try:
            answer = method(made, value)
            if answer is not NotImplemented and bool(answer):
                return True
        except Exception:  # the repository's `__eq__`, or `__bool__` of its answer
            continue
    return False


def tools_in_use(root: str, is_test: Callable[[str], bool]) -> set[str]:
    """`PATH: uses TOOL` for each module inside `root` for whose path `is_test` is false."""
    found: set[str] = set()
    for name, module in list(sys.modules.items()):  # a module can lose its own `__name__`
        file = getattr(module, "__file__", None) if isinstance(module, types.ModuleType) else None
        path = relative_path(file, root) if isinstance(file, str) else None
        if path and not is_test(path):
            found.update(
                "%s: uses %s" % (path, tool) for tool in _tools_in(vars(module), vars(module).get("__name__", name), _DEPTH)
            )
    return found


def _tools_in(space: Mapping[str, Any], module: str, depth: int) -> Iterator[str]:
    name: object
    for value in list(space.values()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, types.ModuleType):
            name = getattr(value, "__name__", "")
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
        if first in _USED:
            yield first


def _tools_named(code: types.CodeType, depth: int) -> Iterator[str]:
    """Test tools that a function imports or refers to by full name."""
    for name in code.co_names:
        first = name.split(".")[0]
        if first in _USED:
            yield first
    for constant in code.co_consts:
        if depth and isinstance(constant, types.CodeType):
            yield from _tools_named(constant, depth - 1)
