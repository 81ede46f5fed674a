"""Classifies shell text of a workflow: tests, a linter, a build. Knows command lines; executes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from agent.ci.project import ecosystems
from agent.ci.shell.pieces import commands
from agent.ci.shell.words import assignments, is_python, module_of, without_options
from agent.contract.verdicts import Check, Reader
from sandbox.base import Packages

# Program → its package, for tools whose output is read as findings.
LINTERS = {"dmypy": "mypy"} | {
    name: name
    for name in (
        "ruff", "flake8", "mypy", "pyright", "pylint", "pycodestyle", "pydocstyle", "pyflakes", "black", "isort", "autoflake",
        "autopep8", "codespell", "docformatter", "djlint", "pyupgrade", "yapf",
    )
}  # fmt: skip
_WRAPPERS = ("uv", "poetry", "pdm", "pipenv", "rye", "hatch")
_MOVES = ("cd", "export", "set", ":", "true")  # only affect the commands after them
_LOOKING = ("findings", "pytest", "unittest")
# What task runners read, in their own order.
RUNNER_FILES = {
    "make": ("GNUmakefile", "makefile", "Makefile"),
    "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "taskfile.yml", "Taskfile.yaml", "taskfile.yaml", "Taskfile.dist.yml", "Taskfile.dist.yaml"),
    "invoke": ("tasks.py",),
}
_VALUED = ("--group", "--extra", "--with", "--package", "--python", "-p", "--project", "--directory", "--env-file")

# Words of commands that test, although no reader knows their results.
_TESTING = re.compile(
    r"(?<![\w-])(?:(?!latest|attest|contest)[a-z]*tests?"
    r"|tox|nox|ctest|ava|jasmine|karma|playwright test|phpunit|rspec|gradlew? check)(?![\w-])"
)


# `nox --list-sessions`, `tox -q -l` and `tox list`, up to the arguments for what they run (`tox -- -l`).
_LISTING = re.compile(
    r"(?<![\w-])(?:tox|nox)\s+(?:list|l|(?:(?!--\s|#)[^\s|;&)]+\s+){0,12}?--?l(?:ist(?:-sessions|envs(?:-all)?)?)?)(?![\w-])"
)


# The last lines of mypy, ruff, black, pyright and pylint.
_SUMMARY = re.compile(
    r"Found [1-9]\d* errors?(?: in \d+ files? \((?:checked|errors) .*|\.| \(\d+ fixed.*)"
    r"|[1-9]\d* files? would be reformatted\b.*"
    r"|[1-9]\d* errors?, \d+ warnings?\b.*|Your code has been rated at (?!10\.00/10).*"
).fullmatch


class Reading(NamedTuple):
    """What a piece of shell text runs."""

    reader: Reader
    tool: str  # the program that decides the reader: "pytest", "ruff", "tox", "make", …


def read_command(text: str, script: Callable[[str], str] = lambda path: "") -> Reading:
    """`script` returns the text of a file in the repository ("" when there is none): a Makefile or a shell script is searched
    for the test runner that it calls.
    """
    best = Reading("exit", "")
    for command in commands(text):
        found = _classify(list(command.words), script)
        if found is not None and (_weight(found.reader) > _weight(best.reader) or not best.tool):
            best = found
    if best.reader == "exit" and (inner := _runner_in(text)) is not None:
        return Reading(inner, inner)  # inside a string, or in unread text
    return best


def telling_line(text: str) -> str:
    """The line of shell text that tests, for people; the first that does anything, if none does."""
    lines = [line for line in map(str.strip, text.replace("\\\n", " ").splitlines()) if line and not line.startswith("#")]
    read = {line: read_command(line) for line in lines}
    return max(lines, key=lambda line: (_weight(read[line].reader), names_tests(line), bool(read[line].tool)), default="")


def names_tests(text: str) -> bool:
    """Whether a command says that it tests, and not only which environments a runner would test in."""
    return _TESTING.search(_LISTING.sub("", text)) is not None


def only_looks(text: str) -> bool:
    """Whether no later step depends on this text: every simple command tests, lints, or only changes its own shell."""
    found = commands(text)
    read = [_classify(list(command.words), lambda path: "") for command in found]
    looks = [reading is not None and reading.reader in _LOOKING for reading in read]
    moves = [all(word in _MOVES for word in assignments(command.words)[1][:1]) for command in found]
    return any(looks) and all(
        (looks[at] or moves[at]) and command.kind == "command" and not command.is_computed and not command.redirections
        for at, command in enumerate(found)
    )


def ends_with_findings(output: str) -> bool:
    """Whether the last lines of a failing command are the summary of a linter, such as that of a script that calls several."""
    return any(map(_SUMMARY, [line for line in output.splitlines() if line.strip()][-6:]))


def tools_of(check: Check, tool: str) -> Packages:
    """The package of the program that a check calls, if it has one."""
    needed = "pytest" if check.reader == "pytest" else LINTERS.get(tool, "")
    return Packages(requirements=(needed,) if needed else ())


def program(words: list[str]) -> tuple[str, list[str]]:
    """The program that a command line ends up in and its arguments: `uv run -- python -m pytest -q` → ("pytest", ["-q"])."""
    words = assignments(words)[1]
    while words:
        if words[0] in _WRAPPERS and "run" in words[1:]:
            words = words[words.index("run") + 1 :]
            while words and words[0].startswith("-"):
                words = words[2:] if words[0] in _VALUED else words[1:]
        elif is_python(words[0]):
            module = module_of(words)
            if module is None:
                return "python", without_options(words[1:])[1]
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


def _classify(words: list[str], script: Callable[[str], str]) -> Reading | None:
    name, arguments = program(words)
    if name in (*_MOVES, "mkdir"):
        return None  # changes the shell, runs nothing
    if name in ("pytest", "py.test"):
        return Reading("pytest", "pytest")
    if name == "unittest":
        return Reading("unittest", "unittest")
    if name in LINTERS:
        return Reading("findings", name)
    if name in ("tox", "nox"):
        return Reading("exit", name)
    if (found := ecosystems.read_command(assignments(words)[1], script("package.json"))) is not None:
        return Reading(*found)
    inner = ""
    if name in RUNNER_FILES:
        inner = next((text for path in RUNNER_FILES[name] if (text := script(path))), "")
    elif (own := assignments(words)[1][:1]) and "/" in own[0] and not own[0].endswith(".py"):
        inner = script(own[0].removeprefix("./"))
    elif name.endswith(".sh") or (name == "python" and arguments and arguments[0].endswith(".py")):
        inner = script((name if name.endswith(".sh") else arguments[0]).removeprefix("./"))
    runner = _runner_in(inner)
    if runner is not None:
        return Reading(runner, name)
    return Reading("exit", name) if name else None


def _runner_in(script: str) -> Literal["pytest", "unittest"] | None:
    """The test runner that a piece of shell text seems to call."""
    if re.search(r"(?:^|[\s;&|(/@])(?:pytest|py\.test)(?=$|[\s;&|)])", script):
        return "pytest"
    return "unittest" if re.search(r"-m unittest\b", script) else None


def _weight(reader: Reader) -> int:
    return {"exit": 0, "findings": 1, "unittest": 2, "pytest": 3}.get(reader, 2)
