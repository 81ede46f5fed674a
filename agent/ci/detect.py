"""Finds out from a repository's files how it is tested and what that needs, where nothing else says so.

Reads a few well-known files as data; executes nothing. Knows Python packaging, not workflows.
"""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from agent.ci import ecosystems
from agent.task import Check
from sandbox.base import KIB, LimitExceeded, Packages, Workspace

READ_LIMIT = 512 * KIB  # bytes of one file that is looked into
TEST_FILES_READ = 40
MANIFESTS_READ = 20
# Extras and groups that hold what tests need, by the names that people give them.
TEST_NAMES = ("test", "tests", "testing", "dev", "develop", "development", "ci")

_REQUIREMENTS = re.compile(
    r"^(?:requirements(?:[-_.](?:dev|test|tests|testing|ci))?|(?:dev|test|tests|testing|ci)[-_]requirements"
    r"|requirements/(?:base|main|dev|test|tests|testing|ci))\.(?:txt|in)$"
)
_TEST_FILE = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test|tests)\.py$")


@dataclass(frozen=True, slots=True)
class Project:
    """The files that say how a repository is built and tested, read once. A file that cannot be read counts as missing."""

    paths: frozenset[str]
    pyproject: Mapping[str, object]
    setup_cfg: configparser.ConfigParser
    tox: configparser.ConfigParser
    texts: Mapping[str, str]  # Makefile, justfile, test files, scripts: what was looked into

    def table(self, *keys: str) -> Mapping[str, object]:
        """A table of pyproject.toml; empty where it is missing."""
        node: object = self.pyproject
        for key in keys:
            node = node.get(key) if isinstance(node, dict) else None
        return node if isinstance(node, dict) else {}


async def read_project(workspace: Workspace) -> Project:
    """Raises `SandboxError`."""
    paths = frozenset(entry.path for entry in await workspace.files() if not entry.link)
    tests = sorted(path for path in paths if _TEST_FILE.search(path))[:TEST_FILES_READ]
    scripts = sorted(path for path in paths if path.endswith(".sh") and path.count("/") <= 2)[:20]
    manifests = sorted(path for path in paths if path.rsplit("/", 1)[-1] in ecosystems.MANIFESTS and path.count("/") <= 2)
    manifests.sort(key=lambda path: path.count("/"))
    names = (
        *manifests[:MANIFESTS_READ],
        "Makefile",
        "makefile",
        "justfile",
        ".python-version",
        ".pre-commit-config.yaml",
        "setup.py",
        *tests,
        *scripts,
    )
    texts = {name: await _text(workspace, name) for name in names if name in paths}
    return Project(
        paths=paths,
        pyproject=_toml(await _text(workspace, "pyproject.toml") if "pyproject.toml" in paths else ""),
        setup_cfg=_ini(await _text(workspace, "setup.cfg") if "setup.cfg" in paths else ""),
        tox=_ini(await _text(workspace, "tox.ini") if "tox.ini" in paths else ""),
        texts=texts,
    )


def detect_check(project: Project) -> Check | None:
    """How the repository's tests are most likely run; None when there are none."""
    tests = [path for path in project.paths if _TEST_FILE.search(path)]
    configured = _pytest_is_configured(project)
    doctests = "--doctest-modules" in str(project.table("tool", "pytest", "ini_options").get("addopts", ""))
    if not tests and not doctests:
        return None
    env = {} if _is_installable(project) or not _has_src(project) else {"PYTHONPATH": "src"}
    texts = [text for path, text in project.texts.items() if _TEST_FILE.search(path)]
    only_unittest = bool(texts) and all("unittest" in text and "pytest" not in text for text in texts)
    if only_unittest and not configured:
        folder = "tests" if any(path.startswith("tests/") for path in tests) else "test"
        start = f" -s {folder}" if f"{folder}/__init__.py" not in project.paths and _lies_in(tests, folder) else ""
        return Check("tests", f"python -m unittest discover{start}", "unittest", env=env)
    return Check("tests", "python -m pytest", "pytest", env=env)


