"""Reads shell text of a workflow: what it runs (tests, a linter, a build) and what it would install.

Knows command lines, not workflows. Nothing is executed; install lines become names and paths, never commands.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Literal

from agent.task import Check, Reader
from sandbox.base import Packages

# How a tool is called → what installs it, for those whose output is read as findings.
LINTERS = {
    "ruff": "ruff",
    "flake8": "flake8",
    "mypy": "mypy",
    "dmypy": "mypy",
    "pyright": "pyright",
    "pylint": "pylint",
    "pycodestyle": "pycodestyle",
    "pydocstyle": "pydocstyle",
    "pyflakes": "pyflakes",
    "black": "black",
    "isort": "isort",
    "autoflake": "autoflake",
    "autopep8": "autopep8",
    "codespell": "codespell",
    "docformatter": "docformatter",
    "djlint": "djlint",
    "pyupgrade": "pyupgrade",
    "yapf": "yapf",
}
_WRAPPERS = ("uv", "poetry", "pdm", "pipenv", "rye", "hatch")
_STOOD_IN_FOR = (*_WRAPPERS, "tox", "nox")
_PYTHON = re.compile(r"^(?:.*/)?(?:python|pypy|py)[\d.]*$")
_SHELL = ("(", ")", "cd", "export", "set", "mkdir")
_PIP_VALUED = (
    *(
        "--index-url",
        "-i",
        "--extra-index-url",
        "--find-links",
        "-f",
        "--trusted-host",
        "--target",
        "-t",
        "--platform",
        "--group",
    ),
    *(
        "--upgrade-strategy",
        "--only-binary",
        "--no-binary",
        "--config-settings",
        "-C",
        "--src",
        "--log",
        "--cache-dir",
        "--retries",
    ),
    *("--timeout", "--python-version", "--abi", "--implementation", "--prefix", "--root", "--use-feature", "--progress-bar"),
    *(
        "--root-user-action",
        "--report",
        "--python",
        "-p",
        "--resolution",
        "--prerelease",
        "--exclude-newer",
        "--index-strategy",
    ),
    *("--keyring-provider", "--link-mode", "--refresh-package", "--override", "--build-constraint", "-b"),
)
_VALUED = ("--group", "--extra", "--with", "--package", "--python", "-p", "--project", "--directory", "--env-file")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a piece of shell text does: `command` is what is left without its installs ("" when nothing)."""

    command: str
    reader: Reader
    packages: Packages
    tool: str = ""  # the program that decides the reader: "pytest", "ruff", "tox", "make", …


def read_command(text: str, script: Callable[[str], str] = lambda path: "") -> Reading:
    """Split shell text into what it runs and what it installs.

    `script` gives the text of a file in the repository ("" when there is none): a Makefile or a shell script is looked into to
    tell which runner it ends up in.
    """
    packages = Packages()
    kept: list[str] = []
    reader: Reader = "exit"
    tool = ""
    for line in text.replace("\\\n", " ").split("\n"):
        parts: list[str] = []
        for part in re.split(r"\s*(?:&&|;)\s*", line) if _is_plain(line) else [line]:
            words = _words(part)
            installed = installs(words)
            if installed is not None:
                packages = merge(packages, installed)
                continue
            if words and words[0] in ("apt-get", "apt", "sudo", "brew"):
                continue  # system packages are not ours to install
            if part.strip():
                parts.append(part)
            found = _classify(words, script)
            if found is not None and _weight(found[0]) > _weight(reader):
                reader, tool = found
            elif found is not None and not tool:
                tool = found[1]
        if parts:
            kept.append(" && ".join(parts) if len(parts) > 1 else parts[0])
    command = "\n".join(kept).strip()
    if reader == "exit" and (inner := _runner_in(command)) is not None:
        reader = tool = inner  # inside a compound command
    return Reading(command, reader, packages, tool)


