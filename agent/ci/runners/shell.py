"""Puts shell text together: text with an environment and a folder of its own. `agent.ci.shell` takes it apart."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping


def subshell(text: str, env: Mapping[str, str], cwd: str | None) -> str:
    """`text` with its own environment and folder, as text that leaves those of its surroundings alone."""
    if not env and cwd is None:
        return text
    opening = ["("]
    if cwd is not None:
        opening.append(f"cd {shlex.quote(cwd)}")
    opening += [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    return "\n".join([*opening, text, ")"])


def from_folder(cwd: str, wanted: str) -> str | None:
    """How a folder is written from another one; None where they are the same."""
    return None if posixpath.normpath(cwd) == posixpath.normpath(wanted) else posixpath.relpath(wanted, cwd)
