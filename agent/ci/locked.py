"""Reads lock files (of uv, poetry, pdm, pipenv) as pinned requirements for one Python on Linux.

So what CI installed is what is installed here. Pure: text in, requirements out; what comes from git, a URL or a path is
named in a note and left out. Formats: the projects' own documentation of their lock files.
"""

from __future__ import annotations

import json
import platform
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from packaging.markers import Marker, default_environment
from packaging.utils import canonicalize_name

from agent.ci.tables import Table, as_table, strings

_PACKAGES = 5000


class LockError(ValueError):
    """A lock file that cannot be read; the message is a clause."""


@dataclass(frozen=True, slots=True)
class Locked:
    """`requirements` are `name==version`; `elsewhere` names what no index has."""

    requirements: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.elsewhere:
            return ()
        return (f"locked to a source that is no index, and left out: {', '.join(self.elsewhere)[:200]}",)


def from_uv(text: str, member: str, extras: Collection[str], groups: Collection[str], python: str | None) -> Locked:
    """`member` is the name of the project whose dependencies are wanted ("" for the one at the root). Raises `LockError`."""
    environment = _environment(python)
    packages = _tables(_toml(text).get("package"))
    by_name: dict[str, list[Table]] = {}
    for package in packages:
        by_name.setdefault(_name(package), []).append(package)
    root = next((package for package in packages if _is_root(package, member)), {})
    if not root:
        raise LockError("uv.lock does not hold the project")
    pins: dict[str, None] = {}
    elsewhere: dict[str, None] = {}
    waiting: list[Table] = [*_tables(root.get("dependencies"))]
    for extra in extras:
        waiting += _tables(as_table(root.get("optional-dependencies")).get(extra))
    for group in groups:
        waiting += _tables(as_table(root.get("dev-dependencies")).get(group))
    seen: set[tuple[str, str, str]] = set()
    while waiting:
        wanted = waiting.pop()
        if not _holds(str(wanted.get("marker", "")), environment):
            continue
        name, version = _name(wanted), str(wanted.get("version", ""))
        locked = next((p for p in by_name.get(name, []) if version in ("", str(p.get("version", "")))), None)
        if locked is None:
            continue
        for extra in ("", *strings(wanted.get("extra"))):
            if (key := (name, version, extra)) in seen:
                continue
            seen.add(key)
            more = as_table(locked.get("optional-dependencies")).get(extra) if extra else locked.get("dependencies")
            waiting += _tables(more)
        source = as_table(locked.get("source"))
        if "registry" in source:
            pins[f"{name}=={locked.get('version')}"] = None
        elif locked is not root and not ({"editable", "virtual"} & source.keys()):
            elsewhere[name] = None
    return Locked(tuple(sorted(pins)), tuple(elsewhere))


def from_poetry(text: str, names: Mapping[str, Collection[str]], python: str | None) -> Locked:
    """`names` are the project's own dependencies, each with its extras; theirs follow. Raises `LockError`."""
    environment = _environment(python)
    by_name: dict[str, list[Table]] = {}
    for package in _tables(_toml(text).get("package")):
        by_name.setdefault(_name(package), []).append(package)
    pins: dict[str, None] = {}
    elsewhere: dict[str, None] = {}
    waiting = [(canonicalize_name(name), extra) for name, extras in names.items() for extra in ("", *extras)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for package in by_name.get(name, []):
            if not _suits(package, environment):
                continue
            if as_table(package.get("source")).get("type") in ("git", "url", "file", "directory"):
                elsewhere[name] = None
            else:
                pins[f"{name}=={package.get('version')}"] = None
            if extra:
                listed = strings(as_table(package.get("extras")).get(extra))
                waiting += [(canonicalize_name(item.split(" ")[0].split("[")[0]), "") for item in listed]
                continue
            for needed, rows in as_table(package.get("dependencies")).items():
                for row in rows if isinstance(rows, list) else [rows]:
                    told = as_table(row)
                    if not told.get("optional") and _holds(str(told.get("markers", "")), environment):
                        waiting += [(canonicalize_name(needed), item) for item in ("", *strings(told.get("extras")))]
    return Locked(tuple(sorted(pins)), tuple(elsewhere))


def from_pdm(text: str, groups: Collection[str], python: str | None) -> Locked:
    """`groups` are those wanted, "default" among them. Raises `LockError`."""
    environment = _environment(python)
    pins: dict[str, None] = {}
    elsewhere: dict[str, None] = {}
    for package in _tables(_toml(text).get("package")):
        listed = strings(package.get("groups")) or ["default"]
        if not set(listed) & set(groups) or not _holds(str(package.get("marker", "")), environment):
            continue
        if {"git", "url", "path"} & package.keys():
            elsewhere[_name(package)] = None
        else:
            pins[f"{_name(package)}=={package.get('version')}"] = None
    return Locked(tuple(sorted(pins)), tuple(elsewhere))


def from_pipenv(text: str, sections: Collection[str], python: str | None) -> Locked:
    """`sections` are "default" and "develop", or others of the Pipfile. Raises `LockError`."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise LockError("Pipfile.lock is not valid JSON") from wrong
    environment = _environment(python)
    pins: dict[str, None] = {}
    elsewhere: dict[str, None] = {}
    for section in sections:
        for name, row in as_table(as_table(content).get(section)).items():
            package = as_table(row)
            if not _holds(str(package.get("markers", "")), environment):
                continue
            version = str(package.get("version", ""))
            if version.startswith("==") and not {"git", "file", "path"} & package.keys():
                pins[f"{canonicalize_name(name)}{version}"] = None
            else:
                elsewhere[name] = None
    return Locked(tuple(sorted(pins)), tuple(elsewhere))


def _is_root(package: Table, member: str) -> bool:
    if member and _name(package) == canonicalize_name(member):
        return True
    source = as_table(package.get("source"))
    return not member and "." in (source.get("editable"), source.get("virtual"), source.get("directory"))


def _suits(package: Table, environment: Mapping[str, str]) -> bool:
    markers = package.get("markers", "")
    texts = [str(text) for text in markers.values()] if isinstance(markers, dict) else [str(markers)]
    return any(_holds(text, environment) for text in texts)


def _holds(marker: str, environment: Mapping[str, str]) -> bool:
    if not marker:
        return True
    try:
        return Marker(marker).evaluate(dict(environment))
    except (ValueError, RecursionError, KeyError):
        return True  # one that no tool would write


def _environment(python: str | None) -> dict[str, str]:
    """Linux and the wanted Python; its newest patch, as setup actions take it."""
    version = python or ".".join(platform.python_version_tuple()[:2])
    plain = {name: str(value) for name, value in default_environment().items()}
    plain |= {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": ""}
    plain |= {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    return plain | {
        "python_version": version,
        "python_full_version": f"{version}.99",
        "implementation_version": f"{version}.99",
    }


def _toml(text: str) -> Table:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as wrong:
        raise LockError("the lock file is not valid TOML") from wrong


def _name(package: Table) -> str:
    return canonicalize_name(str(package.get("name", "")))


def _tables(value: object) -> list[Table]:
    return list(_each(value)) if isinstance(value, list) else []


def _each(rows: list[object]) -> Iterator[Table]:
    for row in rows[:_PACKAGES]:
        if isinstance(row, dict):
            yield row