def installs(words: list[str]) -> Packages | None:
    """What one command line would install; None when it installs nothing."""
    words = _without_assignments(words)
    words = module_of(words) or words
    if words[:2] == ["uv", "pip"]:
        words = words[1:]
    match words:
        case ["pip" | "pip3", "install", *arguments]:
            return _pip(arguments)
        case ["pip" | "pip3", *_] | ["uv", "venv" | "lock" | "python", *_] | ["poetry", "lock" | "config", *_]:
            return Packages()
        case ["uv", "sync", *arguments]:
            extras = _values(arguments, "--extra")
            groups = _values(arguments, "--group", "--only-group")
            return Packages(projects=(_project(".", extras),), groups=tuple(groups or ["dev"]))
        case ["poetry" | "pdm", "install" | "sync", *arguments]:
            extras = _values(arguments, "-E", "--extras", "-G")
            return Packages(projects=(_project(".", [e for extra in extras for e in re.split(r"[ ,]+", extra)]),))
        case ["pipenv", "install" | "sync", *_]:
            return Packages()
        case ["pipx", "install", *names] | ["uv", "tool", "install", *names]:
            # Each has an environment of its own there; those that are followed or stood in for are not needed in this one.
            wanted = (name for name in names if not name.startswith("-") and "$" not in name)
            return Packages(requirements=tuple(name for name in wanted if re.split(r"[^\w-]", name)[0] not in _STOOD_IN_FOR))
    return None


def module_of(words: list[str]) -> list[str] | None:
    """`python -Im pip install x` → ["pip", "install", "x"]; None where it is no Python that runs a module."""
    if not words or not _PYTHON.match(words[0]):
        return None
    module, rest = _without_options(words[1:])
    return [module, *rest] if module else None


def _without_options(words: list[str]) -> tuple[str, list[str]]:
    """The module that Python's own options name ("" for none), and the words behind them."""
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        found = re.match(r"-([A-Za-z?]*?)([cmWX])(.*)$", rest.pop(0), re.DOTALL)
        if found is None:
            continue
        value = found[3] or (rest.pop(0) if rest else "")
        if found[2] in "cm":
            return (value, rest) if found[2] == "m" else ("", [])
    return "", rest


def merge(one: Packages, other: Packages) -> Packages:
    """Both, without doubles, in order; the first wanted version of Python."""
    combined: dict[str, tuple[str, ...]] = {}
    for field in fields(Packages):
        if field.name != "python":
            combined[field.name] = tuple(dict.fromkeys([*getattr(one, field.name), *getattr(other, field.name)]))
    return Packages(**combined, python=one.python or other.python)


def tools_of(check: Check, tool: str) -> Packages:
    """The program that a check calls, where a package brings it."""
    needed = "pytest" if check.reader == "pytest" else LINTERS.get(tool, "")
    return Packages(requirements=(needed,) if needed else ())


def program(words: list[str]) -> tuple[str, list[str]]:
    """The program that a command line ends up in and its arguments: `uv run -- python -m pytest -q` → ("pytest", ["-q"])."""
    words = _without_assignments(words)
    while words:
        if words[0] in _WRAPPERS and "run" in words[1:]:
            words = words[words.index("run") + 1 :]
            while words and words[0].startswith("-"):
                words = words[2:] if words[0] in _VALUED else words[1:]
        elif _PYTHON.match(words[0]):
            module = module_of(words)
            if module is None:
                return "python", _without_options(words[1:])[1]
            words = module
        elif words[0] in ("coverage", "time", "timeout", "xvfb-run", "env", "exec", "bash", "sh"):
            if words[0] == "coverage" and words[1:2] != ["run"]:
                return "coverage", words[1:]
            measures = words[:1] == ["coverage"]
            words = words[2:] if words[0] == "coverage" or words[0] == "timeout" else words[1:]
            while words and words[0].startswith("-") and not (measures and words[0] == "-m"):
                words = words[1:]
            words = words[1:] if words[:1] == ["-m"] else words
        else:
            return words[0].rsplit("/", 1)[-1] if not words[0].endswith((".sh", ".py")) else words[0], words[1:]
    return "", []


