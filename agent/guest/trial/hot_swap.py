"""Puts a changed function into a process that has already imported the old one; runs inside the sandbox.

Only the outermost function around a change is compiled, inside a skeleton of the classes that hold it, and its code object
replaces the old one on every live function. What cannot be swapped that way (class bodies, defaults, module level) raises
`NotSwappable`: then the file must be imported afresh.
"""

import __future__

import ast
import gc
import io
import os
import re
import types

_INSIDE = {}  # memory of `inside`: one root a process
_LINE_END = re.compile("\r\n|\r|\n")


class NotSwappable(Exception):
    """The change does not lie in the body of a function that is alive."""


def read_text(path):
    """The file's text with its line ends kept, so that offsets mean the same as outside."""
    with io.open(path, encoding="utf-8", newline="") as file:
        return file.read()


def inside(root, filename):
    """The path relative to the repository's root of code that lies there, else None ("<frozen abc>", installed packages)."""
    if filename not in _INSIDE:
        path = os.path.realpath(filename)
        within = path.startswith(root + os.sep) and not filename.startswith("<") and "site-packages" not in path
        _INSIDE[filename] = path[len(root) + 1 :] if within else None
    return _INSIDE[filename]


def spliced(text, edits):
    """The text with these edits made; they do not overlap."""
    for edit in sorted(edits, key=lambda e: -e["start"]):
        text = text[: edit["start"]] + edit["text"] + text[edit["end"] :]
    return text


def living_functions():
    """Every function object of this process, by the name of its file."""
    found = {}
    for thing in gc.get_objects():
        if type(thing) is types.FunctionType:
            found.setdefault(thing.__code__.co_filename, []).append(thing)
    return found


class Swapper:
    """Swaps changed functions of one file; keeps what it needs of the unchanged file."""

    def __init__(self, path, living):
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
        self.functions = {}
        self._collect(self.tree.body, ())
        self.live = {}
        real = os.path.realpath(path)
        for filename, functions in living.items():
            if os.path.realpath(filename) == real:
                for function in functions:
                    self.live.setdefault(function.__code__, []).append(function)
        self.by_place = {(code.co_name, code.co_firstlineno): code for code in self.live}

    def _collect(self, body, classes):
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions[node.lineno] = (node, classes)
            elif isinstance(node, ast.ClassDef):
                self._collect(node.body, classes + (node.name,))
            else:
                for field in ("body", "orelse", "handlers", "finalbody"):
                    self._collect(getattr(node, field, []), classes)

    def swap(self, edits):
        """Change the live functions; returns their way back. Raises NotSwappable, SyntaxError, ValueError."""
        undone = []
        try:
            for line in sorted({edit["line"] for edit in edits}):
                self._swap_function(line, [edit for edit in edits if edit["line"] == line], undone)
        except BaseException:
            _undo(undone)
            raise
        return lambda: _undo(undone)

    def _swap_function(self, line, edits, undone):
        node, classes = self.functions.get(line, (None, ()))
        if node is None:
            raise NotSwappable
        first = min([node.lineno] + [d.lineno for d in node.decorator_list])
        old = self.by_place.get((node.name, first))
        if old is None:
            raise NotSwappable
        begin = self.starts[node.lineno - 1]
        end = self.starts[node.end_lineno] if node.end_lineno < len(self.starts) else len(self.text)
        piece, position = "", begin
        for edit in sorted(edits, key=lambda e: e["start"]):
            if not position <= edit["start"] <= edit["end"] <= end:
                raise NotSwappable
            piece += self.text[position : edit["start"]] + edit["text"]
            position = edit["end"]
        piece += self.text[position:end]
        block = ast.parse("if 1:\n" + piece if node.col_offset else piece)
        changed = block.body[0].body[0] if node.col_offset else block.body[0]
        changed.decorator_list = []
        for name in reversed(classes):
            holder = ast.parse("class %s: pass" % name).body[0]
            holder.body = [changed]
            changed = holder
        module = ast.Module(body=[changed], type_ignores=[])
        whole = code = compile(module, self.path, "exec", flags=self.flags, dont_inherit=True)
        for name in classes + (node.name,):
            code = [c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name][-1]
        self._replace(old, code, undone)
        if min(edit["start"] for edit in edits) < self.starts[node.body[0].lineno - 1]:
            self._replace_defaults(self.live.get(old, ()), whole, classes + (node.name,), undone)

    def _replace_defaults(self, functions, whole, names, undone):
        """Work out the changed defaults among the names of the module, as the import would."""
        for function in functions:
            namespace = dict(function.__globals__)
            try:
                exec(whole, namespace)
                fresh = namespace[names[0]]
                for name in names[1:]:
                    fresh = fresh.__dict__[name]
            except Exception:
                raise NotSwappable from None
            for attribute in ("__defaults__", "__kwdefaults__"):
                undone.append((function, attribute, getattr(function, attribute)))
                setattr(function, attribute, getattr(fresh, attribute))

    def _replace(self, old, new, undone):
        functions = self.live.get(old, ())
        if functions and old.co_freevars != new.co_freevars:
            raise NotSwappable
        for function in functions:
            undone.append((function, "__code__", function.__code__))
            function.__code__ = new
        # Closures that are alive already (a decorator's wrapper) hold code of their own.
        inner_old = [c for c in old.co_consts if isinstance(c, types.CodeType)]
        inner_new = [c for c in new.co_consts if isinstance(c, types.CodeType)]
        if [c.co_name for c in inner_old] == [c.co_name for c in inner_new]:
            for one, other in zip(inner_old, inner_new):  # noqa: B905 - old Pythons
                self._replace(one, other, undone)
        elif any(c in self.live for c in inner_old):
            raise NotSwappable


def _undo(undone):
    for function, attribute, value in reversed(undone):
        setattr(function, attribute, value)
