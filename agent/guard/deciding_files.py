"""Protects the files that decide whether this repository's checks pass, whatever their names.

These are scripts that a check runs, files that contain its tests, docstring examples that are its tests, and new modules that
would shadow a tool or a standard module.
"""

from __future__ import annotations

import ast
import doctest
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import PurePosixPath

from agent.contract.proposal import FileChange
from agent.contract.verdicts import Check, Oracle, Step
from agent.guard import Finding
from agent.source import syntax

_TOOLS = frozenset({
    "pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "exceptiongroup", "tomli", "colorama",
    "nose", "nose2", "xdist", "hypothesis", "coverage", "mypy", "mypyc", "ruff", "flake8", "pycodestyle", "pyflakes",
    "pylint", "astroid", "pyright", "black", "isort", "bandit", "tox", "nox", "pip", "setuptools", "wheel", "build",
    "pkg_resources", "selfheal_guest",
})  # fmt: skip
_START_UP = ("sitecustomize", "usercustomize")
_INTERPRETER = re.compile(r"(?:.*/)?(?:(?:python|pypy|py)[\d.]*|bash|sh|dash|zsh|node|perl|source|\.)")
_WRAPPERS = frozenset({
    "uv", "poetry", "pdm", "pipenv", "rye", "hatch", "run", "exec", "time", "env", "command", "nice", "sudo", "xvfb-run",
    "coverage", "--",
})  # fmt: skip
_TESTS = re.compile(r"^\s*((async )?def test|class Test|import (pytest|unittest)|from (pytest|unittest))", re.M)
# The items of pytest-ruff, pytest-mypy, pytest-flake8, pytest-black, pytest-pylint, pytest-isort and pytest-pycodestyle.
_LINTED = re.compile(
    r"[^:]+(?:::flake-8)?::(?:ruff(?:::format)?|mypy(?:-status)?|FLAKE8|BLACK|PYLINT|ISORT|isort|PYCODESTYLE)"
).fullmatch
# Programs that read their commands from a file of the repository.
_ORDERS = {
    "make": ("makefile", "gnumakefile", "*.mk"), "gmake": ("makefile", "gnumakefile", "*.mk"),
    "npm": ("package.json",), "yarn": ("package.json",), "pnpm": ("package.json",), "npx": ("package.json",),
    "invoke": ("tasks.py",), "inv": ("tasks.py",), "task": ("taskfile*.y*ml",), "just": ("justfile", ".justfile"),
    "doit": ("dodo.py",), "nox": ("noxfile.py",), "tox": ("tox.ini", "tox.toml"), "poe": ("poe_tasks.toml",),
    "pre-commit": (".pre-commit-config.yaml",),
}  # fmt: skip
_SCRIPTS = (".sh", ".bash", ".mk")  # a script can call another


def deciding_file_findings(edit: FileChange, oracle: Oracle) -> Iterator[Finding]:
    """Violations in one file's change, worst first. A policy can lift the rule "tests"."""
    path = edit.path.casefold()
    parts = PurePosixPath(path).parts
    if any(part.split(".")[0] in _START_UP for part in parts):
        yield "start-up", f"{edit.path} changes how Python starts"
    for check in oracle.checks:
        if edit.before is None and (name := _shadowed(path, check)) is not None:
            yield "shadow", f"{edit.path} would shadow the module `{name}`"
        steps: tuple[Check | Step, ...] = (*check.before, check)
        for step in steps:
            if _is_run_by(path, step):
                yield "judge", f"{edit.path} is part of the check's command `{step.command.strip()[:80]}`"
        ids = [*oracle.must_turn.get(check.name, ()), *oracle.must_stay.get(check.name, ())]
        if check.runs_tests:
            yield from _test_findings(edit, path, check, ids)


def _shadowed(path: str, check: Check) -> str | None:
    """The module that a new file at an import root would shadow."""
    parts = list(PurePosixPath(path).parts)
    for root in (PurePosixPath(check.cwd.casefold()).parts, ()):
        if root and tuple(parts[: len(root)]) == root:
            parts = parts[len(root) :]
            break
    if parts[:1] == ["src"]:
        parts = parts[1:]
    if not parts or len(parts) > 2 or (len(parts) == 2 and parts[1].split(".")[0] not in ("__init__", "__main__")):
        return None
    if len(parts) == 1 and not re.search(r"\.(py|pyc|pyd|so|zip)$", parts[0]):
        return None
    name = parts[0].split(".")[0]
    known = {module.casefold() for module in sys.stdlib_module_names} | _TOOLS | _named_modules(check.commands)
    return name if name in known or name.startswith(("pytest_", "flake8_", "pylint_")) else None


def _named_modules(command: str) -> set[str]:
    """Modules run by `python -m NAME …` or as a program, whose module usually has the same name."""
    found = set()
    for words in _simple_commands(command):
        found |= {after.split(".")[0].casefold() for word, after in pairwise(words) if word == "-m"}
        if words and "/" not in words[0]:
            found.add(words[0].casefold().replace("-", "_"))
    return found


