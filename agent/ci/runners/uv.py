"""Follows uv: `uv run …`, `uv sync`, `uvx …`, with the extras and groups they would install, as uv.lock pins them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from agent.ci import locked
from agent.ci.project.install_commands import merge
from agent.ci.runners import manifest
from agent.ci.runners.context import Again, Followed, Place, Result, Unfollowed
from agent.ci.runners.manifest import Manifest, names, split_options
from agent.ci.tables import strings
from sandbox.base import Packages

_VALUED = (
    *(
        "--extra",
        "--no-extra",
        "--group",
        "--no-group",
        "--only-group",
        "--with",
        "-w",
        "--with-editable",
        "--with-requirements",
    ),
    *("--python", "-p", "--package", "--project", "--directory", "--env-file", "--index", "--default-index", "--index-url"),
    *(
        "-i",
        "--extra-index-url",
        "--find-links",
        "-f",
        "--resolution",
        "--prerelease",
        "--exclude-newer",
        "--color",
        "--cache-dir",
    ),
    *(
        "--config-file",
        "--link-mode",
        "--refresh-package",
        "--upgrade-package",
        "-P",
        "--reinstall-package",
        "--from",
        "--output-format",
    ),
    *("--config-setting", "-C", "--no-build-package", "--no-binary-package", "--python-platform", "--inexact-package"),
)
_TOOLS = ("tox", "nox", "hatch", "pdm", "poetry", "pipenv", "poe", "poethepoet")  # which are followed, not run


def follow(words: Sequence[str], place: Place, again: Again) -> Result:
    """`words` begin with "uv" or "uvx"."""
    if words[0] == "uvx":
        return _tool(list(words[1:]), place, again)
    before, rest = split_options(list(words[1:]), _VALUED)
    match rest:
        case ["run", *arguments]:
            return _run(*_joined(before, arguments), place, again)
        case ["sync", *arguments]:
            options, _ = _joined(before, arguments)
            packages, notes, place = _packages(options, place)
            return Followed("", packages, place.env, place.cwd, packages.python, notes)
        case ["tool", "run", *arguments]:
            return _tool(arguments, place, again)
    return None


def _joined(before: dict[str, list[str]], arguments: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    options, command = split_options(arguments, _VALUED)
    return {name: [*before.get(name, []), *options.get(name, [])] for name in {*before, *options}}, command


def _run(options: dict[str, list[str]], command: list[str], place: Place, again: Again) -> Result:
    packages, notes, inside = _packages(options, place)
    module = options.get("-m") or options.get("--module")
    if module is not None:
        command = ["python", "-m", *[name for name in module if name], *command]
    if not command:
        return Unfollowed("it names no command")
    if command[0].endswith(".py"):
        command = ["python", *command]
    if options.get("--env-file"):
        notes = (*notes, f"variables of {options['--env-file'][0][:80]} are not read")
    inner = again(shlex.join(command), replace(inside, python=packages.python or inside.python))
    together = merge(packages, inner.packages)
    return replace(inner, packages=together, python=inner.python or packages.python, notes=(*notes, *inner.notes))


def _packages(options: dict[str, list[str]], place: Place) -> tuple[Packages, tuple[str, ...], Place]:
    """What the environment would hold, notes, and the place where the command runs."""
    if folder := next(iter([*options.get("--directory", [])]), ""):
        place = place.moved(folder)
    home = place.moved(options["--project"][0]) if options.get("--project") else place
    # A member of a workspace has its lock file at the workspace's root.
    while not home.has("pyproject.toml") and home.path(".") != ".":
        home = home.moved("..")
    found = manifest.read(home)
    resolution = next(iter(options.get("--resolution", [])), place.env.get("UV_RESOLUTION") or "highest")
    notes = () if resolution == "highest" else (f"the resolution {resolution[:60]} is not followed",)
    if member := next(iter(options.get("--package", [])), ""):
        there = found.member(member)
        if there is None:
            notes = (*notes, f"the package {member[:60]} of the workspace was not found")
        else:
            found = manifest.read(there)
    packages = Packages(requirements=tuple(names(options.get("--with", []) + options.get("-w", []))))
    packages = merge(packages, place.packages(Packages(requirement_files=tuple(options.get("--with-requirements", [])))))
    packages = merge(packages, place.packages(Packages(projects=tuple(options.get("--with-editable", [])))))
    python = next((match[0] for text in _values(options, "--python", "-p") if (match := re.search(r"3\.\d{1,2}", text))), None)
    if not ("--no-project" in options or "--no-sync" in options or not found.content):
        wanted, more = _of_project(options, found, python or place.python)
        packages, notes = merge(packages, wanted), (*notes, *more)
    return replace(packages, python=python), notes, place


def _of_project(options: dict[str, list[str]], found: Manifest, python: str | None) -> tuple[Packages, tuple[str, ...]]:
    extras = found.extras if "--all-extras" in options else names(options.get("--extra", []))
    extras = [extra for extra in extras if extra not in options.get("--no-extra", [])]
    groups = _groups(options, found)
    only = options.get("--only-group") or "--only-dev" in options
    legacy = strings(found.table("tool", "uv").get("dev-dependencies")) if "dev" in groups else []
    project = Packages() if only or "--no-install-project" in options else found.project(extras)
    packages = merge(project, merge(found.of_groups(groups), Packages(requirements=tuple(legacy))))
    place = found.place
    while not place.has("uv.lock") and place.path(".") != ".":
        place = place.moved("..")
    text = place.text("uv.lock")
    if not text or only:
        return packages, () if text or not place.has("uv.lock") else ("uv.lock is too large to be read",)
    member = "" if place.path(".") == found.place.path(".") else found.name
    pins, notes = manifest.locked(lambda: locked.from_uv(text, member, extras, groups, python))
    return merge(pins, packages), notes


def _groups(options: dict[str, list[str]], found: Manifest) -> list[str]:
    if only := _values(options, "--only-group"):
        return only
    if "--only-dev" in options:
        return ["dev"]
    default = found.table("tool", "uv").get("default-groups", ["dev"])
    groups = found.groups if default == "all" else strings(default)
    if "--no-default-groups" in options:
        groups = []
    groups = [*groups, *options.get("--group", []), *(["dev"] if "--dev" in options else [])]
    groups = found.groups if "--all-groups" in options else groups
    left_out = [*options.get("--no-group", []), *(["dev"] if "--no-dev" in options else [])]
    return [group for group in dict.fromkeys(groups) if group not in left_out]


def _tool(arguments: list[str], place: Place, again: Again) -> Result:
    """`uvx --from 'x[y]' cmd`, `uvx ruff@0.4 check` and `uvx ruff==0.4 check`."""
    options, command = split_options(arguments, _VALUED)
    if not command:
        return Unfollowed("it names no tool")
    written, _, version = command[0].partition("@")
    name = re.split(r"[\[<>=!~]", written)[0]
    requirement = next(iter(options.get("--from", [])), written + (f"=={version}" if version and version != "latest" else ""))
    needed = [*names(options.get("--with", [])), *([] if name in _TOOLS else [requirement])]
    inner = again(shlex.join([name, *command[1:]]), place)
    packages = merge(Packages(requirements=tuple(one for one in needed if "://" not in one)), inner.packages)
    notes = tuple(f"{one[:80]} is fetched from elsewhere and left out" for one in needed if "://" in one)
    return replace(inner, packages=packages, notes=(*notes, *inner.notes))


def _values(options: dict[str, list[str]], *wanted: str) -> list[str]:
    return [value for name in wanted for value in options.get(name, [])]
