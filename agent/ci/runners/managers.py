"""Follows the project managers pdm, pipenv and poetry: what they run, and what they install, pinned by their lock files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from packaging.requirements import InvalidRequirement, Requirement

from agent.ci.project import lockfiles
from agent.ci.project.install_commands import merge
from agent.ci.project.tables import Table, as_table, read_toml, strings, variables
from agent.ci.runners import manifest
from agent.ci.runners.context import Again, Followed, ShellContext, Unfollowed
from agent.ci.runners.manifest import Manifest
from agent.ci.runners.named_scripts import NamedScripts
from agent.ci.runners.options import CommandOptions, separate_options, split_options
from sandbox.base import Packages

_PDM_VALUED = (
    "-G", "--group", "--with", "--without", "-p", "--project", "-L", "--lockfile", "-s", "--site-packages-of", "-c",
    "--config",
)  # fmt: skip
_PDM_OTHERS = (
    "lock", "config", "use", "venv", "python", "py", "cache", "info", "list", "show", "update", "self", "plugin", "init",
    "add",
)  # fmt: skip
_PIPENV_VALUED = (
    "--python", "--categories", "-r", "--requirements", "-i", "--index", "--pypi-mirror", "-e", "--editable",
    "--extra-pip-args",
)  # fmt: skip
_POETRY_VALUED = ("--with", "--without", "--only", "-E", "--extras", "-C", "--directory", "-P", "--project")


def pdm(words: Sequence[str], context: ShellContext, again: Again) -> Followed | None:
    before, rest = split_options(words[1:], _PDM_VALUED)
    context = context.moved(before.value("-p", "--project", default="."))
    scripts = manifest.read(context).table("tool", "pdm", "scripts")
    match rest:
        case ["run", *arguments]:
            options, command = split_options(arguments, ("-p", "--project", "-s"))
            if options.has("-l", "--list"):
                raise Unfollowed("`pdm run --list` runs no tests")
            return _pdm_run(command, scripts, context, again)
        case ["install" | "sync", *arguments]:
            options, _ = split_options(arguments, _PDM_VALUED)
            packages, notes = _pdm_packages(options, context)
            return context.result(packages=packages, notes=notes)
        case ["build", *_]:
            return context.result(*manifest.BUILD)
        case [name, *_] if name in scripts:
            return _pdm_run(rest, scripts, context, again)
        case [name, *_] if name in _PDM_OTHERS:
            return context.result()
    return None


def _pdm_run(command: list[str], scripts: Table, context: ShellContext, again: Again) -> Followed:
    if not command:
        raise Unfollowed("it names no command")
    inside = context.with_env(variables(as_table(scripts.get("_")).get("env")))
    if command[0] in scripts:
        return NamedScripts(scripts, context.steps).run(command[0], command[1:], inside, again)
    return again(shlex.join(["python", *command] if command[0].endswith(".py") else command), inside)


def _pdm_packages(options: CommandOptions, context: ShellContext) -> tuple[Packages, tuple[str, ...]]:
    found = manifest.read(context)
    old = found.table("tool", "pdm", "dev-dependencies")
    dev = [*old, *(name for name in found.groups if name not in old)]
    asked = options.names("-G", "--group", "--with")
    left_out = options.names("--without")
    production = options.has("--prod", "--production", "--no-dev")
    wanted = [*([] if production else dev), *(found.extras if ":all" in asked else []), *asked]
    wanted = [name for name in dict.fromkeys(wanted) if name not in left_out and name != ":all"]
    extras = [name for name in wanted if name in found.extras]
    project = Packages() if options.has("--no-self", "--no-default") else found.project(extras)
    if text := context.text("pdm.lock"):
        groups = [*([] if options.has("--no-default") else ["default"]), *wanted]
        pins, notes = manifest.locked(lambda: lockfiles.from_pdm(text, groups, context.python))
        return merge(pins, project), notes
    listed = [item for name in wanted for item in strings(old.get(name)) if "://" not in item and item[:2] != "-e"]
    return merge(project, Packages(requirements=tuple(listed)), found.of_groups(wanted)), ()


def pipenv(words: Sequence[str], context: ShellContext, again: Again) -> Followed | None:
    _, rest = split_options(words[1:], _PIPENV_VALUED)
    pipfile = read_toml(context.text("Pipfile"))
    if pipfile is None:
        raise Unfollowed("its Pipfile is not valid TOML")
    match rest:
        case ["run", *command] if command:
            scripts = NamedScripts(as_table(pipfile.get("scripts")), context.steps, hooks=None)
            if command[0] in scripts.commands:
                return scripts.run(command[0], command[1:], context, again)
            return again(shlex.join(command), context)
        case ["install" | "sync" | "update", *arguments]:
            return _pipenv_install(arguments, pipfile, context)
        case ["lock" | "verify" | "check" | "graph" | "requirements" | "clean" | "uninstall", *_]:
            return context.result()
    return None


def _pipenv_install(arguments: list[str], pipfile: Table, context: ShellContext) -> Followed:
    options, named = separate_options(arguments, _PIPENV_VALUED)
    required = str(as_table(pipfile.get("requires")).get("python_version") or "")
    wanted = (re.match(r"3\.\d{1,2}", text) for text in [*options.values("--python"), required])
    python = next((match[0] for match in wanted if match), None)
    sections = options.names("--categories") or ["packages", *(["dev-packages"] if options.has("--dev", "-d") else [])]
    found = Packages(
        requirements=tuple(named),
        requirement_files=tuple(options.values("-r", "--requirements")),
        projects=tuple(path for path in options.values("-e", "--editable") if "://" not in path),
    )
    notes: tuple[str, ...] = ()
    if (text := context.text("Pipfile.lock")) and not named and not options.has("--skip-lock"):
        of_lock = {"packages": "default", "dev-packages": "develop"}
        locked = [of_lock.get(section, section) for section in sections]
        pins, notes = manifest.locked(lambda: lockfiles.from_pipenv(text, locked, python or context.python))
        found = merge(found, pins)
    for section in sections:
        for name, given in as_table(pipfile.get(section)).items():
            path = as_table(given).get("path")
            if isinstance(path, str):
                extras = strings(as_table(given).get("extras"))
                found = merge(found, Packages(projects=(path + (f"[{','.join(extras)}]" if extras else ""),)))
            elif not text and (one := _requirement(name, given)) is not None:
                found = merge(found, Packages(requirements=(one,)))
            elif not text:
                notes = (*notes, f"{name[:60]} is not from a package index, so it is left out")
    packages = replace(context.packages(found), python=python)
    return context.result(packages=packages, python=python, notes=notes)


def poetry(words: Sequence[str], context: ShellContext, again: Again) -> Followed | None:
    before, rest = split_options(words[1:], _POETRY_VALUED)
    context = context.moved(before.value("-C", "--directory", default="."))
    match rest:
        case ["run", *arguments]:
            _, command = split_options(arguments, _POETRY_VALUED)
            if not command:
                raise Unfollowed("it names no command")
            return again(shlex.join(command), context)
        case ["install" | "sync", *arguments]:
            options, _ = split_options(arguments, _POETRY_VALUED)
            packages, notes = _poetry_packages(options, context)
            return context.result(packages=packages, notes=notes)
        case ["poe", *_]:
            return again(shlex.join(rest), context)
        case ["build", *_]:
            return context.result(*manifest.BUILD)
        case ["config" | "lock" | "self" | "env" | "check" | "show" | "version" | "update" | "about", *_]:
            return context.result()
    return None


def _poetry_packages(options: CommandOptions, context: ShellContext) -> tuple[Packages, tuple[str, ...]]:
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
            one = _requirement(name, given)
            (requirements if one else left_out).append(one or name)
    notes = tuple(f"{name[:60]} is not from a package index, so it is left out" for name in left_out if name != "python")
    if not (text := context.text("poetry.lock")):
        return merge(project, Packages(requirements=tuple(requirements))), notes
    roots = _poetry_roots(found, [own, *wanted], extras, main)
    pins, more = manifest.locked(lambda: lockfiles.from_poetry(text, roots, context.python))
    return merge(pins, project), (*notes, *more)


def _requirement(name: str, given: object) -> str | None:
    """A dependency of poetry's own table as PEP 508; None for Python, and for one that is not from a package index."""
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


def _poetry_roots(found: Manifest, tables: Sequence[Table], extras: Sequence[str], main: bool) -> dict[str, list[str]]:
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
