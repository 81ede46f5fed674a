"""Reads a noxfile's sessions by `ast`, with what each would install and run. Nothing of it is executed.

What can only be known by running it becomes a note. Knows the file, not the command line.
"""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.ci.runners.followed import Steps
from agent.ci.runners.python_values import UNKNOWN, Scope, Unknown, dotted, value

_SESSIONS = 500
_LINES = 500
_DEPTH = 6
_SILENT = ("log", "warn", "debug", "warning")
_RUNS = ("run", "run_always", "run_install")


class NoxError(ValueError):
    """A file that cannot be read; the message is a clause."""


@dataclass(frozen=True, slots=True)
class Session:
    """One session as nox lists it."""

    name: str  # of the function, or as `name=` says
    signature: str  # "tests-3.11(django='4.2')"
    python: str | None
    tags: tuple[str, ...]
    default: bool
    function: ast.FunctionDef
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Script:
    """A session as shell text: installs as `pip install …`, then its commands."""

    text: str
    notes: tuple[str, ...]
    notified: tuple[str, ...]


@dataclass
class NoxFile:
    sessions: list[Session]
    options: Mapping[str, object]  # "sessions", "tags", "keywords", … as far as they are known
    scope: Scope
    functions: Mapping[str, ast.FunctionDef]


def read(text: str, env: Mapping[str, str], toml: Mapping[str, object]) -> NoxFile:
    """`toml` is what `nox.project.load_toml("pyproject.toml")` gives. Raises `NoxError`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as wrong:
        raise NoxError("noxfile.py is not valid Python") from wrong
    scope = Scope({}, env, lambda name, arguments, options: _project(name, arguments, toml))
    sessions: list[Session] = []
    functions: dict[str, ast.FunctionDef] = {}
    options: dict[str, object] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[target], value=given) | ast.AnnAssign(target=target, value=ast.expr() as given):
                name = dotted(target)
                scope.names[name] = value(given, scope)
                if name.startswith(("nox.options.", "options.")):
                    options[name.rsplit(".", 1)[1]] = scope.names[name]
            case ast.FunctionDef(name=name):
                functions[name] = node
                sessions += _sessions(node, scope)
        if len(sessions) > _SESSIONS:
            raise NoxError("it has too many sessions")
    return NoxFile(sessions, options, scope, functions)


def _sessions(node: ast.FunctionDef, scope: Scope) -> list[Session]:
    parametrized: list[list[tuple[str, dict[str, object], tuple[str, ...]]]] = []
    given: dict[str, object] | None = None
    for decorator in node.decorator_list:
        called = decorator if isinstance(decorator, ast.Call) else None
        name = dotted(called.func if called else decorator).rsplit(".", 1)[-1]
        if name == "session":
            given = {word.arg: value(word.value, scope) for word in called.keywords if word.arg} if called else {}
        elif name == "parametrize" and called is not None:
            parametrized.append(_parameters(called, scope))
    if given is None:
        return []
    title = str(given.get("name") or node.name)
    pythons = given.get("python", given.get("py"))
    listed = pythons if isinstance(pythons, list) else [pythons]
    several = isinstance(pythons, list)
    tags = tuple(str(tag) for tag in given["tags"]) if isinstance(given.get("tags"), list) else ()  # type: ignore[attr-defined]
    made: list[Session] = []
    # The decorator next to the function varies fastest and is named first; Pythons vary slowest.
    for plain, combined in itertools.islice(itertools.product(listed, itertools.product(*parametrized)), _SESSIONS + 1):
        parameters = {key: item for _, values, _ in reversed(combined) for key, item in values.items()}
        ids = [told for told, _, _ in reversed(combined) if told]
        own = parameters.pop("python", None)
        python = own or plain
        version = python if isinstance(python, str) else None
        signature = title + (f"-{version}" if version and several and own is None else "")
        signature += f"({', '.join(ids)})" if ids else ""
        all_tags = tuple(dict.fromkeys([*tags, *(tag for *_, more in combined for tag in more)]))
        wanted = re.fullmatch(r"(?:python|cpython-)?(\d\.\d{1,2})\w*", version or "")
        default = given.get("default", True) is not False
        made.append(Session(title, signature, wanted[1] if wanted else None, all_tags, default, node, parameters))
    return made


def _parameters(call: ast.Call, scope: Scope) -> list[tuple[str, dict[str, object], tuple[str, ...]]]:
    """Each set of values: its name in a signature, the values, the tags."""
    if len(call.args) < 2:
        return []
    names = value(call.args[0], scope)
    keys = [key.strip() for key in names.split(",")] if isinstance(names, str) else [str(n) for n in names or []]  # type: ignore[attr-defined]
    nodes = call.args[1].elts if isinstance(call.args[1], ast.List | ast.Tuple) else None
    rows: list[tuple[object, object, object]] = []
    if nodes is None:
        known = value(call.args[1], scope)
        rows = [(row, None, None) for row in known] if isinstance(known, list) else []
    for node in nodes or []:
        if isinstance(node, ast.Call) and dotted(node.func).endswith("param"):
            told = {word.arg: value(word.value, scope) for word in node.keywords}
            arguments = [value(argument, scope) for argument in node.args]
            rows.append((arguments[0] if len(keys) == 1 and arguments else arguments, told.get("id"), told.get("tags")))
        else:
            rows.append((value(node, scope), None, None))
    ids = next((value(word.value, scope) for word in call.keywords if word.arg == "ids"), None)
    made: list[tuple[str, dict[str, object], tuple[str, ...]]] = []
    for number, (row, own, tags) in enumerate(rows):
        values = dict(zip(keys, [row] if len(keys) == 1 else row if isinstance(row, list) else [], strict=False))
        named = own or (ids[number] if isinstance(ids, list) and number < len(ids) else None)
        told_as = str(named) if named else ", ".join(f"{key}={item!r}" for key, item in values.items())
        made.append((told_as, values, tuple(map(str, tags)) if isinstance(tags, list) else ()))
    return made


def _project(name: str, arguments: list[object], toml: Mapping[str, object]) -> object:
    """The functions of `nox.project`."""
    match name.rsplit(".", 1)[-1], arguments:
        case "load_toml", [] | ["pyproject.toml"]:
            return dict(toml)
        case "dependency_groups", [dict() as table, *names]:
            groups = table.get("dependency-groups")
            return _group_members(groups if isinstance(groups, dict) else {}, [str(one) for one in names])
        case "python_versions", [dict() as table, *_]:
            project = table.get("project")
            classifiers = project.get("classifiers", []) if isinstance(project, dict) else []
            found = [re.fullmatch(r"Programming Language :: Python :: (\d+\.\d+)", str(line)) for line in classifiers]
            return sorted((match[1] for match in found if match), key=lambda text: [int(part) for part in text.split(".")])
    return UNKNOWN


def _group_members(groups: Mapping[str, object], names: list[str]) -> list[object]:
    found: list[object] = []
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        members = groups.get(name)
        for member in members if isinstance(members, list) else []:
            if isinstance(member, str):
                found.append(member)
            elif isinstance(member, dict):
                waiting.append(str(member.get("include-group")))
    return found


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
