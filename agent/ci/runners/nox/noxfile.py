"""Reads a noxfile's sessions by `ast`, without executing it. `session` reads what a session installs and runs."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from agent.ci.project.tables import as_table, strings
from agent.ci.runners.context import Unfollowed
from agent.ci.runners.nox.python_values import UNKNOWN, PythonScope, dotted, value
from sandbox.install.python.requirements import group_members

_SESSIONS = 500


@dataclass(frozen=True, slots=True)
class NoxSession:
    """One session as nox lists it."""

    name: str  # of the function, or as `name=` says
    signature: str  # "tests-3.11(django='4.2')"
    python: str | None
    tags: tuple[str, ...]
    default: bool
    function: ast.FunctionDef
    parameters: Mapping[str, object]

    @property
    def any_python(self) -> str:
        """The signature without the Python."""
        return self.signature.replace(f"-{self.python}", "")


@dataclass
class NoxFile:
    sessions: list[NoxSession]
    options: Mapping[str, object]  # "sessions", "tags", "keywords", … as far as they are known
    scope: PythonScope
    functions: Mapping[str, ast.FunctionDef]


def read(text: str, env: Mapping[str, str], toml: Mapping[str, object]) -> NoxFile:
    """`toml` is the parsed pyproject.toml, for `nox.project.load_toml`. Raises `Unfollowed`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as wrong:
        raise Unfollowed("noxfile.py is not valid Python") from wrong
    scope = PythonScope({}, env, lambda name, arguments, options: _project(name, arguments, toml))
    sessions: list[NoxSession] = []
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
            raise Unfollowed("it has too many sessions")
    return NoxFile(sessions, options, scope, functions)


def _sessions(node: ast.FunctionDef, scope: PythonScope) -> list[NoxSession]:
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
    tags = strings(given.get("tags"))
    made: list[NoxSession] = []
    # The decorator next to the function varies fastest and is named first; Pythons vary slowest.
    for plain, combined in itertools.islice(itertools.product(listed, itertools.product(*parametrized)), _SESSIONS + 1):
        parameters = {key: item for _, values, _ in reversed(combined) for key, item in values.items()}
        ids = [id_ for id_, _, _ in reversed(combined) if id_]
        own = parameters.pop("python", None)
        python = own or plain
        version = python if isinstance(python, str) else None
        signature = title + (f"-{version}" if version and several and own is None else "")
        signature += f"({', '.join(ids)})" if ids else ""
        all_tags = tuple(dict.fromkeys([*tags, *(tag for *_, more in combined for tag in more)]))
        wanted = re.fullmatch(r"(?:python|cpython-)?(\d\.\d{1,2})\w*", version or "")
        default = given.get("default", True) is not False
        made.append(NoxSession(title, signature, wanted[1] if wanted else None, all_tags, default, node, parameters))
    return made


def _parameters(call: ast.Call, scope: PythonScope) -> list[tuple[str, dict[str, object], tuple[str, ...]]]:
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
            given = {word.arg: value(word.value, scope) for word in node.keywords}
            arguments = [value(argument, scope) for argument in node.args]
            rows.append((arguments[0] if len(keys) == 1 and arguments else arguments, given.get("id"), given.get("tags")))
        else:
            rows.append((value(node, scope), None, None))
    ids = next((value(word.value, scope) for word in call.keywords if word.arg == "ids"), None)
    made: list[tuple[str, dict[str, object], tuple[str, ...]]] = []
    for number, (row, own, tags) in enumerate(rows):
        values = dict(zip(keys, [row] if len(keys) == 1 else row if isinstance(row, list) else [], strict=False))
        named = own or (ids[number] if isinstance(ids, list) and number < len(ids) else None)
        id_ = str(named) if named else ", ".join(f"{key}={item!r}" for key, item in values.items())
        made.append((id_, values, tuple(map(str, tags)) if isinstance(tags, list) else ()))
    return made


def _project(name: str, arguments: list[object], toml: Mapping[str, object]) -> object:
    """The functions of `nox.project`."""
    match name.rsplit(".", 1)[-1], arguments:
        case "load_toml", [] | ["pyproject.toml"]:
            return dict(toml)
        case "dependency_groups", [dict() as table, *names]:
            return group_members(as_table(table.get("dependency-groups")), [str(one) for one in names])
        case "python_versions", [dict() as table, *_]:
            classifiers = strings(as_table(table.get("project")).get("classifiers"))
            found = [re.fullmatch(r"Programming Language :: Python :: (\d+\.\d+)", line) for line in classifiers]
            return sorted((match[1] for match in found if match), key=lambda text: [int(part) for part in text.split(".")])
    return UNKNOWN
