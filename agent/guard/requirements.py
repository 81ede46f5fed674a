"""Judges the dependencies that a patch adds to requirement files and manifests.

Versions can change. An entry that is more than a name with versions (a URL, a path, an option, another index) is refused. So is
a new name, unless a failure reports that package as missing.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from agent.contract.proposal import Edits
from agent.guard import Finding
from agent.source import syntax
from agent.source.distributions import distribution_of, normalised
from agent.source.ini import read_ini


class _Entry(NamedTuple):
    name: str  # normalised; "" unless the entry is a plain name with versions
    text: str


_LISTS = re.compile(r"(?:^|/)(?:requirements/[^/]+|[^/]*(?:requirements|constraints)[^/]*)\.(?:txt|in|pip)$", re.I)
_PLAIN = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?:\[[\w\s,.-]*\])?\s*\(?(?:[<>=!~]=?=?\s*+[\w.*+!-]++(?:\s*,\s*+)?+)*+\)?"
    r"\s*(?:;[^@:/]*)?(?:\s+--hash[= ][\w:]+)*"
)
_LONGEST = 8_000  # characters of an entry, with its hashes
_VERSIONS = re.compile(r"[\w.*^~<>=!|+,\s-]*")
_MARKS = ("version", "extras", "optional", "python", "markers", "platform", "features", "default-features")  # of an entry
_ARRAYS = ("project.dependencies", "project.optional-dependencies", "dependency-groups", "tool.uv.constraint-dependencies")
_TABLES = re.compile(
    r"tool\.poetry\.(?:group\.[^.]+\.)?(?:dev-)?dependencies|(?:dev-)?packages"
    r"|(?:target\..+\.|workspace\.)?(?:dev-|build-)?dependencies|(?:dev|peer|optional)Dependencies|overrides|resolutions"
)
_MISSING = re.compile(
    r"No module named ['\"]?(?P<python>[\w.]+)|\bE0401: Unable to import '(?P<linted>[\w.]+)'"
    r"|stubs? (?:not installed for|for module named) \"(?P<stub>[\w.]+)\""
    r"|(?:The '(?P<wanted>[\w.-]+)[^']*' distribution was not found|No package metadata was found for (?P<metadata>[\w.-]+)"
    r"|Missing optional dependency '(?P<optional>[\w.-]+)')"
    r"|Cannot find (?:module|package) '(?P<node>(?:@[\w.-]+/)?[\w-][\w.-]*)"
    r"|(?:can't find crate for|undeclared (?:crate|type) or module|unlinked crate|unresolved import) `(?P<crate>\w+)"
)


def requirement_findings(edits: Edits, failing: str, *, names_are_known: bool) -> Iterator[Finding]:
    """Violations of a whole patch. `names_are_known`: the proposer derived the new names from missing modules."""
    wanted = _missing(failing)
    for path, entry, is_new in _added(edits):
        if not entry.name:
            yield "dependency", f"{path} would install `{entry.text[:80]}`, which is not a plain name with versions"
        elif is_new and not names_are_known and entry.name not in wanted:
            yield "dependency", f"{path} would install `{entry.name[:80]}`, which no failure reports as missing"


def new_names(edits: Edits) -> tuple[str, ...]:
    """Dependencies that none of the changed files listed before."""
    return tuple(dict.fromkeys(entry.name for _, entry, is_new in _added(edits) if is_new and entry.name))


def lists_requirements(path: str) -> bool:
    """Whether it is a list of requirements for pip, by its name."""
    return bool(_LISTS.search(path))


def _added(edits: Edits) -> Iterator[tuple[str, _Entry, bool]]:
    had = {edit.path: _read(edit.path, edit.before or "") for edit in edits}
    names = {entry.name for entries in had.values() for entry in entries or ()}
    for edit in edits:
        before = had[edit.path]
        for entry in Counter(_read(edit.path, edit.after or "") or ()) - Counter(before or ()):
            if before is not None or entry.text not in (edit.before or ""):  # a broken file is fixed
                yield edit.path, entry, entry.name not in names


def _read(path: str, text: str) -> list[_Entry] | None:
    """None if it cannot be parsed; other rules refuse a patch that leaves the file like that."""
    try:
        return list(_entries(path, text))
    except (ValueError, SyntaxError, configparser.Error, RecursionError, MemoryError, AttributeError):
        return None


def _entries(path: str, text: str) -> Iterator[_Entry]:
    """The entries of any file; nothing for files without dependencies."""
    name = PurePosixPath(path).name.casefold()
    if lists_requirements(path):
        yield from _listed(re.sub(r"\\\r?\n", " ", text).splitlines())
    elif name in ("pyproject.toml", "pipfile", "cargo.toml"):
        yield from _of_table("", tomllib.loads(text))
    elif name == "package.json":
        yield from _of_table("", json.loads(text or "{}"))
    elif name in ("setup.cfg", "tox.ini"):
        parser = read_ini(text)
        for section in parser.sections():
            for key, value in parser.items(section):
                if key in ("install_requires", "deps") or section == "options.extras_require":
                    yield from _listed(value.splitlines())
    elif name == "setup.py":
        yield from _of_setup(syntax.tree(text))


def _listed(rows: Iterable[str]) -> Iterator[_Entry]:
    for row in rows:
        if text := re.sub(r"(^|\s)#.*", "", row).strip():
            yield _entry(text)


def _entry(text: str) -> _Entry:
    plain = _PLAIN.fullmatch(text) if len(text) <= _LONGEST else None
    return _Entry(normalised(plain["name"]) if plain else "", text)


def _of_table(prefix: str, table: Mapping[str, object]) -> Iterator[_Entry]:
    for key, value in table.items():
        where = f"{prefix}.{key}" if prefix else key
        if _TABLES.fullmatch(where) and isinstance(value, dict):
            for name, spec in value.items():
                yield from _named(name, spec)
        elif isinstance(value, dict):
            yield from _of_table(where, value)
        elif isinstance(value, list) and (where in _ARRAYS or prefix in _ARRAYS):
            yield from (_entry(one.strip()) for one in value if isinstance(one, str))


def _named(name: str, spec: object) -> Iterator[_Entry]:
    """Reads `name = "^1.2"`, `name = {version = "1.2", extras = […]}`, or a list of these."""
    text = f"{name} = {spec}"
    match spec:
        case str():
            yield _Entry(normalised(name) if _VERSIONS.fullmatch(spec) else "", text)
        case list():
            for one in spec:
                yield from _named(name, one)
        case dict() if all(key in _MARKS for key in spec):
            yield from _named(name, str(spec.get("version", "*")))
        case _:
            yield _Entry("", text)


def _of_setup(tree: ast.Module) -> Iterator[_Entry]:
    for word in (word for node in ast.walk(tree) if isinstance(node, ast.Call) for word in node.keywords):
        if word.arg not in ("install_requires", "extras_require"):
            continue
        try:
            value = ast.literal_eval(word.value)
        except ValueError:
            yield _Entry("", ast.unparse(word.value))  # computed
            continue
        for some in value.values() if isinstance(value, dict) else [value]:
            yield from _listed(some.splitlines() if isinstance(some, str) else map(str, some))


def _missing(failing: str) -> frozenset[str]:
    """The normalised names that provide the modules and packages reported as missing."""
    found: set[str] = set()
    for match in _MISSING.finditer(failing):
        kind, missing = str(match.lastgroup), match[str(match.lastgroup)].strip(".")
        found.add(missing)
        if kind in ("python", "linted", "stub"):
            parts = missing.split(".")
            names = {distribution_of(missing, {}), *(".".join(parts[:count]) for count in range(1, len(parts) + 1))}
            found |= {f"types-{name}" for name in names} if kind == "stub" else names
    return frozenset(map(normalised, found))
