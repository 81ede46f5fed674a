"""Follows the runners of tasks that a project lists: poe, taskipy (`task`) and rye in pyproject.toml, and pre-commit."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from agent.ci.project.hooks import PATH, read_hooks
from agent.ci.project.install_commands import merge
from agent.ci.project.tables import as_table, read_toml, strings, variables
from agent.ci.runners import manifest, recipes
from agent.ci.runners.context import Again, Followed, ShellContext, Unfollowed
from agent.ci.runners.named_scripts import NamedScripts
from agent.ci.runners.options import split_options
from agent.guest.text import one_line
from sandbox.base import Packages


def poe(words: Sequence[str], context: ShellContext, again: Again) -> Followed:
    options, rest = split_options(words[1:], ("-C", "--directory", "-e", "--executor"))
    context = context.moved(options.value("-C", "--directory", default="."))
    table = manifest.read(context).table("tool", "poe") or read_toml(context.text("poe_tasks.toml"))
    if table is None:
        raise Unfollowed("its poe_tasks.toml is not valid TOML")
    if not rest:
        raise Unfollowed("it names no task")
    tasks = NamedScripts(as_table(table.get("tasks")), context.steps, lists_names=True, hooks=None)
    return tasks.run(rest[0], rest[1:], context.with_env(variables(table.get("env"))), again)


def task(words: Sequence[str], context: ShellContext, again: Again) -> Followed:
    """taskipy's `task`, or go-task's if there is a Taskfile."""
    tasks = manifest.read(context).table("tool", "taskipy", "tasks")
    if not tasks:
        return recipes.go_task(words, context, again)
    _, rest = split_options(words[1:], ())
    if not rest:
        raise Unfollowed("it names no task")
    return NamedScripts(tasks, context.steps).run(rest[0], rest[1:], context, again)


def rye(words: Sequence[str], context: ShellContext, again: Again) -> Followed | None:
    found = manifest.read(context)
    listed = strings(found.table("tool", "rye").get("dev-dependencies"))
    packages = merge(
        found.project(found.extras if "--all-features" in words else []),
        Packages(requirements=tuple(item for item in listed if "://" not in item)),
    )
    match list(words[1:]):
        case ["run", name, *arguments] if name in (scripts := found.table("tool", "rye", "scripts")):
            inner = NamedScripts(scripts, context.steps).run(name, arguments, context, again)
        case ["run", *command] if command:
            inner = again(shlex.join(command), context)
        case ["test", *arguments]:
            plain = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
            inner = again(shlex.join(["pytest", *plain]), context)
        case ["sync" | "install", *_]:
            return context.result(packages=packages)
        case ["lint" | "fmt" as what, *_]:
            return again("ruff check" if what == "lint" else "ruff format --check", context)
        case _:
            return None
    return replace(inner, packages=merge(packages, inner.packages))


def invoke(words: Sequence[str], context: ShellContext, again: Again) -> Followed:
    raise Unfollowed("invoke tasks are Python code, which is not executed to find out what it runs")


def pre_commit(words: Sequence[str], context: ShellContext, again: Again) -> Followed | None:
    """pre-commit fetches its environments with git, so its hooks are run from packages instead."""
    if "run" not in words:
        return None
    plain = [word for word in words[words.index("run") + 1 :] if not word.startswith("-")]
    hooks = read_hooks(context.text(PATH), plain[0] if plain else "")
    if not hooks.command:
        raise Unfollowed("its hooks are fetched with git, but the sandbox has no network")
    notes = [f"`{one_line(' '.join(words), 80)}` is approximated by its hooks, installed from packages"]
    if hooks.left_out:
        notes.append(f"hooks that are not run: {one_line(', '.join(hooks.left_out), 200)}")
    packages = context.packages(Packages(requirements=hooks.installs))
    return context.result(hooks.command, packages, notes=notes)
