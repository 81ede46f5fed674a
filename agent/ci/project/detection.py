"""Detects from a repository's files how to run its tests and what they need, if no workflow shows it.

Reads a few well-known files as data; executes nothing. Knows Python packaging, not workflows.
"""

from __future__ import annotations

import asyncio
import configparser
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from agent.ci.project.asking import Answers
from agent.ci.project.tables import read_toml, strings, table_at
from agent.contract.verdicts import Check
from agent.guest.text import one_line
from agent.source.distributions import normalised
from agent.source.ini import read_valid_ini
from sandbox.base import KIB, LimitExceeded, Packages, Workspace
from sandbox.install.python.interpreters import SUPPORTED

READ_LIMIT = 512 * KIB  # bytes of one file that is read
LOCK_LIMIT = 4096 * KIB  # the same for a lock file, which is usually long
TEST_FILES_READ = 80
CONFIGURATION_FILES_READ = 60
SCRIPTS_READ = 20
_SUBMODULES = 50
# Common names of the extras and groups that tests need.
TEST_NAMES = ("test", "tests", "testing", "dev", "develop", "development", "ci")

_REQUIREMENTS = re.compile(
    r"^(?:requirements(?:[-_.](?:dev|test|tests|testing|ci))?|(?:dev|test|tests|testing|ci)[-_]requirements"
    r"|requirements/(?:base|main|dev|test|tests|testing|ci))\.(?:txt|in)$"
)
# Files that define how a project is built and run, at the root or in a folder of a monorepo.
_CONFIGURES = re.compile(
    r"^(?:[^/]+/){0,2}(?:(?:GNU)?[Mm]akefile|[^/]+\.mk|\.?[Jj]ustfile|[Tt]askfile(?:\.dist)?\.ya?ml|tox\.(?:ini|toml)|noxfile\.py"
    r"|setup\.(?:py|cfg)|pyproject\.toml|hatch\.toml|Pipfile(?:\.lock)?|(?:uv|poetry|pdm)\.lock|poe_tasks\.toml"
    r"|package\.json|go\.mod|Cargo\.toml|pom\.xml|build\.gradle(?:\.kts)?|\.python-version|\.pre-commit-config\.yaml|action\.ya?ml)$"
    r"|^\.gitmodules$|^(?:[^/]+/)?[^/]*requirements[^/]*\.(?:txt|in)$|^requirements/[^/]+\.(?:txt|in)$"
    r"|^(?:[^/]+/){0,2}\.cargo/config(?:\.toml)?$|^\.github/(?:workflows/[^/]+|actions/(?:[^/]+/){1,3}action)\.ya?ml$"
)
_SCRIPT = re.compile(r"^(?:[^/]+/){0,2}[^/]+\.sh$|^(?:scripts?|bin|ci|tools)/[\w-]+$|^(?:run[_-]?)?tests?$")
_PIN = re.compile(r"^([\w.-]+)(?:\[[\w.,-]*\])?\s*==\s*([^\s;#,*]+)\s*(?:\\|#|$)", re.MULTILINE)
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test|tests)\.py$")


@dataclass(frozen=True, slots=True)
class Project:
    """The files that define how a repository is built and tested, read once. An unreadable file counts as missing."""

    paths: frozenset[str]
    pyproject: Mapping[str, object]
    setup_cfg: configparser.RawConfigParser
    tox: configparser.RawConfigParser
    texts: Mapping[str, str]  # path → text of the files that were read: configuration of runners, test files, scripts
    answers: Answers = field(default_factory=Answers, compare=False)  # answers of tools that were asked in the sandbox

    @classmethod
    def of_texts(cls, texts: Mapping[str, str]) -> Project:
        """A project of which only these files are known."""
        return cls(
            paths=frozenset(texts),
            pyproject=read_toml(texts.get("pyproject.toml", "")) or {},
            setup_cfg=read_valid_ini(texts.get("setup.cfg", "")),
            tox=read_valid_ini(texts.get("tox.ini", "")),
            texts=texts,
        )

    def table(self, *keys: str) -> Mapping[str, object]:
        """A table of pyproject.toml; empty if it is missing."""
        return table_at(self.pyproject, *keys)


