"""Goes through the statements of one nox session: what it would install and run, as shell text. Nothing of it is executed.

What can only be known by running it becomes a note.
"""

from __future__ import annotations

import ast
import shlex
from dataclasses import dataclass, field
from typing import Any

from agent.ci.runners.context import Steps
from agent.ci.runners.nox.noxfile import NoxFile, Session
from agent.ci.runners.nox.python_values import UNKNOWN, Scope, Unknown, dotted, value

_LINES = 500
_DEPTH = 6
_SILENT = ("log", "warn", "debug", "warning")
_RUNS = ("run", "run_always", "run_install")


@dataclass(frozen=True, slots=True)
class Script:
    """A session as shell text: installs as `pip install …`, then its commands."""

    text: str
    notes: tuple[str, ...]
    notified: tuple[str, ...]


@dataclass
class _Walk:
    """Goes through the statements of one session."""

    file: NoxFile
    session: Session
    posargs: list[object]
    lines: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    notified: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    ended: bool = False
    steps: Steps = field(default_factory=Steps)


def script(file: NoxFile, session: Session, posargs: list[str], steps: Steps) -> Script:
    """Raises `TooMuch`."""
    walk = _Walk(file, session, list(posargs), steps=steps)
    names: dict[str, object] = {**file.scope.names, **session.parameters}
    arguments = session.function.args.args
    if arguments:
        _statements(session.function.body, walk, _scope(walk, names, arguments[0].arg), arguments[0].arg, 0)
    return Script("\n".join(walk.lines), tuple(dict.fromkeys(walk.notes)), tuple(walk.notified))


def _scope(walk: _Walk, names: dict[str, object], called: str) -> Scope:
    session = walk.session
    known = {
        f"{called}.posargs": walk.posargs,
        f"{called}.python": session.python or UNKNOWN,
        f"{called}.name": session.signature,
        f"{called}.interactive": False,
        f"{called}.env": walk.env,
        f"{called}.bin": UNKNOWN,
    }
    return Scope({**names, **known}, walk.file.scope.env, walk.file.scope.call)


def _note(walk: _Walk, node: ast.AST, why: str) -> None:
    text = " ".join(ast.unparse(node).split("\n")[0].split())[:80]
    walk.notes.append(f"nox session {walk.session.signature}: `{text}` {why}")


def _statements(body: list[ast.stmt], walk: _Walk, scope: Scope, called: str, depth: int) -> None:
    for node in body:
        walk.steps.take()
        if walk.ended:
            return
        if len(walk.lines) > _LINES:
            walk.ended = True
            walk.notes.append(f"nox session {walk.session.signature}: only its first {_LINES} lines are followed")
            return
        match node:
            case ast.Expr(value=ast.Call() as call):
                _called(call, walk, scope, called, depth)
            case ast.Assign(targets=[target], value=given) | ast.AnnAssign(target=target, value=ast.expr() as given):
                _assigned(target, given, walk, scope, called)
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=given):
                before, more = scope.names.get(name), value(given, scope)
                joined = isinstance(before, list) and isinstance(more, list)
                scope.names[name] = [*before, *more] if joined else UNKNOWN  # type: ignore[misc]
            case ast.If(test=test, body=then, orelse=otherwise):
                condition = value(test, scope)
                if isinstance(condition, Unknown):
                    if "__name__" not in ast.unparse(test):
                        _note(walk, test, "is only known when it is run; what depends on it is left out")
                else:
                    _statements(then if condition else otherwise, walk, scope, called, depth)
            case ast.For(target=ast.Name(id=name), iter=over, body=inner):
                items = value(over, scope)
                if not isinstance(items, list):
                    _note(walk, over, "is only known when it is run; its loop is left out")
                    continue
                for item in items[:_LINES]:
                    scope.names[name] = item
                    _statements(inner, walk, scope, called, depth)
            case ast.With(items=items, body=inner):
                before = len(walk.folders)
                for item in items:
                    if isinstance(item.context_expr, ast.Call):
                        _called(item.context_expr, walk, scope, called, depth)
                _statements(inner, walk, scope, called, depth)
                if len(walk.folders) > before:
                    walk.lines.append(
                        "cd " + "/".join(".." for part in "/".join(walk.folders[before:]).split("/") if part != ".")
                    )
                    del walk.folders[before:]
            case ast.Try(body=inner, finalbody=last):
                _note(walk, node, "is followed as if nothing went wrong in it")
                _statements([*inner, *last], walk, scope, called, depth)
            case ast.Return():
                return
            case ast.Expr() | ast.Pass() | ast.Import() | ast.ImportFrom():
                pass
            case _:
                _note(walk, node, "is not read")


