"""Follows pdm: `pdm run …` with its scripts, `pdm install -G …`, pinned by pdm.lock where there is one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from agent.ci import locked
from agent.ci.project.install_commands import merge
from agent.ci.runners import manifest, named_scripts
from agent.ci.runners.context import Again, Followed, Place, Result, Unfollowed
from agent.ci.runners.manifest import names, split_options
from agent.ci.tables import Table, strings
from sandbox.base import Packages

_VALUED = (
    "-G",
    "--group",
    "--with",
    "--without",
    "-p",
    "--project",
    "-L",
    "--lockfile",
    "-s",
    "--site-packages-of",
    "-c",
    "--config",
)
_OTHERS = (
    "lock",
    "config",
    "use",
    "venv",
    "python",
    "py",
    "cache",
    "info",
    "list",
    "show",
    "update",
    "self",
    "plugin",
    "init",
    "add",
)


def follow(words: Sequence[str], place: Place, again: Again) -> Result:
    """`words` begin with "pdm"."""
    before, rest = split_options(list(words[1:]), _VALUED)
    if folder := next(iter([*before.get("-p", []), *before.get("--project", [])]), ""):
        place = place.moved(folder)
    scripts = manifest.read(place).table("tool", "pdm", "scripts")
    match rest:
        case ["run", *arguments]:
            options, command = split_options(arguments, ("-p", "--project", "-s"))
            if "-l" in options or "--list" in options:
                return Unfollowed("`pdm run --list` runs no tests")
            return _run(command, scripts, place, again)
        case ["install" | "sync", *arguments]:
            options, _ = split_options(arguments, _VALUED)
            packages, notes = _packages(options, place)
            return Followed("", packages, place.env, place.cwd, None, notes)
        case ["build", *_]:
            return Followed("python -m build", Packages(requirements=("build",)), place.env, place.cwd)
        case [name, *arguments] if name in scripts:
            return _run([name, *arguments], scripts, place, again)
        case [name, *_] if name in _OTHERS:
            return Followed("", Packages(), place.env, place.cwd)
    return None


def _run(command: list[str], scripts: Table, place: Place, again: Again) -> Followed | Unfollowed:
    if not command:
        return Unfollowed("it names no command")
    shared = scripts.get("_")
    env = shared.get("env") if isinstance(shared, dict) else None
    inside = place.with_env({str(key): str(value) for key, value in env.items()} if isinstance(env, dict) else {})
    if command[0] in scripts:
        return named_scripts.run(named_scripts.Tables(scripts, steps=place.steps), command[0], command[1:], inside, again)
    return again(shlex.join(["python", *command] if command[0].endswith(".py") else command), inside)


def _packages(options: dict[str, list[str]], place: Place) -> tuple[Packages, tuple[str, ...]]:
    found = manifest.read(place)
    old = found.table("tool", "pdm", "dev-dependencies")
    dev = [*old, *(name for name in found.groups if name not in old)]
    asked = names([*options.get("-G", []), *options.get("--group", []), *options.get("--with", [])])
    left_out = names(options.get("--without", []))
    production = {"--prod", "--production", "--no-dev"} & options.keys()
    wanted = [*([] if production else dev), *(found.extras if ":all" in asked else []), *asked]
    wanted = [name for name in dict.fromkeys(wanted) if name not in left_out and name != ":all"]
    extras = [name for name in wanted if name in found.extras]
    project = Packages() if {"--no-self", "--no-default"} & options.keys() else found.project(extras)
    listed = [item for name in wanted for item in strings(old.get(name)) if "://" not in item and item[:2] != "-e"]
    if text := place.text("pdm.lock"):
        groups = [*([] if "--no-default" in options else ["default"]), *wanted]
        pins, notes = manifest.locked(lambda: locked.from_pdm(text, groups, place.python))
        return merge(pins, project), notes
    return merge(project, merge(Packages(requirements=tuple(listed)), found.of_groups(wanted))), ()
