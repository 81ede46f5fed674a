"""Builds shell text: commands with an environment and a folder of their own, one after the other."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from agent.ci.project.install_commands import merge
from agent.ci.runners.context import Followed, ShellContext


def subshell(text: str, env: Mapping[str, str], cwd: str | None) -> str:
    """`text` with its own environment and folder, which do not affect the commands around it."""
    if not env and cwd is None:
        return text
    opening = ["("]
    if cwd is not None:
        opening.append(f"cd {shlex.quote(cwd)}")
    opening += [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    return "\n".join([*opening, text, ")"])


def isolated(followed: Followed, context: ShellContext) -> str:
    """The command of `followed` as text that can be run in `context` and changes nothing for the commands after it."""
    same_folder = posixpath.normpath(context.cwd) == posixpath.normpath(followed.cwd)
    cwd = None if same_folder else posixpath.relpath(followed.cwd, context.cwd)
    text = subshell(followed.command, context.added(followed.env), cwd)
    changes_shell = re.search(r"(?:^|[;&|]\s*)(?:cd|export|set|exit|unset)\b", text, re.MULTILINE)
    return grouped(text) if changes_shell else text


def grouped(text: str) -> str:
    """`text` as one command with a shell of its own."""
    is_group = text.startswith("(\n") and text.endswith("\n)") and "\n)\n" not in text
    return text if is_group else f"(\n{text}\n)"


def joined(parts: Sequence[Followed], context: ShellContext, notes: Iterable[str]) -> Followed:
    """Several commands, one after the other, each with its own environment and folder."""
    packages = merge(*(part.packages for part in parts))
    python = next((part.python for part in parts if part.python), None)
    notes = dict.fromkeys([*notes, *(note for part in parts for note in part.notes)])
    running = [part for part in parts if part.command]
    if len(running) == 1:
        return Followed(running[0].command, packages, {**context.env, **running[0].env}, running[0].cwd, python, tuple(notes))
    return context.result("\n".join(isolated(part, context) for part in running), packages, python, notes)
