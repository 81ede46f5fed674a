"""The distributions that a project's own code can do without: what only its tests, tools and extras require.

Reads the manifests as data. If a distribution is required by the code too, or may be, it is not optional.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from agent.ci.project.detection import Project
from agent.ci.project.tables import strings
from agent.source.distributions import named
from agent.source.outline import parse
from sandbox.base import KIB, Packages
from sandbox.install.python.requirements import group_members

_SIZE = 200 * KIB  # characters of setup.py that are parsed
_URL = re.compile(r"\s*+[\w.-]++\s*+(?:\[[\w\s.,-]*+\])?\s*+@")
_TOOLS_FILE = re.compile(r"(?i)dev|test|doc|lint|typing|tool|ci\b|optional|extra")


def optional_names(project: Project, packages: Packages) -> frozenset[str]:
    """Normalised names. Of a project that declares its dependencies in code, what its extras require is unknown."""
    needed = {named(line) for line in _needed(project)}
    return frozenset(name for line in _declared(project, packages) if (name := named(line)) and name not in needed)


def from_elsewhere(project: Project, packages: Packages) -> tuple[str, ...]:
    """Optional distributions that a URL or a git repository provides. No index replaces them: it may have another's."""
    optional = optional_names(project, packages)
    urls = [named(line) for line in _declared(project, packages) if _URL.match(line)]
    return tuple(dict.fromkeys(name for name in urls if name in optional))


def _needed(project: Project) -> Iterator[str]:
    yield from strings(project.table("project").get("dependencies"))
    yield from project.table("tool", "poetry", "dependencies")
    yield from _option(project, "options", "install_requires")
    yield from _in_setup(project, "install_requires")
    for path in project.paths:
        if re.fullmatch(r"(?:[^/]+/)?(?:requirements|base|main)\.(?:txt|in)", path):
            yield from project.texts.get(path, "").splitlines()


def _declared(project: Project, packages: Packages) -> Iterator[str]:
    yield from (line for line in packages.requirements if "==" not in line)  # a lock file pins what the code needs too
    yield from group_members(project.table("dependency-groups"), packages.groups)
    for path in packages.requirement_files:
        if _TOOLS_FILE.search(path):
            yield from project.texts.get(path, "").splitlines()
    for lines in project.table("project", "optional-dependencies").values():
        yield from strings(lines)
    if project.setup_cfg.has_section("options.extras_require"):
        for name in project.setup_cfg.options("options.extras_require"):
            yield from _option(project, "options.extras_require", name)
    yield from _in_setup(project, "extras_require")


def _option(project: Project, section: str, name: str) -> Iterable[str]:
    return project.setup_cfg.get(section, name, fallback="").splitlines()


def _in_setup(project: Project, name: str) -> Iterator[str]:
    """The texts in the first value of this name in setup.py: that of an argument, or of a variable."""
    text = project.texts.get("setup.py", "")
    tree = parse(text) if len(text) <= _SIZE else None
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.keyword(arg=called, value=value) | ast.Assign(targets=[ast.Name(id=called)], value=value) if (
                called == name and not isinstance(value, ast.Name)
            ):
                yield from (
                    one.value for one in ast.walk(value) if isinstance(one, ast.Constant) and isinstance(one.value, str)
                )
                return
