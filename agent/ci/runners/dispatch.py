"""Follows a command line, or shell text, through the runners that it calls to what they run in the one prepared environment.

Runners can call runners (make → tox → pytest), within bounds on depth and number. Nothing is executed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agent.ci.project.detection import Project
from agent.ci.runners import go, hatch, make, managers, nox, project_tasks, recipes, uv
from agent.ci.runners.context import DEPTH, TEXT_LIMIT, Followed, Runner, ShellContext, Steps, Unfollowed
from agent.ci.runners.script import LATER, read_script
from agent.ci.runners.tox import tox
from agent.ci.shell.words import assignments, module_of

_CALL = 100  # steps that following one runner costs
_RUNNERS: dict[str, Runner] = {
    "tox": tox.follow,
    "nox": nox.follow,
    "make": make.follow,
    "gmake": make.follow,
    "pre-commit": project_tasks.pre_commit,
    "just": recipes.just,
    "task": project_tasks.task,
    "poe": project_tasks.poe,
    "poethepoet": project_tasks.poe,
    "invoke": project_tasks.invoke,
    "inv": project_tasks.invoke,
    "rye": project_tasks.rye,
    "uv": uv.follow,
    "uvx": uv.uvx,
    "pipx": uv.pipx,
    "poetry": managers.poetry,
    "pdm": managers.pdm,
    "pipenv": managers.pipenv,
    "hatch": hatch.follow,
    "richgo": go.richgo,
    "gotestsum": go.gotestsum,
}


def follow(
    words: Sequence[str], project: Project, env: Mapping[str, str], cwd: str = ".", python: str | None = None
) -> Followed | Unfollowed | None:
    """What one command line runs; None if it calls no runner. `python` is the version wanted so far ("3.12")."""
    return _follow(list(words), ShellContext(project, dict(env), cwd, python))


def follow_script(
    text: str,
    project: Project,
    env: Mapping[str, str],
    cwd: str = ".",
    python: str | None = None,
    *,
    steps: Steps | None = None,
) -> Followed:
    """The same for shell text, such as a step of a workflow: installs are removed, runners followed, the rest stays.

    A runner that cannot be followed stays as it is, with a note. Several texts can share one budget of `steps`.
    """
    return _again(text, ShellContext(project, dict(env), cwd, python, steps=steps or Steps()))


def _follow(words: list[str], context: ShellContext) -> Followed | Unfollowed | None:
    env, words = assignments(words)
    known = {name: value for name, value in env.items() if not LATER.search(value)}
    context = context.with_env(known)
    words = module_of(words) or words
    if not words or words[0].startswith("./"):
        return None
    name = words[0].rsplit("/", 1)[-1]
    runner = _RUNNERS.get(name)
    if runner is None:
        return None
    try:
        if context.depth >= DEPTH:
            raise Unfollowed(f"runners call each other more than {DEPTH} levels deep")
        context.steps.take(_CALL)
        if later := ", ".join(name for name in env if name not in known and name != "PATH"):  # programs are where they are here
            raise Unfollowed(f"the value of {later} is known only at run time")
        found = runner([name, *words[1:]], context, lambda text, inner: _again(text, replace(inner, depth=context.depth + 1)))
        if found is not None and len(found.command) > TEXT_LIMIT:
            raise Unfollowed("the commands that it runs are too long")
    except Unfollowed as unfollowed:
        return unfollowed
    except RecursionError:
        return Unfollowed("its files are nested too deeply")
    return found


def _again(text: str, context: ShellContext) -> Followed:
    return read_script(text, context, _follow)
