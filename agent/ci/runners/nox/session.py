"""Reads the statements of one nox session: what it installs and runs, as shell text. Nothing of it is executed.

What is only known by running it becomes a note.
"""

from __future__ import annotations

import ast
import shlex
from dataclasses import dataclass, field, replace

from agent.ci.runners.context import Steps
from agent.ci.runners.nox.noxfile import NoxFile, NoxSession
from agent.ci.runners.nox.python_values import UNKNOWN, PythonScope, UnknownValue, dotted, value

_LINES = 500
_DEPTH = 6
_SILENT = ("log", "warn", "debug", "warning", "create_tmp")
_RUNS = ("run", "run_always", "run_install")


@dataclass(frozen=True, slots=True)
class Script:
    """A session as shell text: installs as `pip install …`, then its commands."""

    text: str
    notes: tuple[str, ...]
    notified: tuple[str, ...]


def script(file: NoxFile, session: NoxSession, posargs: list[str], steps: Steps) -> Script:
    """Raises `Unfollowed`."""
    reader = _SessionReader(file, session, list(posargs), steps)
    arguments = session.function.args.args
    if arguments:
        reader.body(session.function.body, reader.function({**file.scope.names, **session.parameters}, arguments[0].arg, 0))
    return Script("\n".join(reader.lines), tuple(dict.fromkeys(reader.notes)), tuple(reader.notified))


@dataclass(frozen=True, slots=True)
class _SessionFunction:
    """A function that is being read; `session` is the name of its session argument."""

    scope: PythonScope
    session: str
    depth: int

    def value(self, node: ast.expr) -> object:
        return value(node, self.scope)

    def keywords(self, call: ast.Call) -> dict[str, object]:
        return {word.arg: self.value(word.value) for word in call.keywords if word.arg}


