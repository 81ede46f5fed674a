"""Reads lock files (of uv, poetry, pdm, pipenv) as pinned requirements for one Python on Linux.

So the sandbox installs the versions that CI installed. Pure: text in, requirements out. A package from git, a URL or a path is
named in a note and left out. The formats follow the tools' own documentation.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from packaging.markers import Marker, default_environment
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from agent.ci.project.tables import Table, as_table, read_toml, strings, tables

_PACKAGES = 5000


class LockError(ValueError):
    """A lock file that cannot be read; the message is a clause."""


@dataclass(frozen=True, slots=True)
class Locked:
    """`requirements` are `name==version`; `elsewhere` names packages that are not from an index."""

    requirements: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        if not self.elsewhere:
            return ()
        return (f"left out because they are not from a package index: {', '.join(self.elsewhere)[:200]}",)


class _Pins:
    """The pins collected from one lock file, for one Python."""

    def __init__(self, python: str | None) -> None:
        self.environment = _environment(python)
        self.found: set[str] = set()
        self.elsewhere: dict[str, None] = {}

    def applies(self, marker: object) -> bool:
        if not marker:
            return True
        try:
            return Marker(str(marker)).evaluate(dict(self.environment))
        except (ValueError, RecursionError, KeyError):
            return True  # no tool writes such a marker

    def add(self, name: str, version: object, *, in_index: bool) -> None:
        if in_index:
            self.found.add(f"{name}=={version}")
        else:
            self.elsewhere[name] = None

    def locked(self) -> Locked:
        return Locked(tuple(sorted(self.found)), tuple(self.elsewhere))


def from_uv(text: str, member: str, extras: Collection[str], groups: Collection[str], python: str | None) -> Locked:
    """`member` is the name of the workspace member ("" for the project at the root). Raises `LockError`."""
    pins, by_name = _Pins(python), _by_name(text)
    packages = (package for same in by_name.values() for package in same)
    root = next((package for package in packages if _is_root(package, member)), None)
    if root is None:
        raise LockError("uv.lock does not contain the project")
    waiting = tables(root.get("dependencies"))
    for extra in extras:
        waiting += tables(as_table(root.get("optional-dependencies")).get(extra))
    for group in groups:
        waiting += tables(as_table(root.get("dev-dependencies")).get(group))
    seen: set[tuple[str, str, str]] = set()
    while waiting:
        wanted = waiting.pop()
        name, version = _name(wanted), str(wanted.get("version", ""))
        package = next((one for one in by_name.get(name, []) if version in ("", str(one.get("version", "")))), None)
        if package is None or not pins.applies(wanted.get("marker")):
            continue
        for extra in ("", *strings(wanted.get("extra"))):
            if (key := (name, version, extra)) not in seen:
                seen.add(key)
                more = as_table(package.get("optional-dependencies")).get(extra) if extra else package.get("dependencies")
                waiting += tables(more)
        source = as_table(package.get("source"))
        if package is not root and not ({"editable", "virtual"} & source.keys()):
            pins.add(name, package.get("version"), in_index="registry" in source)
    return pins.locked()


def from_poetry(text: str, names: Mapping[str, Collection[str]], python: str | None) -> Locked:
    """`names` are the project's own dependencies, each with its extras. Raises `LockError`."""
    pins, by_name = _Pins(python), _by_name(text)
    waiting = [(canonicalize_name(name), extra) for name, extras in names.items() for extra in ("", *extras)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        if (package := _of_this_python(by_name.get(name, []), pins)) is not None:
            source = as_table(package.get("source")).get("type")
            pins.add(name, package.get("version"), in_index=source not in ("git", "url", "file", "directory"))
            if extra:
                listed = strings(as_table(package.get("extras")).get(extra))
                waiting += [(canonicalize_name(item.split(" ")[0].split("[")[0]), "") for item in listed]
                continue
            for needed, rows in as_table(package.get("dependencies")).items():
                for row in map(as_table, rows if isinstance(rows, list) else [rows]):
                    if not row.get("optional") and pins.applies(row.get("markers")):
                        waiting += [(canonicalize_name(needed), item) for item in ("", *strings(row.get("extras")))]
    return pins.locked()


def from_pdm(text: str, groups: Collection[str], python: str | None) -> Locked:
    """`groups` are the wanted groups, including "default". Raises `LockError`."""
    pins = _Pins(python)
    for same in _by_name(text).values():
        for package in same:
            listed = strings(package.get("groups")) or ["default"]
            if set(listed) & set(groups) and pins.applies(package.get("marker")):
                pins.add(_name(package), package.get("version"), in_index=not {"git", "url", "path"} & package.keys())
    return pins.locked()


def from_pipenv(text: str, sections: Collection[str], python: str | None) -> Locked:
    """`sections` are "default" and "develop", or others of the Pipfile. Raises `LockError`."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise LockError("Pipfile.lock is not valid JSON") from wrong
    pins = _Pins(python)
    for section in sections:
        for name, row in as_table(as_table(content).get(section)).items():
            package = as_table(row)
            if pins.applies(package.get("markers")):
                version = str(package.get("version", ""))
                in_index = version.startswith("==") and not {"git", "file", "path"} & package.keys()
                pins.add(canonicalize_name(name) if in_index else name, version.removeprefix("=="), in_index=in_index)
    return pins.locked()


def _by_name(text: str) -> dict[str, list[Table]]:
    """The locked packages, in order; some have several versions. Raises `LockError`."""
    content = read_toml(text)
    if content is None:
        raise LockError("the lock file is not valid TOML")
    found: dict[str, list[Table]] = {}
    for package in tables(content.get("package"))[:_PACKAGES]:
        found.setdefault(_name(package), []).append(package)
    return found


def _of_this_python(packages: Sequence[Table], pins: _Pins) -> Table | None:
    """Of the versions of one package that poetry has locked, the newest that suits the Python: one environment has only one."""
    found = []
    for package in packages:
        markers = package.get("markers", "")
        suits = _suits(str(package.get("python-versions", "*")), pins.environment["python_full_version"])
        if suits and any(pins.applies(one) for one in (markers.values() if isinstance(markers, dict) else [markers])):
            found.append(package)
    return max(found, key=_version, default=None)


def _suits(pythons: str, version: str) -> bool:
    try:
        return SpecifierSet("" if pythons == "*" else pythons).contains(version, prereleases=True)
    except InvalidSpecifier:  # poetry's own syntax
        return True


def _version(package: Table) -> Version:
    try:
        return Version(str(package.get("version")))
    except InvalidVersion:
        return Version("0")


def _is_root(package: Table, member: str) -> bool:
    if member:
        return _name(package) == canonicalize_name(member)
    source = as_table(package.get("source"))
    return "." in (source.get("editable"), source.get("virtual"), source.get("directory"))


def _environment(python: str | None) -> dict[str, str]:
    """Marker values for Linux and the newest patch release of the wanted Python, which setup actions take too."""
    version = python or ".".join(platform.python_version_tuple()[:2])
    plain = {name: str(value) for name, value in default_environment().items()}
    plain |= {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": ""}
    plain |= {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    return plain | {
        "python_version": version,
        "python_full_version": f"{version}.99",
        "implementation_version": f"{version}.99",
    }


def _name(package: Table) -> str:
    return canonicalize_name(str(package.get("name", "")))