async def read_project(workspace: Workspace) -> Project:
    """Raises `SandboxError`."""
    paths = frozenset(entry.path for entry in await workspace.files() if not entry.link)
    tests = sorted(filter(is_test_file, paths), key=lambda path: (not path.endswith("conftest.py"), path))[:TEST_FILES_READ]
    scripts = sorted(path for path in paths if _SCRIPT.search(path))[:SCRIPTS_READ]
    named = sorted((path for path in paths if _CONFIGURES.search(path)), key=lambda path: (path.count("/"), path))[
        :CONFIGURATION_FILES_READ
    ]
    texts = {name: await _text(workspace, name) for name in (*named, *tests, *scripts)}
    return replace(await asyncio.to_thread(Project.of_texts, texts), paths=paths)


def is_test_file(path: str) -> bool:
    """Whether a test runner imports the file by its name."""
    return _TEST_FILE.search(path) is not None or path.rpartition("/")[2] == "conftest.py"


def detect_check(project: Project) -> Check | None:
    """The most likely way to run the repository's tests; None when there are none."""
    tests = [path for path in project.paths if _TEST_FILE.search(path)]
    configured = _pytest_is_configured(project)
    doctests = "--doctest-modules" in str(project.table("tool", "pytest", "ini_options").get("addopts", ""))
    if not tests and not doctests:
        return None
    has_src = any(path.startswith("src/") and path.endswith(".py") for path in project.paths)
    env = {"PYTHONPATH": "src"} if has_src and not _is_installable(project) else {}
    texts = [text for path, text in project.texts.items() if _TEST_FILE.search(path)]
    only_unittest = bool(texts) and all("unittest" in text and "pytest" not in text for text in texts)
    only_unittest = only_unittest and all(path.rpartition("/")[2].startswith("test") for path in tests)  # it finds no others
    if only_unittest and not configured:
        folder = "tests" if any(path.startswith("tests/") for path in tests) else "test"
        is_plain = f"{folder}/__init__.py" not in project.paths and all(path.startswith(f"{folder}/") for path in tests)
        start = f" -s {folder}" if is_plain else ""
        return Check("tests", f"python -m unittest discover{start}", "unittest", env=env)
    return Check("tests", "python -m pytest", "pytest", env=env)


def detect_packages(project: Project) -> Packages:
    """The packages that the repository and its tests declare."""
    files = [path for path in _requirement_files(project) if path not in _contradicting(project)]
    groups = tuple(name for name in project.table("dependency-groups") if name in TEST_NAMES)
    extras = [name for name in _extras(project) if name in TEST_NAMES]
    requirements: list[str] = []
    projects: tuple[str, ...] = ()
    if _is_installable(project):
        projects = (f".[{','.join(extras)}]" if extras else ".",)
        for group in ("dev", "test", "tests"):
            requirements += _poetry(project.table("tool", "poetry", "group", group, "dependencies"))
        requirements += _poetry(project.table("tool", "poetry", "dev-dependencies"))
    else:
        requirements += strings(project.table("project").get("dependencies"))
        for extra in extras:
            requirements += strings(project.table("project", "optional-dependencies").get(extra))
    return Packages(
        requirements=tuple(dict.fromkeys(requirements)),
        requirement_files=tuple(files),
        groups=groups,
        projects=projects,
        python=detect_python(project),
    )


def contradictions(project: Project) -> tuple[str, ...]:
    """Notes about the requirement files that `detect_packages` leaves out."""
    found = _contradicting(project).items()
    return tuple(
        f"{one_line(path, 100)} is not installed: its pins contradict those of {one_line(other, 100)}" for path, other in found
    )


def _contradicting(project: Project) -> dict[str, str]:
    """Requirement files that pin a package otherwise than another one, which is for the tests, is the product's own or comes
    first: file → other."""
    first: dict[str, tuple[str, str]] = {}  # package → its version, and the file that pins it
    found: dict[str, str] = {}
    for path in sorted(
        _requirement_files(project), key=lambda path: ("test" not in path, not path.endswith("requirements.txt"))
    ):
        pins = {normalised(name): version for name, version in _PIN.findall(project.texts.get(path, ""))}
        other = next((first[name][1] for name, version in pins.items() if first.get(name, (version,))[0] != version), None)
        if other is not None:
            found[path] = other
        else:
            first |= {name: (version, path) for name, version in pins.items() if name not in first}
    return found