@dataclass
class _SessionReader:
    file: NoxFile
    session: NoxSession
    posargs: list[object]
    steps: Steps
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    notified: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    ended: bool = False

    def function(self, names: dict[str, object], session: str, depth: int) -> _SessionFunction:
        known = {
            f"{session}.posargs": self.posargs,
            f"{session}.python": self.session.python or UNKNOWN,
            f"{session}.name": self.session.signature,
            f"{session}.interactive": False,
            f"{session}.env": self.env,
            f"{session}.bin": UNKNOWN,
        }
        return _SessionFunction(replace(self.file.scope, names={**names, **known}), session, depth)

    def body(self, body: list[ast.stmt], inside: _SessionFunction) -> None:
        for node in body:
            self.steps.take()
            if len(self.lines) > _LINES and not self.ended:
                self.ended = True
                self.notes.append(f"nox session {self.session.signature}: only its first {_LINES} lines are followed")
            if self.ended or isinstance(node, ast.Return):
                return
            self._statement(node, inside)

    def _statement(self, node: ast.stmt, inside: _SessionFunction) -> None:
        names = inside.scope.names
        match node:
            case ast.Expr(value=ast.Call() as call):
                self._call(call, inside)
            case ast.Assign(targets=[target], value=given) | ast.AnnAssign(target=target, value=ast.expr() as given):
                self._assignment(target, given, inside)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=given):
                before, more = names.get(name), inside.value(given)
                names[name] = [*before, *more] if isinstance(before, list) and isinstance(more, list) else UNKNOWN
            case ast.If(test=test, body=then, orelse=otherwise):
                condition = inside.value(test)
                if not isinstance(condition, UnknownValue):
                    self.body(then if condition else otherwise, inside)
                elif "__name__" not in ast.unparse(test):
                    self._note(test, "is only known when it is run; what depends on it is left out")
            case ast.For(target=ast.Name(id=name), iter=over, body=inner):
                items = inside.value(over)
                if not isinstance(items, list):
                    self._note(over, "is only known when it is run; its loop is left out")
                    return
                for item in items[:_LINES]:
                    names[name] = item
                    self.body(inner, inside)
            case ast.With(items=items, body=inner):
                before = len(self.folders)
                for item in items:
                    if isinstance(item.context_expr, ast.Call):
                        self._call(item.context_expr, inside)
                self.body(inner, inside)
                if entered := self.folders[before:]:
                    self.lines.append("cd " + "/".join(".." for part in "/".join(entered).split("/") if part != "."))
                    del self.folders[before:]
            case ast.Try(body=inner, finalbody=last):
                self._note(node, "is followed as if it raised nothing")
                self.body([*inner, *last], inside)
            case ast.Expr() | ast.Pass() | ast.Import() | ast.ImportFrom():
                pass
            case _:
                self._note(node, "is not supported")

    def _assignment(self, target: ast.expr, given: ast.expr, inside: _SessionFunction) -> None:
        found = inside.value(given)
        if isinstance(target, ast.Subscript) and dotted(target.value) == f"{inside.session}.env":
            name = inside.value(target.slice)
            if isinstance(name, str) and not isinstance(found, UnknownValue):
                self.env[name] = str(found)
            else:
                self._note(target, "is a variable whose value is only known when it is run")
        elif isinstance(target, ast.Name):
            if isinstance(given, ast.Call) and isinstance(found, UnknownValue):
                called = dotted(given.func)
                if called == f"{inside.session}.create_tmp":
                    found = ".nox/tmp"
                    self.lines.append("mkdir -p .nox/tmp")
                elif called.startswith(f"{inside.session}."):
                    self._call(given, inside)
            inside.scope.names[target.id] = found

    def _call(self, call: ast.Call, inside: _SessionFunction) -> None:
        name, names = dotted(call.func), inside.scope.names
        owner, _, method = name.rpartition(".")
        only = inside.value(call.args[0]) if len(call.args) == 1 else UNKNOWN
        listed = names.get(owner)
        if owner == inside.session:
            self._session_method(method, call, inside)
        elif name == f"{inside.session}.env.update" and isinstance(only, dict):
            self.env.update({str(key): str(item) for key, item in only.items() if not isinstance(item, UnknownValue)})
        elif method in ("append", "extend") and isinstance(listed, list) and len(call.args) == 1:
            if method == "extend":
                names[owner] = [*listed, *only] if isinstance(only, list) else UNKNOWN
            else:
                names[owner] = [*listed, only]
        elif name in self.file.functions and any(dotted(argument) == inside.session for argument in call.args):
            self._own_function(self.file.functions[name], call, inside)
        elif name != "print":
            self._note(call, "is not supported")

    def _own_function(self, function: ast.FunctionDef, call: ast.Call, inside: _SessionFunction) -> None:
        """A function of the noxfile that the session is passed to."""
        arguments = function.args
        keys = [argument.arg for argument in arguments.args]
        session = next((key for key, given in zip(keys, call.args, strict=False) if dotted(given) == inside.session), None)
        if inside.depth >= _DEPTH:
            self._note(call, "is nested too deeply")
            return
        if session is None:
            self._note(call, "is not supported")
            return
        only = [argument.arg for argument in arguments.kwonlyargs]
        defaults = zip(
            [*keys[len(keys) - len(arguments.defaults) :], *only], [*arguments.defaults, *arguments.kw_defaults], strict=True
        )
        values: dict[str, object] = {key: inside.value(default) for key, default in defaults if default is not None}
        values |= zip(keys, map(inside.value, call.args), strict=False)
        values |= inside.keywords(call)
        if arguments.vararg is not None:
            values[arguments.vararg.arg] = [inside.value(argument) for argument in call.args[len(keys) :]]
        self.body(function.body, self.function({**self.file.scope.names, **values}, session, inside.depth + 1))

    def _session_method(self, method: str, call: ast.Call, inside: _SessionFunction) -> None:
        words: list[str] = []
        for argument in call.args:
            starred = isinstance(argument, ast.Starred)
            found = inside.value(argument.value if isinstance(argument, ast.Starred) else argument)
            items = found if starred and isinstance(found, list) else [found]
            if any(isinstance(item, (UnknownValue, list, dict)) for item in items):
                self._note(call, f"is left out: `{ast.unparse(argument)[:60]}` is only known when it is run")
                return
            words += [str(item) for item in items if item is not None]
        if method in _SILENT:
            return
        if method == "install":
            self.lines.append(shlex.join(["pip", "install", *words]))
        elif method in _RUNS and words:
            self._run(words, call, inside)
        elif method in ("chdir", "cd") and words:
            self.lines.append(shlex.join(["cd", words[0]]))
            self.folders.append(words[0])
        elif method == "notify" and words:
            self.notified.append(words[0])
        elif method in ("skip", "error"):
            self.ended = True
            self._note(call, "ends it")
        else:
            self._note(call, "is not supported")

    def _run(self, words: list[str], call: ast.Call, inside: _SessionFunction) -> None:
        options = inside.keywords(call)
        given = options.get("env") or {}
        more = given if isinstance(given, dict) else {}
        env = {**self.env, **{str(key): str(item) for key, item in more.items() if isinstance(item, str | int)}}
        if isinstance(given, UnknownValue) or any(isinstance(item, UnknownValue) for item in more.values()):
            self._note(call, "has variables that are only known when it is run")
        line = " ".join([*(f"{key}={shlex.quote(item)}" for key, item in env.items()), shlex.join(words)])
        codes = options.get("success_codes")
        if isinstance(codes, list) and codes != [0]:
            line = f"{line} || case $? in {'|'.join(map(str, codes))}) ;; *) exit 1 ;; esac"
        self.lines.append(line)

    def _note(self, node: ast.AST, why: str) -> None:
        text = " ".join(ast.unparse(node).split("\n")[0].split())[:80]
        self.notes.append(f"nox session {self.session.signature}: `{text}` {why}")
