"""Follows the task runners that live in pyproject.toml: poe, taskipy (`task`), rye."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from agent.ci.project.install_commands import merge
from agent.ci.runners import manifest, named_scripts, taskfile
from agent.ci.runners.context import Again, Followed, Place, Result, Unfollowed
from agent.ci.runners.manifest import split_options
from agent.ci.runners.named_scripts import Tables
from agent.ci.runners.tox.config import toml
from agent.ci.runners.tox.values import ToxError
from agent.ci.tables import strings
from sandbox.base import Packages


def poe(words: Sequence[str], place: Place, again: Again) -> Result:
    options, rest = split_options(list(words[1:]), ("-C", "--directory", "-e", "--executor"))
    if folder := next(iter([*options.get("-C", []), *options.get("--directory", [])]), ""):
        place = place.moved(folder)
    table = manifest.read(place).table("tool", "poe")
    if not table and (text := place.text("poe_tasks.toml")):
        try:
            table = toml(text)
        except ToxError:
            return Unfollowed("its poe_tasks.toml cannot be read")
    if not rest:
        return Unfollowed("it names no task")
    tasks, env = table.get("tasks"), table.get("env")
    inside = place.with_env({str(key): str(value) for key, value in env.items()} if isinstance(env, dict) else {})
    commands = tasks if isinstance(tasks, dict) else {}
    return named_scripts.run(
        Tables(commands, steps=place.steps, lists_names=True, hooks=None), rest[0], rest[1:], inside, again
    )


def task(words: Sequence[str], place: Place, again: Again) -> Result:
    """taskipy's `task`, or go-task's where there is a Taskfile."""
    tasks = manifest.read(place).table("tool", "taskipy", "tasks")
    if not tasks:
        return taskfile.follow(words, place, again)
    _, rest = split_options(list(words[1:]), ())
    return (
        named_scripts.run(Tables(tasks, steps=place.steps), rest[0], rest[1:], place, again)
        if rest
        else Unfollowed("it names no task")
    )


def rye(words: Sequence[str], place: Place, again: Again) -> Result:
    found = manifest.read(place)
    project = found.project(found.extras if "--all-features" in words else [])
    listed = strings(found.table("tool", "rye").get("dev-dependencies"))
    packages = merge(project, Packages(requirements=tuple(item for item in listed if "://" not in item)))
    match list(words[1:]):
        case ["run", name, *arguments]:
            scripts = found.table("tool", "rye", "scripts")
            if name in scripts:
                inner = named_scripts.run(Tables(scripts, steps=place.steps), name, arguments, place, again)
            else:
                inner = again(shlex.join([name, *arguments]), place)
        case ["test", *arguments]:
            plain = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
            inner = again(shlex.join(["pytest", *plain]), place)
        case ["sync" | "install", *_]:
            return Followed("", packages, place.env, place.cwd)
        case ["lint" | "fmt" as what, *_]:
            return again("ruff check" if what == "lint" else "ruff format --check", place)
        case _:
            return None
    if isinstance(inner, Unfollowed):
        return inner
    return Followed(inner.command, merge(packages, inner.packages), inner.env, inner.cwd, inner.python, inner.notes)


def invoke(words: Sequence[str], place: Place, again: Again) -> Result:
    return Unfollowed("the tasks of invoke are Python code, which is not run to be read")
