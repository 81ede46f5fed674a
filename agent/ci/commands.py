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

from agent.ci import ecosystems
from agent.task import Reader
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
_PYTHON = re.compile(r"^(?:.*/)?(?:python|pypy|py)[\d.]*$")
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
    if (found := ecosystems.installs(words)) is not None:
        return found
    if len(words) > 2 and _PYTHON.match(words[0]) and words[1:3] == ["-m", "pip"]:
        words = words[2:]
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
            return Packages(requirements=tuple(name for name in names if not name.startswith("-")))
    return None


def merge(one: Packages, other: Packages) -> Packages:
    """Both, without doubles, in order; the first wanted version of Python."""
    combined: dict[str, tuple[str, ...]] = {}
    for field in fields(Packages):
        if field.name != "python":
            combined[field.name] = tuple(dict.fromkeys([*getattr(one, field.name), *getattr(other, field.name)]))
    return Packages(**combined, python=one.python or other.python)


def program(words: list[str]) -> tuple[str, list[str]]:
    """The program that a command line ends up in and its arguments: `uv run -- python -m pytest -q` → ("pytest", ["-q"])."""
    words = _without_assignments(words)
    while words:
        if words[0] in _WRAPPERS and "run" in words[1:]:
            words = words[words.index("run") + 1 :]
            while words and words[0].startswith("-"):
                words = words[2:] if words[0] in _VALUED else words[1:]
        elif _PYTHON.match(words[0]):
            rest = words[1:]
            while rest and rest[0].startswith("-") and rest[0] != "-m":
                rest = rest[2:] if rest[0] in ("-W", "-X") else rest[1:]
            if rest[:1] != ["-m"]:
                return "python", rest
            words = rest[1:]
        elif words[0] in ("coverage", "time", "timeout", "xvfb-run", "env", "exec", "bash", "sh"):
            if words[0] == "coverage" and words[1:2] != ["run"]:
                return "coverage", words[1:]
            module = words[:1] == ["coverage"]
            words = words[2:] if words[0] == "coverage" or words[0] == "timeout" else words[1:]
            while words and words[0].startswith("-") and not (module and words[0] == "-m"):
                words = words[1:]
            words = words[1:] if words[:1] == ["-m"] else words
        else:
            return words[0].rsplit("/", 1)[-1] if not words[0].endswith((".sh", ".py")) else words[0], words[1:]
    return "", []


def _classify(words: list[str], script: Callable[[str], str]) -> tuple[Reader, str] | None:
    name, arguments = program(words)
    if name in ("pytest", "py.test"):
        return "pytest", "pytest"
    if name == "unittest":
        return "unittest", "unittest"
    if name in LINTERS:
        return "findings", name
    if name in ("tox", "nox"):
        return "exit", name
    if (found := ecosystems.read_command(_without_assignments(words), script("package.json"))) is not None:
        return found
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
    return {"exit": 0, "findings": 1, "unittest": 2, "pytest": 3}.get(reader, 2)


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
        elif argument in (
            "--index-url",
            "-i",
            "--extra-index-url",
            "--find-links",
            "-f",
            "--target",
            "-t",
            "--platform",
            "--group",
        ):
            next(rest, "")  # where from is the operator's to say
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
