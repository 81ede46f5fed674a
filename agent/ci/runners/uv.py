"""Follows uv: `uv run …`, `uv sync`, `uvx …`, with the extras and groups they install, as uv.lock pins them; `pipx run` too."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from agent.ci.project import lockfiles
from agent.ci.project.install_commands import merge
from agent.ci.project.tables import strings
from agent.ci.runners import manifest
from agent.ci.runners.context import Again, Followed, ShellContext, Unfollowed
from agent.ci.runners.manifest import Manifest
from agent.ci.runners.options import CommandOptions, split_options
from sandbox.base import Packages

_VALUED = (
    "--extra", "--no-extra", "--group", "--no-group", "--only-group", "--with", "-w", "--with-editable",
    "--with-requirements", "--python", "-p", "--package", "--project", "--directory", "--env-file", "--index",
    "--default-index", "--index-url", "-i", "--extra-index-url", "--find-links", "-f", "--resolution", "--prerelease",
    "--exclude-newer", "--color", "--cache-dir", "--config-file", "--link-mode", "--refresh-package", "--upgrade-package",
    "-P", "--reinstall-package", "--from", "--output-format", "--config-setting", "-C", "--no-build-package",
    "--no-binary-package", "--python-platform", "--inexact-package",
)  # fmt: skip
_PIPX_VALUED = (
    "--spec", "--with", "--python", "--fetch-python", "--index-url", "-i", "--pip-args", "--backend",
)  # fmt: skip
_FOLLOWED_TOOLS = ("tox", "nox", "hatch", "pdm", "poetry", "pipenv", "poe", "poethepoet")


def follow(words: Sequence[str], context: ShellContext, again: Again) -> Followed | None:
    before, rest = split_options(words[1:], _VALUED)
    match rest:
        case ["run", *arguments]:
            options, command = split_options(arguments, _VALUED)
            return _run(before.merged(options), command, context, again)
        case ["sync", *arguments]:
            options, _ = split_options(arguments, _VALUED)
            packages, notes, inside = _packages(before.merged(options), context)
            return inside.result(packages=packages, python=packages.python, notes=notes)
        case ["tool", "run", *arguments]:
            return uvx(["uvx", *arguments], context, again)
    return None


def uvx(words: Sequence[str], context: ShellContext, again: Again) -> Followed:
    """`uvx --from 'x[y]' cmd`, `uvx ruff@0.4 check` and `uvx ruff==0.4 check`."""
    options, command = split_options(words[1:], _VALUED)
    return _tool(command, options.value("--from"), options.names("--with"), context, again)


def pipx(words: Sequence[str], context: ShellContext, again: Again) -> Followed | None:
    _, rest = split_options(words[1:], ())
    if rest[:1] != ["run"]:
        return None
    options, command = split_options(rest[1:], _PIPX_VALUED)
    return _tool(command, options.value("--spec"), options.names("--with"), context, again)


def _run(options: CommandOptions, command: list[str], context: ShellContext, again: Again) -> Followed:
    packages, notes, inside = _packages(options, context)
    if options.has("-m", "--module"):
        command = ["python", "-m", *[name for name in options.values("-m", "--module") if name], *command]
    if not command:
        raise Unfollowed("it names no command")
    if command[0].endswith(".py"):
        command = ["python", *command]
    if file := options.value("--env-file"):
        notes = (*notes, f"the variables in {file[:80]} are not read")
    inner = again(shlex.join(command), replace(inside, python=packages.python or inside.python))
    together = merge(packages, inner.packages)
    return replace(inner, packages=together, python=inner.python or packages.python, notes=(*notes, *inner.notes))


def _packages(options: CommandOptions, context: ShellContext) -> tuple[Packages, tuple[str, ...], ShellContext]:
    """The packages of the environment, notes, and the context in which the command runs."""
    context = context.moved(options.value("--directory", default="."))
    home = context.moved(options.value("--project", default="."))
    while not home.has("pyproject.toml") and home.path(".") != ".":
        home = home.moved("..")
    found = manifest.read(home)
    resolution = options.value("--resolution", default=context.env.get("UV_RESOLUTION") or "highest")
    notes = () if resolution == "highest" else (f"the resolution strategy {resolution[:60]} is not supported",)
    if member := options.value("--package"):
        there = found.member(member)
        if there is None:
            notes = (*notes, f"the workspace member {member[:60]} was not found")
        else:
            found = manifest.read(there)
    packages = Packages(
        requirements=tuple(options.names("--with", "-w")),
        requirement_files=tuple(options.values("--with-requirements")),
        projects=tuple(options.values("--with-editable")),
    )
    packages = context.packages(packages)
    wanted = (re.search(r"3\.\d{1,2}", text) for text in options.values("--python", "-p"))
    python = next((match[0] for match in wanted if match), None)
    if found.content and not options.has("--no-project", "--no-sync"):
        own, more = _of_project(options, found, python or context.python)
        packages, notes = merge(packages, own), (*notes, *more)
    return replace(packages, python=python), notes, context


def _of_project(options: CommandOptions, found: Manifest, python: str | None) -> tuple[Packages, tuple[str, ...]]:
    extras = found.extras if options.has("--all-extras") else options.names("--extra")
    extras = [extra for extra in extras if extra not in options.values("--no-extra")]
    groups = _groups(options, found)
    only = options.has("--only-group", "--only-dev")
    legacy = strings(found.table("tool", "uv").get("dev-dependencies")) if "dev" in groups else []
    project = Packages() if only or options.has("--no-install-project") else found.project(extras)
    packages = merge(project, found.of_groups(groups), Packages(requirements=tuple(legacy)))
    context = found.context
    # A member of a workspace has its lock file at the workspace's root.
    while not context.has("uv.lock") and context.path(".") != ".":
        context = context.moved("..")
    text = context.text("uv.lock")
    if not text or only:
        return packages, () if text or not context.has("uv.lock") else ("uv.lock is too large to be read",)
    member = "" if context.path(".") == found.context.path(".") else found.name
    pins, notes = manifest.locked(lambda: lockfiles.from_uv(text, member, extras, groups, python))
    return merge(pins, packages), notes


def _groups(options: CommandOptions, found: Manifest) -> list[str]:
    if only := options.values("--only-group"):
        return only
    if options.has("--only-dev"):
        return ["dev"]
    default = found.table("tool", "uv").get("default-groups", ["dev"])
    groups = found.groups if default == "all" else strings(default)
    if options.has("--no-default-groups"):
        groups = []
    groups = [*groups, *options.values("--group"), *(["dev"] if options.has("--dev") else [])]
    groups = found.groups if options.has("--all-groups") else groups
    left_out = [*options.values("--no-group"), *(["dev"] if options.has("--no-dev") else [])]
    return [group for group in dict.fromkeys(groups) if group not in left_out]


def _tool(command: list[str], source: str, more: list[str], context: ShellContext, again: Again) -> Followed:
    """Follow a tool in an environment of its own, installed from the requirement `source` or by its name."""
    if not command:
        raise Unfollowed("it names no tool")
    written, _, version = command[0].partition("@")
    name = re.split(r"[\[<>=!~]", written)[0]
    requirement = source or written + (f"=={version}" if version and version != "latest" else "")
    needed = [*more, *([] if name in _FOLLOWED_TOOLS else [requirement])]
    inner = again(shlex.join([name, *command[1:]]), context)
    packages = merge(Packages(requirements=tuple(one for one in needed if "://" not in one)), inner.packages)
    notes = tuple(f"{one[:80]} comes from a URL and is left out" for one in needed if "://" in one)
    return replace(inner, packages=packages, notes=(*notes, *inner.notes))