def detect_packages(project: Project) -> Packages:
    """What the repository says that it and its tests need."""
    files = sorted((path for path in project.paths if _REQUIREMENTS.match(path)), key=lambda path: (path.count("/"), path))
    compiled = {path for path in files if path.endswith(".txt")}
    files = [path for path in files if path in compiled or path.removesuffix(".in") + ".txt" not in compiled]
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
        requirements += _strings(project.table("project").get("dependencies"))
        for extra in extras:
            requirements += _strings(project.table("project", "optional-dependencies").get(extra))
    return Packages(
        requirements=tuple(dict.fromkeys(requirements)),
        requirement_files=tuple(files),
        groups=groups,
        projects=projects,
        python=detect_python(project),
    )


def detect_python(project: Project) -> str | None:
    found = re.match(r"\s*(?:cpython-)?(3\.\d{1,2})\b", project.texts.get(".python-version", ""))
    return found[1] if found else None


def tox_commands(project: Project) -> str:
    """The commands of tox's default environment as shell text; "" where there are none that can be read."""
    text = project.tox.get("testenv", "commands", fallback="")
    text = re.sub(r"\{posargs:?([^}]*)\}", r"\1", text).replace("{envpython}", "python").replace("{toxinidir}", ".")
    lines = [line.strip().removeprefix("- ") for line in text.replace("\\\n", " ").split("\n")]
    text = "\n".join(line for line in lines if line)
    return "" if "{" in text else text


def tox_packages(project: Project) -> Packages:
    """What tox would install beside the project in its default environment."""
    lines = [line.strip() for line in project.tox.get("testenv", "deps", fallback="").split("\n")]
    lines = [line.partition(":")[2].strip() if re.match(r"^[\w,!-]+:\s", line) else line for line in lines]
    lines = [line.replace("{toxinidir}/", "") for line in lines]
    extras = [line.strip() for line in project.tox.get("testenv", "extras", fallback="").split("\n") if line.strip()]
    return Packages(
        requirements=tuple(line for line in lines if line and not line.startswith(("-", "#")) and "{" not in line),
        requirement_files=tuple(line[2:].strip() for line in lines if line.startswith("-r")),
        constraint_files=tuple(line[2:].strip() for line in lines if line.startswith("-c")),
        projects=(f".[{','.join(extras)}]",) if extras else (),
    )


def _pytest_is_configured(project: Project) -> bool:
    return (
        bool({"pytest.ini", ".pytest.ini"} & project.paths)
        or bool(project.table("tool", "pytest"))
        or project.setup_cfg.has_section("tool:pytest")
        or project.tox.has_section("pytest")
        or any(path.rsplit("/", 1)[-1] == "conftest.py" for path in project.paths)
    )


def _is_installable(project: Project) -> bool:
    """Whether it says how it is built; a `[project]` table alone often belongs to an application that nobody installs."""
    return "build-system" in project.pyproject or "setup.py" in project.paths or project.setup_cfg.has_section("metadata")


def _has_src(project: Project) -> bool:
    return any(path.startswith("src/") and path.endswith(".py") for path in project.paths)


def _lies_in(tests: list[str], folder: str) -> bool:
    return all(path.startswith(folder + "/") for path in tests)


def _extras(project: Project) -> list[str]:
    names = [*project.table("project", "optional-dependencies"), *project.table("tool", "poetry", "extras")]
    if project.setup_cfg.has_section("options.extras_require"):
        names += project.setup_cfg.options("options.extras_require")
    found = re.search(r"extras_require\s*=\s*(?:dict\(|\{)(.*?)[)}]", project.texts.get("setup.py", ""), re.DOTALL)
    if found:
        names += re.findall(r"[\"'](\w+)[\"']\s*:", found[1]) + re.findall(r"\b(\w+)\s*=\s*\[", found[1])
    return list(dict.fromkeys(names))


def _poetry(dependencies: Mapping[str, object]) -> list[str]:
    """Poetry's own table as names; its version syntax is not PEP 508, and its constraints rarely decide here."""
    return [name for name in dependencies if name != "python"]


def _strings(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


async def _text(workspace: Workspace, path: str) -> str:
    try:
        return (await workspace.read(path, READ_LIMIT)).decode("utf-8", "replace")
    except (FileNotFoundError, LimitExceeded, ValueError):
        return ""


def _toml(text: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _ini(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return configparser.ConfigParser(interpolation=None)
    return parser
