"""The door to the runners: a command line, or shell text, and what it comes to in the one prepared environment.

Runners may call runners (make → tox → pytest); how deep and how often is bounded. Nothing is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from agent.ci.project.detection import Project
from agent.ci.runners import hatch, just, nox, pdm, pipenv, pipx, poetry, precommit, project_tasks, tox, uv
from agent.ci.runners.context import DEPTH, TEXT_LIMIT, Again, Followed, Place, Result, Steps, TooMuch, Unfollowed
from agent.ci.runners.make import make
from agent.ci.runners.script import read_script
from agent.ci.runners.shell import from_folder, subshell
from agent.ci.shell.python_call import module_of
from agent.ci.shell.words import assignments

_CALL = 100  # steps that following one runner counts as
_RUNNERS: dict[str, Callable[[Sequence[str], Place, Again], Result]] = {
    "tox": tox.follow,
    "nox": nox.follow,
    "make": make.follow,
    "gmake": make.follow,
    "pre-commit": precommit.follow,
    "just": just.follow,
    "task": project_tasks.task,
    "poe": project_tasks.poe,
    "poethepoet": project_tasks.poe,
    "invoke": project_tasks.invoke,
    "inv": project_tasks.invoke,
    "rye": project_tasks.rye,
    "uv": uv.follow,
    "uvx": uv.follow,
    "pipx": pipx.follow,
    "poetry": poetry.follow,
    "pdm": pdm.follow,
    "pipenv": pipenv.follow,
    "hatch": hatch.follow,
}


def follow(
    words: Sequence[str], project: Project, env: Mapping[str, str], cwd: str = ".", python: str | None = None
) -> Followed | Unfollowed | None:
    """What one command line comes to; None where it is no runner's. `python` is the Python wanted so far ("3.12")."""
    return _follow(list(words), Place(project, dict(env), cwd, python))


def follow_script(
    text: str,
    project: Project,
    env: Mapping[str, str],
    cwd: str = ".",
    python: str | None = None,
    *,
    steps: Steps | None = None,
) -> Followed:
    """The same for shell text, of a workflow's step say: installs are taken out, runners are followed, all else stays.

    A runner that cannot be followed stays as it is, with a note. `steps` is what may still be done, if several texts share it.
    """
    return _again(text, Place(project, dict(env), cwd, python, steps=steps or Steps()))


def _follow(words: list[str], place: Place) -> Result:
    env, words = assignments(words)
    place = place.with_env(env)
    words = module_of(words) or words
    if not words:
        return None
    name = words[0].rsplit("/", 1)[-1]
    runner = _RUNNERS.get(name)
    if runner is None or (words[0].startswith("./") and name not in ("gradlew", "mvnw")):
        return None
    if place.depth >= DEPTH:
        return Unfollowed(f"runners call each other more than {DEPTH} deep")
    try:
        place.steps.take(_CALL)
        found = runner([name, *words[1:]], place, lambda text, inner: _again(text, replace(inner, depth=place.depth + 1)))
    except TooMuch:
        return Unfollowed("its parts call each other too often")
    if isinstance(found, Followed) and len(found.command) > TEXT_LIMIT:
        return Unfollowed("what it runs is too long")
    return found


def _again(text: str, place: Place) -> Followed:
    return read_script(text, place, _follow)


def inline(followed: Followed, env: Mapping[str, str], cwd: str) -> str:
    """Its command as text that can be run in `cwd` with `env`, its own folder and variables set inside."""
    added = {name: value for name, value in followed.env.items() if env.get(name) != value}
    return subshell(followed.command, added, from_folder(cwd, followed.cwd))
