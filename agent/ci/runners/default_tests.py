"""The tests as a repository's own runner runs them, for a repository whose workflows do not show how.

Tries the usual names of tests in the runners' files; `detection` is the fallback. Without test files, scripts count too.
"""

from __future__ import annotations

import contextlib
import itertools
import platform
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace

from agent.ci.project.commands import RUNNER_FILES, read_command
from agent.ci.project.detection import Project
from agent.ci.runners import manifest, nox
from agent.ci.runners.context import Followed, ShellContext, Unfollowed
from agent.ci.runners.dispatch import follow
from agent.ci.runners.tox import tox
from sandbox.base import Packages

_NAMES = ("test", "tests", "unit", "pytest", "check")
_TRIED = 16
_OF_TESTS = re.compile(r"(?:py|test)")  # environments
_OURS = ".".join(platform.python_version_tuple()[:2])  # of several Pythons, the one that is certainly here
_SCRIPT = re.compile(r"(?:(?:scripts?|bin|ci|tools)/)?(?:run[-_]?)?tests?(?:\.sh|\.py)?$")


def detected(project: Project, python: str | None = None) -> tuple[Followed, str] | None:
    """The tests as the repository's own runner runs them, and its command line; None if there is none.

    Only command lines that end in pytest or unittest count, never a linter or a build.
    """
    python = python or _OURS
    context = ShellContext(project, python=python)
    for words in itertools.islice(_lines(context), _TRIED):
        found = follow(words, project, {}, python=python)
        if isinstance(found, Followed) and read_command(found.command).reader in ("pytest", "unittest"):
            return found, " ".join(words)
    return None


def packages_of_tox(project: Project, python: str | None = None) -> Packages:
    """What the repository's tox installs for its tests, whatever runs them there."""
    python = python or _OURS
    lines = _lines(ShellContext(project, python=python))
    of_tests = (words for words in lines if words[0] == "tox" and _OF_TESTS.match(words[-1]))
    for words in itertools.islice(of_tests, _TRIED):
        found = follow(words, project, {}, python=python)
        if isinstance(found, Followed):
            return replace(found.packages, python=None)
    return Packages()


def stated(project: Project, python: str | None = None) -> tuple[Followed, str] | None:
    """What the repository names its tests, whatever that runs, and its command line; None if it names nothing.

    For a repository without recognizable tests. A linter does not count.
    """
    python = python or _OURS
    context = ShellContext(project, python=python)
    named = (words for words in _lines(context) if words[0] != "nox" or words[-1] in _NAMES)
    for words in itertools.islice(itertools.chain(named, _scripts(project)), _TRIED):
        found = follow(words, project, {}, python=python) or context.result(shlex.join(words))
        if isinstance(found, Followed) and found.command and read_command(found.command).reader != "findings":
            return found, " ".join(words)
    return None


def _scripts(project: Project) -> Iterator[list[str]]:
    """Scripts that are named like tests, as their first line says to run them."""
    for path in sorted(filter(_SCRIPT.match, project.paths), key=lambda path: (path.count("/"), path)):
        said = re.match(r"#!.*\b(sh|bash|zsh|python|node|ruby|perl)", project.texts.get(path, ""))
        program = "python" if path.endswith(".py") else said[1] if said else "sh" if path.endswith(".sh") else None
        if program is not None:
            yield [program, path]


def _lines(context: ShellContext) -> Iterator[list[str]]:
    """Command lines that probably run the tests, the most likely first."""
    with contextlib.suppress(Unfollowed, RecursionError):
        if (config := tox.read_config(context)) is not None:
            chosen, _ = tox.one_python(config.env_list() or ["py"], context.python)
            for name in [name for name in chosen if "cov" not in name] or chosen:
                yield ["tox", "-e", name]
    with contextlib.suppress(Unfollowed):
        for name in dict.fromkeys(session.kind.partition("(")[0] for session in nox.sessions([], context)):
            yield ["nox", "-s", name]
    found = manifest.read(context)
    for runner, table in (
        (["hatch", "run"], found.table("tool", "hatch", "envs", "default", "scripts")),
        (["hatch", "run", "test:"], found.table("tool", "hatch", "envs", "test", "scripts")),
        (["pdm", "run"], found.table("tool", "pdm", "scripts")),
        (["poe"], found.table("tool", "poe", "tasks")),
        (["task"], found.table("tool", "taskipy", "tasks")),
    ):
        for name in _NAMES:
            if name in table:
                yield [*runner[:-1], runner[-1] + name] if runner[-1].endswith(":") else [*runner, name]
    if found.table("tool", "hatch", "envs", "hatch-test"):
        yield ["hatch", "test"]
    for program in ("make", "just", "task"):
        if any(map(context.text, RUNNER_FILES[program])):
            yield from ([program, name] for name in _NAMES)
