"""The operator's configuration of pip: its settings, and the package indexes that they name."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Mapping, Sequence

from sandbox.host import launch


async def configured_settings() -> dict[str, str]:
    """The settings of the worker's own pip; empty if it has none."""
    return await read_settings((sys.executable, "-I", "-m", "pip"), os.environ, ("download", "install")) or {}


async def read_settings(pip: Sequence[str], env: Mapping[str, str], commands: Sequence[str]) -> dict[str, str] | None:
    """pip's settings (option → value) with pip's own precedence; None if pip does not start.

    `pip` is the start of its argv. The environment overrides files, and a command's section overrides the global one.
    """
    ended = await launch.run(launch.Launch((*pip, "config", "list"), env, 30.0))
    if ended.returncode:
        return None
    found: dict[str, str] = {}
    lines = ended.stdout.decode(errors="replace").splitlines()
    for section in ("global", *commands, ":env:"):
        for line in lines:
            name, separator, value = line.partition("=")
            if separator and name.startswith(f"{section}."):
                found[name.removeprefix(f"{section}.")] = str(ast.literal_eval(value))
    return found


def indexes_of(settings: Mapping[str, str]) -> tuple[str, ...]:
    """The URLs of the indexes in pip's order: `index-url`, then each `extra-index-url`."""
    if settings.get("no-index", "").lower() in ("1", "true", "t", "yes", "y", "on"):
        return ()
    return tuple(dict.fromkeys((settings.get("index-url") or public_index(), *settings.get("extra-index-url", "").split())))


def public_index() -> str:
    """The URL of pip's default index."""
    from pip._internal.models.index import PyPI  # not a stable interface, but the only source of pip's default

    return str(PyPI.simple_url)


def public_files() -> str:
    """The host name of the files of pip's default index."""
    from pip._internal.models.index import PyPI

    return str(PyPI.file_storage_domain)
