"""The distributions that a project's own code can do without: what only its tests, tools and extras require.

Reads the manifests as data. If a distribution is required by the code too, or may be, it is not optional.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from agent.ci.project.detection import Project
from agent.ci.project.tables import strings
from agent.source.distributions import named
from sandbox.base import Packages
from sandbox.install.python.requirements import group_members

_URL = re.compile(r"\s*[\w.-]+\s*(?:\[[\w\s.,-]*\])?\s*@")
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
    code = re.search(r"install_requires\s*=\s*\[([^\]]*)\]", project.texts.get("setup.py", ""))
    yield from re.findall(r"[\"']([^\"']+)[\"']", code[1]) if code else ()
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
    code = re.search(r"extras_require\s*=\s*\{([^}]*)\}", project.texts.get("setup.py", ""))
    yield from re.findall(r"[\"']([^\"']+)[\"']", code[1]) if code else ()


def _option(project: Project, section: str, name: str) -> Iterable[str]:
    return project.setup_cfg.get(section, name, fallback="").splitlines()