def _classify(words: list[str], script: Callable[[str], str]) -> tuple[Reader, str] | None:
    name, arguments = program(words)
    if name in _SHELL:
        return None  # moves the shell, runs nothing
    if name in ("pytest", "py.test"):
        return "pytest", "pytest"
    if name == "unittest":
        return "unittest", "unittest"
    if name in LINTERS:
        return "findings", name
    if name in ("tox", "nox"):
        return "exit", name
    inner = ""
    if name in ("make", "just", "task", "invoke"):
        inner = script("Makefile") or script("makefile") if name == "make" else script("justfile")
    elif name.endswith(".sh") or (name == "python" and arguments and arguments[0].endswith(".py")):
        inner = script((name if name.endswith(".sh") else arguments[0]).removeprefix("./"))
    runner = _runner_in(inner)
    if runner is not None:
        return runner, name
    return ("exit", name) if name else None


def _runner_in(script: str) -> Literal["pytest", "unittest"] | None:
    """The test runner that a piece of shell seems to end up in."""
    if re.search(r"(?:^|[\s;&|(/@])(?:pytest|py\.test)(?=$|[\s;&|)])", script):
        return "pytest"
    return "unittest" if re.search(r"-m unittest\b", script) else None


def _weight(reader: Reader) -> int:
    return {"exit": 0, "findings": 1, "unittest": 2, "pytest": 3}[reader]


def _pip(arguments: list[str]) -> Packages:
    requirements: list[str] = []
    files: list[str] = []
    constraints: list[str] = []
    projects: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        option, equals, value = argument.partition("=")
        if argument in ("-r", "--requirement"):
            files.append(next(rest, ""))
        elif argument.startswith("-r") and len(argument) > 2:
            files.append(argument[2:])
        elif option == "--requirement" and equals:
            files.append(value)
        elif argument in ("-c", "--constraint"):
            constraints.append(next(rest, ""))
        elif argument in ("-e", "--editable"):
            projects.append(next(rest, ""))
        elif argument in _PIP_VALUED:
            next(rest, "")  # where from, and how, is the operator's to say
        elif argument.startswith("-"):
            continue  # the value of `--group` is read below
        elif re.match(r"^\.{1,2}(?:/|$|\[)", argument) or argument.startswith("/"):
            projects.append(argument)
        elif "://" in argument or "$" in argument or "*" in argument:
            continue  # what is fetched from elsewhere, or is only known when run
        elif argument not in ("pip", "setuptools", "wheel"):
            requirements.append(argument)
    return Packages(
        requirements=tuple(requirements),
        requirement_files=tuple(_path(file) for file in files if file),
        constraint_files=tuple(_path(file) for file in constraints if file),
        groups=tuple(_values(arguments, "--group")),
        projects=tuple(_path(project) for project in projects if project and "://" not in project),
    )


def _path(path: str) -> str:
    return path.removeprefix("./") or "."


def _project(path: str, extras: Iterable[str]) -> str:
    named = ",".join(extra for extra in extras if extra)
    return f"{path}[{named}]" if named else path


def _values(arguments: list[str], *options: str) -> list[str]:
    found = [value for option, value in pairwise(arguments) if option in options]
    return found + [a.partition("=")[2] for a in arguments if "=" in a and a.partition("=")[0] in options]


def _without_assignments(words: list[str]) -> list[str]:
    while words and re.match(r"^\w+=", words[0]):
        words = words[1:]
    return words


def _is_plain(line: str) -> bool:
    """Whether splitting at && and ; keeps the meaning: no quotes, no compound commands."""
    return not re.search(r"""["'`(){}|]|\b(?:if|for|while|case|do|then)\b""", line)


def _words(part: str) -> list[str]:
    try:
        return shlex.split(part, comments=True)
    except ValueError:
        return part.split()
