"""What a change would have installed: its entries in the files that name dependencies.

Versions may change. An entry that is more than a name with versions (an address, a path, an option, another index) is no
repair, and a new name is one only where a failure says that this very thing is missing.
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
from agent.source.distributions import distribution_of, normalised

Finding = tuple[str, str]  # rule, sentence


class _Entry(NamedTuple):
    name: str  # normalised; "" where the entry is no name with versions
    text: str


_LISTS = re.compile(r"(?:^|/)(?:requirements/[^/]+|[^/]*(?:requirements|constraints)[^/]*)\.(?:txt|in|pip)$", re.I)
_PLAIN = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?:\[[\w\s,.-]*\])?\s*\(?(?:[<>=!~]=?=?\s*[\w.*+!-]+\s*,?\s*)*\)?"
    r"\s*(?:;[^@:/]*)?(?:\s+--hash[= ][\w:]+)*"
)
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
    r"|(?:The '(?P<wanted>[\w.-]+)[^']*' distribution was not found|No package metadata was found for (?P<told>[\w.-]+)"
    r"|Missing optional dependency '(?P<optional>[\w.-]+)')"
    r"|Cannot find (?:module|package) '(?P<node>(?:@[\w.-]+/)?[\w-][\w.-]*)"
    r"|(?:can't find crate for|undeclared (?:crate|type) or module|unlinked crate|unresolved import) `(?P<crate>\w+)"
)


def requirement_findings(edits: Edits, failing: str, *, names_are_known: bool) -> Iterator[Finding]:
    """Offences of a whole change. `names_are_known`: its proposer has read new names from what is missing itself."""
    wanted = _missing(failing)
    for path, entry, is_new in _added(edits):
        if not entry.name:
            yield "dependency", f"{path} would have `{entry.text[:80]}` installed, which is no plain name with versions"
        elif is_new and not names_are_known and entry.name not in wanted:
            yield "dependency", f"{path} would have `{entry.name[:80]}` installed, and no failure says that it is missing"


def new_names(edits: Edits) -> tuple[str, ...]:
    """What the repository has not asked for before, as far as the changed files tell."""
    return tuple(dict.fromkeys(entry.name for _, entry, is_new in _added(edits) if is_new and entry.name))


def _added(edits: Edits) -> Iterator[tuple[str, _Entry, bool]]:
    had = {edit.path: _read(edit.path, edit.before or "") for edit in edits}
    names = {entry.name for entries in had.values() for entry in entries or ()}
    for edit in edits:
        before = had[edit.path]
        for entry in Counter(_read(edit.path, edit.after or "") or ()) - Counter(before or ()):
            if before is not None or entry.text not in (edit.before or ""):  # a torn file is mended
                yield edit.path, entry, entry.name not in names


def _read(path: str, text: str) -> list[_Entry] | None:
    """None where it cannot be read; after the change, that is refused by other rules."""
    try:
        return list(_entries(path, text))
    except (ValueError, SyntaxError, configparser.Error, RecursionError, MemoryError, AttributeError):
        return None


def _entries(path: str, text: str) -> Iterator[_Entry]:
    """Of any file; none where it names no dependencies."""
    name = PurePosixPath(path).name.casefold()
    if _LISTS.search(path):
        yield from _listed(re.sub(r"\\\r?\n", " ", text).splitlines())
    elif name in ("pyproject.toml", "pipfile", "cargo.toml"):
        yield from _of_table("", tomllib.loads(text))
    elif name == "package.json":
        yield from _of_table("", json.loads(text or "{}"))
    elif name in ("setup.cfg", "tox.ini"):
        parser = configparser.RawConfigParser(strict=False)
        parser.read_string(text)
        for section in parser.sections():
            for key, value in parser.items(section):
                if key in ("install_requires", "deps") or section == "options.extras_require":
                    yield from _listed(value.splitlines())
    elif name == "setup.py":
        yield from _of_setup(ast.parse(text))


def _listed(rows: Iterable[str]) -> Iterator[_Entry]:
    for row in rows:
        if text := re.sub(r"(^|\s)#.*", "", row).strip():
            yield _entry(text)


def _entry(text: str) -> _Entry:
    plain = _PLAIN.fullmatch(text)
    return _Entry(normalised(plain["name"]) if plain else "", text)


def _of_table(prefix: str, table: Mapping[str, object]) -> Iterator[_Entry]:
    for key, value in table.items():
        where = f"{prefix}.{key}" if prefix else key
        if _TABLES.fullmatch(where) and isinstance(value, dict):
            for name, told in value.items():
                yield from _named(name, told)
        elif isinstance(value, dict):
            yield from _of_table(where, value)
        elif isinstance(value, list) and (where in _ARRAYS or prefix in _ARRAYS):
            yield from (_entry(one.strip()) for one in value if isinstance(one, str))


def _named(name: str, told: object) -> Iterator[_Entry]:
    """`name = "^1.2"`, `name = {version = "1.2", extras = […]}`, and a list of these."""
    text = f"{name} = {told}"
    match told:
        case str():
            yield _Entry(normalised(name) if _VERSIONS.fullmatch(told) else "", text)
        case list():
            for one in told:
                yield from _named(name, one)
        case dict() if all(key in _MARKS for key in told):
            yield from _named(name, str(told.get("version", "*")))
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
    """The normalised names under which what is missing may be asked for."""
    found: set[str] = set()
    for said in _MISSING.finditer(failing):
        kind, told = str(said.lastgroup), said[str(said.lastgroup)].strip(".")
        found.add(told)
        if kind in ("python", "linted", "stub"):
            parts = told.split(".")
            names = {distribution_of(told, {}), *(".".join(parts[:count]) for count in range(1, len(parts) + 1))}
            found |= {f"types-{name}" for name in names} if kind == "stub" else names
    return frozenset(map(normalised, found))
