"""Finds what the tests need but the planned packages lack: what they import, and plugins of pytest that its options belong to.

A job can install by means that cannot be read; an extra or a group that it does not name may still be what its tests need. Only
imports that every run of a test file makes count, if the project declares them: an optional import is in a `try` or a function.
Without a plugin, pytest refuses its options, and no test runs. Executes nothing.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Mapping

from agent.ci.project.detection import Project, is_test_file
from agent.ci.project.install_commands import installs, merge
from agent.ci.project.tables import as_table, strings
from agent.ci.shell.words import words
from agent.guest.text import one_line
from agent.source import syntax
from agent.source.distributions import distribution_of, named, normalised
from agent.source.ini import read_valid_ini
from sandbox.base import KIB, Packages
from sandbox.install.python.requirements import group_members, split_extras

_OPTIONS = 10_000  # characters of options that are read
_SIZE = 200 * KIB  # characters of a test file that is parsed
# The options of a command line and the settings of a file that need a plugin of pytest.
_PLUGINS = {
    "pytest-asyncio": (re.compile(r"--asyncio-mode\b"), re.compile(r"asyncio_(?:mode|default_)")),
    "pytest-benchmark": (re.compile(r"--benchmark-"), None),
    "pytest-cov": (re.compile(r"--(?:no-)?cov\b"), None),
    "pytest-randomly": (re.compile(r"--randomly-"), None),
    "pytest-rerunfailures": (re.compile(r"--reruns\b"), None),
    "pytest-timeout": (re.compile(r"--timeout\b"), re.compile(r"timeout(?:_|$)")),
    "pytest-xdist": (re.compile(r"-n(?:\d+|auto|logical)?$|--(?:numprocesses|dist|maxprocesses)\b"), None),
}


def with_needed(project: Project, packages: Packages, commands: Iterable[str] = ()) -> tuple[Packages, tuple[str, ...]]:
    """The packages with those declared ones that the tests import, and plugins for the options of pytest; and notes for people.

    `commands` run the tests.
    """
    planned = {named(line) for line in _planned(project, packages)}
    declared = {name: (line, where) for line, where in _declared(project) if (name := named(line)) and name not in planned}
    added, notes = list[str](), list[str]()
    for module in sorted(_imported(project)) if declared else ():
        name = next((each for each in (normalised(distribution_of(module, {})), normalised(module)) if each in declared), "")
        if name and name not in planned:
            line, where = declared[name]
            planned.add(name)
            added.append(line)
            notes.append(f"the tests import `{one_line(module, 60)}`, so `{name}` is installed too, as {where} declares it")
    for name, what in _plugins(project, commands):
        if name not in planned:
            added.append(declared[name][0] if name in declared else name)
            notes.append(f"pytest gets {what}, so `{name}` is installed too")
    return merge(packages, Packages(requirements=tuple(added))), tuple(notes)


def _plugins(project: Project, commands: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The plugins that pytest needs, each with what needs it."""
    settings = _settings(project)
    added = settings.get("addopts", "")
    text = added if isinstance(added, str) else " ".join(strings(added))
    options = [*words(text[:_OPTIONS]), *(word for line in commands for word in _given_to_pytest(line))]
    for name, (option, setting) in _PLUGINS.items():
        if (found := next(filter(option.match, options), None)) is not None:
            yield name, f"the option `{one_line(found, 60)}`"
        elif setting is not None and (found := next(filter(setting.match, settings), None)) is not None:
            yield name, f"the setting `{one_line(found, 60)}`"


def _settings(project: Project) -> Mapping[str, object]:
    """Those of the first file that configures pytest, which reads no other."""
    for name in ("pytest.ini", ".pytest.ini"):
        ini = read_valid_ini(project.texts.get(name, ""))
        if ini.has_section("pytest"):
            return dict(ini.items("pytest"))
    if table := project.table("tool", "pytest", "ini_options"):
        return table
    for ini, section in ((project.tox, "pytest"), (project.setup_cfg, "tool:pytest")):
        if ini.has_section(section):
            return dict(ini.items(section))
    return {}


def _given_to_pytest(line: str) -> list[str]:
    """The words that a command line gives to pytest."""
    found = words(line[:_OPTIONS])
    start = next((at for at, word in enumerate(found) if word.rpartition("/")[2] in ("pytest", "py.test")), len(found))
    return list(itertools.takewhile(lambda word: not re.match(r"[|&;]|\d?>", word), found[start + 1 :]))


def _planned(project: Project, packages: Packages) -> Iterator[str]:
    yield from packages.requirements
    yield from group_members(project.table("dependency-groups"), packages.groups)
    lines = [line for path in packages.requirement_files for line in project.texts.get(path, "").splitlines()]
    yield from lines
    installed = [installs(["pip", "install", *words(line)]) for line in lines if re.match(r"-e|\.", line)]
    projects = (*packages.projects, *(name for found in installed if found is not None for name in found.projects))
    for folder, extras in map(split_extras, projects):
        if folder == ".":
            yield from strings(project.table("project").get("dependencies"))
            yield from project.table("tool", "poetry", "dependencies")
            for extra in extras:
                yield from strings(project.table("project", "optional-dependencies").get(extra))


def _declared(project: Project) -> Iterator[tuple[str, str]]:
    """Requirement lines, and where they are declared. Later ones count more."""
    for extra, lines in project.table("project", "optional-dependencies").items():
        yield from ((line, f"the extra `{one_line(extra, 40)}`") for line in strings(lines))
    for group in project.table("dependency-groups"):
        lines = group_members(project.table("dependency-groups"), [group])
        yield from ((line, f"the group `{one_line(group, 40)}`") for line in lines)
    for group, table in project.table("tool", "poetry", "group").items():
        names = as_table(as_table(table).get("dependencies"))
        yield from ((name, f"the group `{one_line(group, 40)}`") for name in names if name != "python")


def _imported(project: Project) -> set[str]:
    """Top-level modules from outside the repository and the standard library."""
    found = set[str]()
    for path, text in project.texts.items():
        if is_test_file(path) and len(text) <= _SIZE:
            found |= set(_modules(text))
    own = {part for path in project.paths for part in re.split(r"/|\.pyi?$", path)[:3]}
    return found - own - sys.stdlib_module_names


def _modules(text: str) -> Iterator[str]:
    try:
        body = syntax.tree(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and not statement.level and statement.module:
            yield statement.module.partition(".")[0]