def _is_run_by(path: str, step: Check | Step) -> bool:
    root = step.cwd.casefold().strip("/")
    relative = path[len(root) + 1 :] if root not in ("", ".") and path.startswith(f"{root}/") else path
    for words in _simple_commands(step.command):
        run = [str(PurePosixPath(word.casefold())) for word in (*_executed_files(words), *_option_files(words))]
        orders = [pattern for word in words[:4] for pattern in _ORDERS.get(PurePosixPath(word).name, ())]
        if relative in run or path in run:
            return True
        if any(PurePosixPath(path).match(pattern) for pattern in orders):
            return True
        if (orders or any(script.endswith(_SCRIPTS) for script in run)) and path.endswith(_SCRIPTS):
            return True
    return False


def _executed_files(words: list[str]) -> Iterator[str]:
    """The repository files that a simple command executes."""
    while words and (words[0] in _WRAPPERS or re.fullmatch(r"\w+=.*", words[0])):
        words = words[1:]
    if not words:
        return
    first, rest = words[0], words[1:]
    if not _INTERPRETER.fullmatch(first):
        yield first
        return
    while rest:
        if rest[0] == "-m" and len(rest) > 1:
            module = rest[1].replace(".", "/")
            yield from (f"{module}.py", f"{module}/__main__.py")
            if rest[1] in ("coverage", "trace", "cProfile"):
                yield from _executed_files(["python", *rest[2:]])
            return
        if rest[0] == "-c":
            return
        if rest[0] in ("-W", "-X", "-o", "-O"):
            rest = rest[1:]
        elif not rest[0].startswith("-") and rest[0] != "run":
            yield rest[0]
            return
        rest = rest[1:]


def _option_files(words: list[str]) -> Iterator[str]:
    """The plugins and configuration files that a tool's options name."""
    for word, after in pairwise([*words, ""]):
        option, has_value, value = word.partition("=")
        if option == "-p" and after:
            module = after.replace(".", "/")
            yield from (f"{module}.py", f"{module}/__init__.py")
        elif re.fullmatch(r"-c|--(config|rc|settings)[\w-]*", option):
            yield value if has_value else after


def _simple_commands(command: str) -> Iterator[list[str]]:
    for line in re.split(r"\n|&&|\|\||[;|&(){}]", command.replace("\\\n", " ")):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = line.split()
        if words:
            yield words


def _test_findings(edit: FileChange, path: str, check: Check, ids: Iterable[str]) -> Iterator[Finding]:
    held = [id_ for id_ in ids if _holds(path, id_, check.reader)]
    for id_ in held:
        # A file that could not be collected can be product code, imported to run its examples.
        is_named = "::" in id_ or check.reader == "unittest" or _TESTS.search(edit.before or "")
        if is_named and not is_doctest(path, id_, check.reader) and not is_linters(id_):
            yield "tests", f"{edit.path} contains the test `{id_[:100]}`"
            return
    if held and (lost := _examples(edit.before, path) - _examples(edit.after, path)):
        yield "tests", f"{edit.path} would change an example that is a test: `{next(iter(lost))[0].strip()[:80]}`"


def _holds(path: str, id_: str, reader: str) -> bool:
    """Whether the verdict can come from this file. unittest's ids name modules relative to its start folder."""
    if reader == "pytest":
        return id_.partition("::")[0].casefold() == path
    parts = re.sub(r"^\w+ \((.*)\)$", r"\1", id_).casefold().split(".")
    files = ["/".join(parts[:n]) + ".py" for n in range(max(1, len(parts) - 2), len(parts) + 1)]
    return any(path == file or path.endswith(f"/{file}") for file in files)


def is_linters(id_: str) -> bool:
    """Whether a plugin of pytest that runs a linter gives this id: every file that it reads has one."""
    return _LINTED(id_) is not None


def is_doctest(path: str, id_: str, reader: str) -> bool:
    """Whether pytest or unittest would give a docstring example this id, which ends in the name of the docstring's owner."""
    module = PurePosixPath(path)
    if reader == "unittest":
        return " " not in id_ and not id_.rpartition(".")[2].startswith(("test", "runTest"))
    name = id_.partition("::")[2].split("[")[0]
    return bool(name) and (name.casefold() in (module.name, module.stem) or "." in name or module.suffix != ".py")


def _examples(text: str | None, path: str) -> Counter[tuple[str, str]]:
    """The examples in a text or a module's strings; if the module does not parse, the lines that look like examples."""
    try:
        # All strings of a module: `__test__` and docstrings assembled later contain examples too.
        nodes = ast.walk(syntax.tree(text or "")) if path.endswith(".py") else [ast.Constant(text or "")]
        texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        parser = doctest.DocTestParser()
        return Counter((example.source, example.want) for one in texts for example in parser.get_examples(one))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        rows = [row.strip() for row in (text or "").splitlines()]
        return Counter(
            (f"{row[4:]}\n", f"{after}\n" if after and not after.startswith((">>>", "...", '"""', "'''")) else "")
            for row, after in zip(rows, [*rows[1:], ""], strict=True)
            if row.startswith(">>> ")
        )
