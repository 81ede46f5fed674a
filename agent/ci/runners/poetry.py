"""Follows poetry: `poetry run …`, `poetry install --with …`, with its groups, pinned by poetry.lock where there is one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from packaging.requirements import InvalidRequirement, Requirement

from agent.ci import locked
from agent.ci.project.install_commands import merge
from agent.ci.runners import manifest
from agent.ci.runners.context import Again, Followed, Place, Result, Unfollowed
from agent.ci.runners.manifest import Manifest, names, split_options
from agent.ci.tables import strings
from sandbox.base import Packages

_VALUED = ("--with", "--without", "--only", "-E", "--extras", "-C", "--directory", "-P", "--project")


def follow(words: Sequence[str], place: Place, again: Again) -> Result:
    """`words` begin with "poetry"."""
    before, rest = split_options(list(words[1:]), _VALUED)
    if folder := next(iter([*before.get("-C", []), *before.get("--directory", [])]), ""):
        place = place.moved(folder)
    match rest:
        case ["run", *arguments]:
            _, command = split_options(arguments, _VALUED)
            return again(shlex.join(command), place) if command else Unfollowed("it names no command")
        case ["install" | "sync", *arguments]:
            options, _ = split_options(arguments, _VALUED)
            packages, notes = _packages(options, place)
            return Followed("", packages, place.env, place.cwd, None, notes)
        case ["poe", *arguments]:
            return again(shlex.join(["poe", *arguments]), place)
        case ["build", *_]:
            return Followed("python -m build", Packages(requirements=("build",)), place.env, place.cwd)
        case ["config" | "lock" | "self" | "env" | "check" | "show" | "version" | "update" | "about", *_]:
            return Followed("", Packages(), place.env, place.cwd)
    return None


def _packages(options: dict[str, list[str]], place: Place) -> tuple[Packages, tuple[str, ...]]:
    found = manifest.read(place)
    groups = found.table("tool", "poetry", "group")
    tables: dict[str, Mapping[str, object]] = {
        name: {**found.table("tool", "poetry", "group", name, "dependencies")} for name in groups
    }
    if old := found.table("tool", "poetry", "dev-dependencies"):
        tables["dev"] = {**tables.get("dev", {}), **old}
    for name in found.groups:
        listed = strings(found.table("dependency-groups").get(name))
        tables[name] = {**tables.get(name, {}), **dict.fromkeys(listed, "*")}
    optional = [name for name in tables if found.table("tool", "poetry", "group", name).get("optional") is True]
    only = names(options.get("--only", []))
    if only:
        chosen = only
    else:
        chosen = [name for name in tables if name not in optional or "--all-groups" in options]
        chosen += names(options.get("--with", []))
        chosen = [name for name in chosen if name not in names(options.get("--without", []))]
    if "--no-dev" in options:
        chosen = [name for name in chosen if name != "dev"]
    main = (not only and "--only-root" not in options) or "main" in only
    extras = found.extras if "--all-extras" in options else names([*options.get("-E", []), *options.get("--extras", [])])
    requirements: list[str] = []
    left_out: list[str] = []
    own = {**found.table("tool", "poetry", "dependencies")} if main else {}
    for table in ([own] if main and "--no-root" in options else []) + [tables[name] for name in chosen if name in tables]:
        for name, told in table.items():
            one = requirement(name, told)
            (requirements if one else left_out).append(one or name)
    project = found.project(extras) if (main and "--no-root" not in options) else Packages()
    notes = tuple(f"{name[:60]} is fetched from elsewhere and left out" for name in left_out if name != "python")
    packages = merge(project, Packages(requirements=tuple(requirements)))
    if not (text := place.text("poetry.lock")):
        return packages, notes
    wanted = _roots(found, [own, *(tables[name] for name in chosen if name in tables)], extras, main)
    pins, more = manifest.locked(lambda: locked.from_poetry(text, wanted, place.python))
    return merge(pins, project), (*notes, *more)


def requirement(name: str, told: object) -> str | None:
    """A dependency of poetry's own table as PEP 508; None for what no index has, and for Python."""
    if name == "python":
        return None
    if isinstance(told, list):
        told = told[0] if told else "*"
    table = told if isinstance(told, dict) else {"version": told}
    if table.get("git") or table.get("path") or table.get("url") or table.get("optional") is True:
        return None
    extras = strings(table.get("extras"))
    markers = [str(table["markers"])] if table.get("markers") else []
    if isinstance(table.get("python"), str):
        markers += [f"python_version {clause}" for clause in _clauses(str(table["python"]))]
    text = name + (f"[{','.join(extras)}]" if extras else "") + _range(str(table.get("version") or "*"))
    text += f"; {' and '.join(markers)}" if markers else ""
    try:
        Requirement(text)
    except InvalidRequirement:
        return name
    return text


def _range(version: str) -> str:
    """`^1.2` → `>=1.2,<2`."""
    if "||" in version or version.strip() in ("*", ""):
        return ""
    return ",".join(_range_of(part.strip()) for part in version.split(",") if part.strip())


def _range_of(part: str) -> str:
    found = re.fullmatch(r"([\^~]?)=?\s*v?(\d+(?:\.\d+)*)([\w.+-]*)", part)
    if found is None:
        return part
    sign, version, rest = found.groups()
    numbers = [int(number) for number in version.split(".")]
    if sign == "":
        return f"=={version}{rest}"
    if sign == "^":
        at = next((index for index, number in enumerate(numbers) if number), len(numbers) - 1)
    else:
        at = min(1, len(numbers) - 1)
    above = [*numbers[:at], numbers[at] + 1]
    return f">={version}{rest},<{'.'.join(map(str, above))}"


def _clauses(text: str) -> list[str]:
    found = re.findall(
        r"(>=|<=|<|>|==|!=)\s*['\"]?(\d+(?:\.\d+)?)", ",".join(_range_of(part.strip()) for part in text.split(","))
    )
    return [f"{sign} '{version}'" for sign, version in found]


def _roots(found: Manifest, tables: Sequence[Mapping[str, object]], extras: Sequence[str], main: bool) -> dict[str, list[str]]:
    """The project's own dependencies as poetry.lock is to be entered with them."""
    roots: dict[str, list[str]] = {}
    for table in tables:
        for name, told in table.items():
            optional = isinstance(told, dict) and told.get("optional") is True
            if name != "python" and not optional:
                roots.setdefault(re.split(r"[\s\[<>=!~;]", name)[0], []).extend(
                    strings(told.get("extras")) if isinstance(told, dict) else []
                )
    if main:
        listed = strings(found.table("project").get("dependencies"))
        for extra in extras:
            listed += strings(found.table("project", "optional-dependencies").get(extra))
            listed += strings(found.table("tool", "poetry", "extras").get(extra))
        for text in listed:
            try:
                parsed = Requirement(text)
            except InvalidRequirement:
                continue
            roots.setdefault(parsed.name, []).extend(parsed.extras)
    return roots