def _requirement_files(project: Project) -> list[str]:
    files = sorted((path for path in project.paths if _REQUIREMENTS.match(path)), key=lambda path: (path.count("/"), path))
    compiled = {path for path in files if path.endswith(".txt")}
    return [path for path in files if path in compiled or path.removesuffix(".in") + ".txt" not in compiled]


def absent_submodules(project: Project) -> tuple[str, ...]:
    """The folders of git submodules without files: an archive has none, and a checkout may lack them."""
    options = (line.partition("=") for line in project.texts.get(".gitmodules", "").splitlines())
    named = [value.strip().rstrip("/") for key, _, value in options if key.strip() == "path"]
    absent = (name for name in named[:_SUBMODULES] if not any(path.startswith(f"{name}/") for path in project.paths))
    return tuple(filter(None, absent))


def detect_python(project: Project) -> str | None:
    """The Python that `.python-version` names, or the one nearest to ours that the project supports; None if that is ours."""
    if found := re.match(r"\s*(?:cpython-)?(3\.\d{1,2})\b", project.texts.get(".python-version", "")):
        return found[1]
    supported = _supported_pythons(project)
    suiting = [minor for _, minor in SUPPORTED if supported.contains(f"3.{minor}.99")]
    ours = sys.version_info.minor
    if not suiting or supported.contains(platform.python_version()):
        return None
    return f"3.{min(suiting, key=lambda minor: (abs(minor - ours), minor))}"


def _supported_pythons(project: Project) -> SpecifierSet:
    poetry = str(project.table("tool", "poetry", "dependencies").get("python", ""))
    stated = str(project.table("project").get("requires-python", ""))
    stated = stated or project.setup_cfg.get("options", "python_requires", fallback="") or re.sub(r"\^(?=3\.)", ">=", poetry)
    try:
        return SpecifierSet(stated)
    except InvalidSpecifier:  # poetry's own syntax
        return SpecifierSet()


def _pytest_is_configured(project: Project) -> bool:
    return (
        bool({"pytest.ini", ".pytest.ini"} & project.paths)
        or bool(project.table("tool", "pytest"))
        or project.setup_cfg.has_section("tool:pytest")
        or project.tox.has_section("pytest")
        or any(path.rsplit("/", 1)[-1] == "conftest.py" for path in project.paths)
    )


def _is_installable(project: Project) -> bool:
    """Whether the project defines a build; a `[project]` table alone often belongs to an application that nobody installs."""
    says_so = project.table("tool", "uv").get("package") is True
    return (
        says_so
        or "build-system" in project.pyproject
        or "setup.py" in project.paths
        or project.setup_cfg.has_section("metadata")
    )


def _extras(project: Project) -> list[str]:
    names = [*project.table("project", "optional-dependencies"), *project.table("tool", "poetry", "extras")]
    if project.setup_cfg.has_section("options.extras_require"):
        names += project.setup_cfg.options("options.extras_require")
    text = project.texts.get("setup.py", "")
    opened = re.search(r"extras_require\s*=\s*(?:dict\(|\{)", text)
    if opened and (found := re.compile(r"([^)}]*)[)}]").match(text, opened.end())):
        names += re.findall(r"[\"'](\w+)[\"']\s*:", found[1]) + re.findall(r"\b(\w+)\s*=\s*\[", found[1])
    return list(dict.fromkeys(names))


def _poetry(dependencies: Mapping[str, object]) -> list[str]:
    """Poetry's own table as names; its version syntax is not PEP 508, and its constraints rarely matter here."""
    return [name for name in dependencies if name != "python"]


async def _text(workspace: Workspace, path: str) -> str:
    try:
        return (await workspace.read(path, LOCK_LIMIT if path.endswith(".lock") else READ_LIMIT)).decode("utf-8", "replace")
    except (FileNotFoundError, LimitExceeded, ValueError):
        return ""
