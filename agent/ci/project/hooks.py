"""Reads `.pre-commit-config.yaml` as shell commands, without pre-commit's own environments, which need git to fetch them.

Supports the hooks whose tool can be installed as a package, at the version that the file pins. Pure: text in, shell text out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from agent.ci.project.tables import Table, strings, tables
from sandbox.base import KIB

PATH = ".pre-commit-config.yaml"
SIZE_LIMIT = 64 * KIB
# Hook → its package, and the command that checks all files without writing.
_KNOWN = {
    "ruff": ("ruff", "ruff check {args} ."),
    "ruff-check": ("ruff", "ruff check {args} ."),
    "ruff-format": ("ruff", "ruff format --check {args} ."),
    "black": ("black", "black --check {args} ."),
    "isort": ("isort", "isort --check-only {args} ."),
    "flake8": ("flake8", "flake8 {args} ."),
    "autoflake": ("autoflake", "autoflake --check --recursive {args} ."),
}
_WRITES = ("--fix", "--in-place", "-i", "--exit-non-zero-on-fix", "--remove-all-unused-imports=false")


@dataclass(frozen=True, slots=True)
class Hooks:
    """`command` runs all known hooks and fails when one does; "" when none is known."""

    command: str
    installs: tuple[str, ...]  # requirements
    left_out: tuple[str, ...]  # ids of hooks that cannot be run here


def read_hooks(text: str, only: str = "") -> Hooks:
    """The hooks of a configuration file, or the one named `only`."""
    parts: list[str] = []
    installs: list[str] = []
    left_out: list[str] = []
    for revision, hook in _hooks(text):
        name = str(hook.get("id") or "")
        if only and name != only:
            continue
        package, template = _KNOWN.get(name, ("", ""))
        # A command on all files would check files that the hook skips.
        if package and not (hook.get("files") or hook.get("exclude") or hook.get("stages")):
            arguments = [word for word in strings(hook.get("args")) if word not in _WRITES]
            parts.append(" ".join(template.format(args=shlex.join(arguments)).split()))
            installs.append(package + (f"=={revision}" if revision else ""))
        elif not revision and hook.get("language") == "system" and hook.get("pass_filenames") is False:
            parts.append(" ".join([str(hook.get("entry") or "true"), shlex.join(strings(hook.get("args")))]).strip())
        else:
            left_out.append(name)
    if len(parts) > 1:
        # All hooks run and report, as in pre-commit.
        lines = ["status=0", *(f"{part} || status=1" for part in parts), "exit $status"]
        return Hooks("\n".join(lines), tuple(dict.fromkeys(installs)), tuple(left_out))
    return Hooks("".join(parts), tuple(installs), tuple(left_out))


def _hooks(text: str) -> Iterator[tuple[str, Table]]:
    """Each hook with its repository's version ("" for the repository's own hooks)."""
    try:
        # Aliases can expand without limit.
        if len(text) > SIZE_LIMIT or any(
            isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader)
        ):
            return
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return
    if not isinstance(content, dict) or content.get("exclude") or content.get("files"):
        return
    for repository in tables(content.get("repos")):
        version = re.fullmatch(r"v?(\d+(?:\.\d+)*)(?:-\d+)?", str(repository.get("rev") or ""))
        for hook in tables(repository.get("hooks")):
            yield version[1] if version else "", hook
