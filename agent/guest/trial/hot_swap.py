"""Swaps a changed function into a process that has already imported the old one.

Only the outermost function around a change is compiled, inside a skeleton of its classes, and its code object replaces the old
one on every live function. What cannot be swapped that way (class bodies, some defaults, module level) raises `NotSwappable`.
The file must then be imported again in a new process.
"""

from __future__ import annotations
import __future__

import ast
import gc
import os
import re
import types
from collections.abc import Iterable, Sequence
from typing import Any, Callable, List, Mapping, Tuple, Union

Edit = Mapping[str, Any]  # {path, line, start, end, text}
Undo = List[Tuple[types.FunctionType, str, Any]]  # function, attribute, its former value
Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]

_PATHS: dict[str, str | None] = {}  # cache of `repository_path`: one root per process
_LINE_END = re.compile("\r\n|\r|\n")


class NotSwappable(Exception):
    """The change is not in the body of a live function."""


def read_text(path: str) -> str:
    """The file's text with its line endings kept, so that offsets are the same as outside the sandbox."""
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def repository_path(root: str, filename: str) -> str | None:
    """The path relative to `root` of a code object's file; None if it is elsewhere ("<frozen abc>", installed packages)."""
    if filename not in _PATHS:
        path = os.path.realpath(filename)
        is_inside = path.startswith(root + os.sep) and not filename.startswith("<") and "site-packages" not in path
        _PATHS[filename] = path[len(root) + 1 :] if is_inside else None
    return _PATHS[filename]


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with these edits applied, which must not overlap."""
    for edit in sorted(edits, key=lambda e: -e["start"]):
        text = text[: edit["start"]] + edit["text"] + text[edit["end"] :]
    return text


def live_functions() -> dict[str, list[types.FunctionType]]:
    """Every function object of this process, by the name of its file."""
    found: dict[str, list[types.FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is types.FunctionType:
            found.setdefault(each.__code__.co_filename, []).append(each)
    return found


class Swapper:
    """Swaps changed functions of one file; keeps what it needs of the unchanged file."""

    def __init__(self, path: str, live: Mapping[str, list[types.FunctionType]]) -> None:
        self.path = path
        self.text = read_text(path)
        self.tree = ast.parse(self.text.lstrip("\ufeff"))
        shift = 1 if self.text.startswith("\ufeff") else 0
        self.starts = [shift] + [m.end() for m in _LINE_END.finditer(self.text)]
        self.flags = 0
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                for alias in node.names:
                    self.flags |= getattr(__future__, alias.name).compiler_flag
        self.functions: dict[int, tuple[Function, tuple[str, ...]]] = {}  # line -> function, names of its classes
        self._collect(self.tree.body, ())
        self.live: dict[types.CodeType, list[types.FunctionType]] = {}
        real = os.path.realpath(path)
        for filename, functions in live.items():
            if os.path.realpath(filename) == real:
                for function in functions:
                    self.live.setdefault(function.__code__, []).append(function)
        self.by_line = {(code.co_name, code.co_firstlineno): code for code in self.live}

    def _collect(self, body: Iterable[ast.AST], classes: tuple[str, ...]) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions[node.lineno] = (node, classes)
            elif isinstance(node, ast.ClassDef):
                self._collect(node.body, classes + (node.name,))
            else:
                for field in ("body", "orelse", "handlers", "finalbody"):
                    self._collect(getattr(node, field, []), classes)

    def swap(self, edits: Sequence[Edit]) -> Callable[[], None]:
        """Change the live functions; returns a function that restores them. Raises NotSwappable, SyntaxError, ValueError."""
        undo: Undo = []
        try:
            for line in sorted({edit["line"] for edit in edits}):
                self._swap_function(line, [edit for edit in edits if edit["line"] == line], undo)
        except BaseException:  # also a time limit that expires: no change may stay half made
            _restore(undo)
            raise
        return lambda: _restore(undo)

    def _swap_function(self, line: int, edits: list[Edit], undo: Undo) -> None:
        node, classes = self.functions.get(line, (None, ()))
        if node is None:
            raise NotSwappable
        first = min([node.lineno] + [d.lineno for d in node.decorator_list])
        old = self.by_line.get((node.name, first))
        if old is None:
            raise NotSwappable
        begin = self.starts[node.lineno - 1]
        last = node.end_lineno or node.lineno
        end = self.starts[last] if last < len(self.starts) else len(self.text)
        piece, position = "", begin
        for edit in sorted(edits, key=lambda e: e["start"]):
            if not position <= edit["start"] <= edit["end"] <= end:
                raise NotSwappable
            piece += self.text[position : edit["start"]] + edit["text"]
            position = edit["end"]
        piece += self.text[position:end]
        block = ast.parse("if 1:\n" + piece if node.col_offset else piece)
        first_statement: Any = block.body[0]
        changed = first_statement.body[0] if node.col_offset else first_statement
        changed.decorator_list = []
        for name in reversed(classes):
            holder: Any = ast.parse("class %s: pass" % name).body[0]
            holder.body = [changed]
            changed = holder
        module = ast.Module(body=[changed], type_ignores=[])
        whole = code = compile(module, self.path, "exec", flags=self.flags, dont_inherit=True)
        for name in classes + (node.name,):
            code = [c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name][-1]
        self._replace(old, code, undo)
        if min(edit["start"] for edit in edits) < self.starts[node.body[0].lineno - 1]:
            self._replace_defaults(self.live.get(old, ()), whole, classes + (node.name,), undo)

    def _replace_defaults(
        self, functions: Iterable[types.FunctionType], whole: types.CodeType, names: tuple[str, ...], undo: Undo
    ) -> None:
        """Evaluate the changed defaults in the module's namespace, as an import would."""
        for function in functions:
            namespace = dict(function.__globals__)
            try:
                exec(whole, namespace)
                fresh = namespace[names[0]]
                for name in names[1:]:
                    fresh = fresh.__dict__[name]
            except Exception:  # the changed defaults are evaluated, and may be any code
                raise NotSwappable from None
            for attribute in ("__defaults__", "__kwdefaults__"):
                undo.append((function, attribute, getattr(function, attribute)))
                setattr(function, attribute, getattr(fresh, attribute))

    def _replace(self, old: types.CodeType, new: types.CodeType, undo: Undo) -> None:
        functions = self.live.get(old, ())
        if functions and old.co_freevars != new.co_freevars:
            raise NotSwappable
        for function in functions:
            undo.append((function, "__code__", function.__code__))
            function.__code__ = new
        # Closures that already exist (a decorator's wrapper) have their own code objects.
        inner_old = [c for c in old.co_consts if isinstance(c, types.CodeType)]
        inner_new = [c for c in new.co_consts if isinstance(c, types.CodeType)]
        if [c.co_name for c in inner_old] == [c.co_name for c in inner_new]:
            for one, other in zip(inner_old, inner_new):  # noqa: B905 - old Pythons
                self._replace(one, other, undo)
        elif any(c in self.live for c in inner_old):
            raise NotSwappable


def _restore(undo: Undo) -> None:
    for function, attribute, value in reversed(undo):
        setattr(function, attribute, value)