def _assigned(target: ast.expr, given: ast.expr, walk: _Walk, scope: Scope, called: str) -> None:
    found = value(given, scope)
    if isinstance(target, ast.Subscript) and dotted(target.value) == f"{called}.env":
        name = value(target.slice, scope)
        if isinstance(name, str) and not isinstance(found, Unknown):
            walk.env[name] = str(found)
        else:
            _note(walk, target, "is a variable whose value is only known when it is run")
    elif isinstance(target, ast.Name):
        if isinstance(given, ast.Call) and isinstance(found, Unknown):
            inner = dotted(given.func)
            if inner == f"{called}.create_tmp":
                found = ".nox/tmp"
                walk.lines.append("mkdir -p .nox/tmp")
            elif inner.startswith(f"{called}."):
                _called(given, walk, scope, called, 0)
        scope.names[target.id] = found


def _called(call: ast.Call, walk: _Walk, scope: Scope, called: str, depth: int) -> None:
    name = dotted(call.func)
    owner, _, method = name.rpartition(".")
    if owner == called:
        _method(method, call, walk, scope)
    elif owner == f"{called}.env" and method == "update" and len(call.args) == 1:
        more = value(call.args[0], scope)
        if isinstance(more, dict):
            walk.env.update({str(key): str(item) for key, item in more.items() if not isinstance(item, Unknown)})
        else:
            _note(walk, call, "is only known when it is run")
    elif method in ("append", "extend") and isinstance(listed := scope.names.get(owner), list) and len(call.args) == 1:
        more = value(call.args[0], scope)
        scope.names[owner] = [*listed, more] if method == "append" else [*listed, *more] if isinstance(more, list) else UNKNOWN
    elif name in walk.file.functions and any(dotted(argument) == called for argument in call.args):
        function = walk.file.functions[name]
        if depth >= _DEPTH:
            _note(walk, call, "is nested too deeply")
            return
        keys = [argument.arg for argument in function.args.args]
        values: dict[str, Any] = dict(zip(keys, [value(argument, scope) for argument in call.args], strict=False))
        values |= {word.arg: value(word.value, scope) for word in call.keywords if word.arg}
        defaults = zip(keys[len(keys) - len(function.args.defaults) :], function.args.defaults, strict=True)
        named = [
            (argument.arg, default)
            for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
        ]
        values = {**{key: value(default, scope) for key, default in (*defaults, *named) if default is not None}, **values}
        if function.args.vararg is not None:
            values[function.args.vararg.arg] = [value(argument, scope) for argument in call.args[len(keys) :]]
        own = next(key for key, argument in zip(keys, call.args, strict=False) if dotted(argument) == called)
        _statements(function.body, walk, _scope(walk, {**walk.file.scope.names, **values}, own), own, depth + 1)
    elif name not in ("print",):
        _note(walk, call, "is not read")


def _method(method: str, call: ast.Call, walk: _Walk, scope: Scope) -> None:
    words: list[str] = []
    for argument in call.args:
        starred = isinstance(argument, ast.Starred)
        found = value(argument.value if isinstance(argument, ast.Starred) else argument, scope)
        items = found if starred and isinstance(found, list) else [found]
        if any(isinstance(item, (Unknown, list, dict)) for item in items):
            _note(walk, call, f"is left out: `{ast.unparse(argument)[:60]}` is only known when it is run")
            return
        words += [str(item) for item in items if item is not None]
    options = {word.arg: value(word.value, scope) for word in call.keywords if word.arg}
    if method in _SILENT:
        return
    if method == "install":
        walk.lines.append(shlex.join(["pip", "install", *words]))
    elif method in _RUNS and words:
        given = options.get("env") or {}
        more = given if isinstance(given, dict) else {}
        own = {**walk.env, **{str(key): str(item) for key, item in more.items() if isinstance(item, str | int)}}
        if isinstance(given, Unknown) or any(isinstance(item, Unknown) for item in more.values()):
            _note(walk, call, "has variables that are only known when it is run")
        line = " ".join([*(f"{key}={shlex.quote(item)}" for key, item in own.items()), shlex.join(words)])
        codes = options.get("success_codes")
        if isinstance(codes, list) and codes != [0]:
            line = f"{line} || case $? in {'|'.join(str(code) for code in codes)}) ;; *) exit 1 ;; esac"
        walk.lines.append(line)
    elif method in ("chdir", "cd") and words:
        walk.lines.append(shlex.join(["cd", words[0]]))
        walk.folders.append(words[0])
    elif method == "notify" and words:
        walk.notified.append(words[0])
    elif method in ("skip", "error"):
        walk.ended = True
        _note(walk, call, "ends it")
    elif method != "create_tmp":
        _note(walk, call, "is not read")
