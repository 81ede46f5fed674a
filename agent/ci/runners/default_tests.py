"""How a repository's tests are run where no workflow says so, as its own runner has them written down.

Looks at what the runners' files name for tests; knows nothing of their forms. `detect` is asked where this finds none.
"""

from __future__ import annotations

from collections.abc import Iterator

from agent.ci.project.commands import read_command
from agent.ci.project.detection import Project
from agent.ci.runners import manifest, tox
from agent.ci.runners.context import Followed, Place
from agent.ci.runners.follow import follow
from agent.ci.runners.nox import noxfile as nox_file
from agent.ci.runners.nox.noxfile import NoxError
from agent.ci.runners.selection import one_of_each
from agent.ci.runners.tox.config import python_of
from agent.ci.runners.tox.values import ToxError

_NAMES = ("test", "tests", "unit", "pytest", "check")  # what people call them
_TRIED = 12


def detected(project: Project, python: str | None = None) -> tuple[Followed, str] | None:
    """The tests as the repository's own runner would run them, and the line that it would be called with; None without one.

    Only what ends in pytest or unittest counts, so that a linter or a build is never taken for the tests.
    """
    place = Place(project, python=python)
    for tried, words in enumerate(_lines(place)):
        if tried >= _TRIED:
            break
        found = follow(words, project, {}, python=python)
        if isinstance(found, Followed) and read_command(found.command).reader in ("pytest", "unittest"):
            return found, " ".join(words)
    return None


def _lines(place: Place) -> Iterator[list[str]]:
    """Command lines that may run the tests, the surest first."""
    try:
        config = tox.read_config(place)
        if config is not None:
            names = config.env_list() or ["py"]
            kinds = [("-".join(part for part in name.split("-") if python_of(part) is None), python_of(name)) for name in names]
            chosen, _ = one_of_each(names, kinds, place.python)
            for name in [name for name in chosen if "cov" not in name] or chosen:
                yield ["tox", "-e", name]
    except (ToxError, RecursionError):
        pass
    if text := place.text("noxfile.py"):
        try:
            sessions = nox_file.read(text, {}, {}).sessions
        except (NoxError, RecursionError):
            sessions = []
        for name in dict.fromkeys(session.name for session in sessions if session.default):
            yield ["nox", "-s", name]
    found = manifest.read(place)
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
    for runner_file, program in (("Makefile", "make"), ("makefile", "make"), ("justfile", "just")):
        if place.text(runner_file):
            yield from ([program, name] for name in _NAMES)
