"""Follows pdm: `pdm run …` with its scripts, `pdm install -G …`, pinned by pdm.lock where there is one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from agent.ci.project import lockfiles
from agent.ci.project.install_commands import merge
from agent.ci.project.tables import Table, as_table, strings, variables
from agent.ci.runners import manifest
from agent.ci.runners.context import Again, Followed, ShellContext, Unfollowed
from agent.ci.runners.named_scripts import NamedScripts
from agent.ci.runners.options import Options, split_options
from sandbox.base import Packages

_VALUED = (
    "-G", "--group", "--with", "--without", "-p", "--project", "-L", "--lockfile", "-s", "--site-packages-of", "-c",
    "--config",
)  # fmt: skip
_OTHERS = (
    "lock", "config", "use", "venv", "python", "py", "cache", "info", "list", "show", "update", "self", "plugin", "init",
    "add",
)  # fmt: skip


def follow(words: Sequence[str], context: ShellContext, again: Again) -> Followed | None:
    before, rest = split_options(words[1:], _VALUED)
    context = context.moved(before.value("-p", "--project", default="."))
    scripts = manifest.read(context).table("tool", "pdm", "scripts")
    match rest:
        case ["run", *arguments]:
            options, command = split_options(arguments, ("-p", "--project", "-s"))
            if options.has("-l", "--list"):
                raise Unfollowed("`pdm run --list` runs no tests")
            return _run(command, scripts, context, again)
        case ["install" | "sync", *arguments]:
            options, _ = split_options(arguments, _VALUED)
            packages, notes = _packages(options, context)
            return context.result(packages=packages, notes=notes)
        case ["build", *_]:
            return context.result(*manifest.BUILD)
        case [name, *_] if name in scripts:
            return _run(rest, scripts, context, again)
        case [name, *_] if name in _OTHERS:
            return context.result()
    return None


def _run(command: list[str], scripts: Table, context: ShellContext, again: Again) -> Followed:
    if not command:
        raise Unfollowed("it names no command")
    inside = context.with_env(variables(as_table(scripts.get("_")).get("env")))
    if command[0] in scripts:
        return NamedScripts(scripts, context.steps).run(command[0], command[1:], inside, again)
    return again(shlex.join(["python", *command] if command[0].endswith(".py") else command), inside)


def _packages(options: Options, context: ShellContext) -> tuple[Packages, tuple[str, ...]]:
    found = manifest.read(context)
    old = found.table("tool", "pdm", "dev-dependencies")
    dev = [*old, *(name for name in found.groups if name not in old)]
    asked = options.names("-G", "--group", "--with")
    left_out = options.names("--without")
    production = options.has("--prod", "--production", "--no-dev")
    wanted = [*([] if production else dev), *(found.extras if ":all" in asked else []), *asked]
    wanted = [name for name in dict.fromkeys(wanted) if name not in left_out and name != ":all"]
    extras = [name for name in wanted if name in found.extras]
    project = Packages() if options.has("--no-self", "--no-default") else found.project(extras)
    if text := context.text("pdm.lock"):
        groups = [*([] if options.has("--no-default") else ["default"]), *wanted]
        pins, notes = manifest.locked(lambda: lockfiles.from_pdm(text, groups, context.python))
        return merge(pins, project), notes
    listed = [item for name in wanted for item in strings(old.get(name)) if "://" not in item and item[:2] != "-e"]
    return merge(project, Packages(requirements=tuple(listed)), found.of_groups(wanted)), ()
