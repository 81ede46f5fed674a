"""Follows poetry: `poetry run …`, `poetry install --with …`, with its groups, pinned by poetry.lock where there is one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from packaging.requirements import InvalidRequirement, Requirement

from agent.ci.project import lockfiles
from agent.ci.project.install_commands import merge
from agent.ci.project.tables import Table, as_table, strings
from agent.ci.runners import manifest
from agent.ci.runners.context import Again, Followed, ShellContext, Unfollowed
from agent.ci.runners.manifest import Manifest
from agent.ci.runners.options import Options, split_options
from sandbox.base import Packages

_VALUED = ("--with", "--without", "--only", "-E", "--extras", "-C", "--directory", "-P", "--project")


def follow(words: Sequence[str], context: ShellContext, again: Again) -> Followed | None:
    before, rest = split_options(words[1:], _VALUED)
    context = context.moved(before.value("-C", "--directory", default="."))
    match rest:
        case ["run", *arguments]:
            _, command = split_options(arguments, _VALUED)
            if not command:
                raise Unfollowed("it names no command")
            return again(shlex.join(command), context)
        case ["install" | "sync", *arguments]:
            options, _ = split_options(arguments, _VALUED)
            packages, notes = _packages(options, context)
            return context.result(packages=packages, notes=notes)
        case ["poe", *_]:
            return again(shlex.join(rest), context)
        case ["build", *_]:
            return context.result(*manifest.BUILD)
        case ["config" | "lock" | "self" | "env" | "check" | "show" | "version" | "update" | "about", *_]:
            return context.result()
    return None


def _packages(options: Options, context: ShellContext) -> tuple[Packages, tuple[str, ...]]:
    found = manifest.read(context)
    groups = found.table("tool", "poetry", "group")
    tables: dict[str, Table] = {name: as_table(as_table(group).get("dependencies")) for name, group in groups.items()}
    if old := found.table("tool", "poetry", "dev-dependencies"):
        tables["dev"] = {**tables.get("dev", {}), **old}
    for name, listed in found.table("dependency-groups").items():
        tables[name] = {**tables.get(name, {}), **dict.fromkeys(strings(listed), "*")}
    only = options.names("--only")
    if only:
        chosen = only
    else:
        optional = [name for name, group in groups.items() if as_table(group).get("optional") is True]
        chosen = [name for name in tables if name not in optional or options.has("--all-groups")]
        chosen += options.names("--with")
        chosen = [name for name in chosen if name not in options.names("--without")]
    if options.has("--no-dev"):
        chosen = [name for name in chosen if name != "dev"]
    main = (not only and not options.has("--only-root")) or "main" in only
    installs_project = main and not options.has("--no-root")
    extras = found.extras if options.has("--all-extras") else options.names("-E", "--extras")
    own = found.table("tool", "poetry", "dependencies") if main else {}
    wanted = [tables[name] for name in chosen if name in tables]
    project = found.project(extras) if installs_project else Packages()
    requirements: list[str] = []
    left_out: list[str] = []
    for table in wanted if installs_project else [own, *wanted]:
        for name, given in table.items():
            one = requirement(name, given)
            (requirements if one else left_out).append(one or name)
    notes = tuple(f"{name[:60]} comes from no package index and is left out" for name in left_out if name != "python")
    if not (text := context.text("poetry.lock")):
        return merge(project, Packages(requirements=tuple(requirements))), notes
    roots = _roots(found, [own, *wanted], extras, main)
    pins, more = manifest.locked(lambda: lockfiles.from_poetry(text, roots, context.python))
    return merge(pins, project), (*notes, *more)


def requirement(name: str, given: object) -> str | None:
    """A dependency of poetry's own table as PEP 508; None for Python, and for one from no package index."""
    if name == "python":
        return None
    if isinstance(given, list):
        given = given[0] if given else "*"
    table = given if isinstance(given, dict) else {"version": given}
    if table.get("git") or table.get("path") or table.get("url") or table.get("optional") is True:
        return None
    extras = strings(table.get("extras"))
    markers = [str(table["markers"])] if table.get("markers") else []
    if isinstance(table.get("python"), str):
        versions = re.findall(r"(>=|<=|<|>|==|!=)\s*['\"]?(\d+(?:\.\d+)?)", _range(str(table["python"])))
        markers += [f"python_version {sign} '{version}'" for sign, version in versions]
    text = name + (f"[{','.join(extras)}]" if extras else "") + _range(str(table.get("version") or "*"))
    text += f"; {' and '.join(markers)}" if markers else ""
    return text if _parsed(text) else name


def _parsed(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


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


def _roots(found: Manifest, tables: Sequence[Table], extras: Sequence[str], main: bool) -> dict[str, list[str]]:
    """The project's own dependencies, each with its extras."""
    roots: dict[str, list[str]] = {}
    for table in tables:
        for name, given in table.items():
            options = as_table(given)
            if name != "python" and options.get("optional") is not True:
                roots.setdefault(re.split(r"[\s\[<>=!~;]", name)[0], []).extend(strings(options.get("extras")))
    if main:
        more = found.table("tool", "poetry", "extras")
        for text in [*found.dependencies(extras), *(text for extra in extras for text in strings(more.get(extra)))]:
            if parsed := _parsed(text):
                roots.setdefault(parsed.name, []).extend(parsed.extras)
    return roots
