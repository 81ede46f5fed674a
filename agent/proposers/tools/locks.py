"""Reports outdated lock files and the command that regenerates them: that needs the package index, out of the sandbox's reach.

Pure. Never edits a lock: others trust its hashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# The tools' messages → the file, and the command that regenerates it.
_MESSAGES = (
    (
        re.compile(r"lockfile at `?uv\.lock`? needs to be updated|uv\.lock.{0,40}needs to be updated", re.I),
        "uv.lock",
        "uv lock",
    ),
    (
        re.compile(
            r"pyproject\.toml changed significantly since poetry\.lock|poetry\.lock is not (?:up to date|consistent)", re.I
        ),
        "poetry.lock",
        "poetry lock",
    ),
    (
        re.compile(r"pdm\.lock.{0,60}(?:out of date|hash doesn't match)|Lock file hash doesn't match", re.I),
        "pdm.lock",
        "pdm lock",
    ),
    (re.compile(r"Pipfile\.lock \(\w+\) out of date", re.I), "Pipfile.lock", "pipenv lock"),
    (
        re.compile(r"package\.json and package-lock\.json.{0,60}are (?:not )?in sync", re.I),
        "package-lock.json",
        "npm install --package-lock-only",
    ),
    (re.compile(r"ERR_PNPM_OUTDATED_LOCKFILE", re.I), "pnpm-lock.yaml", "pnpm install --lockfile-only"),
    (
        re.compile(r"lockfile would have been modified by this install|lockfile needs to be updated", re.I),
        "yarn.lock",
        "yarn install",
    ),
    (re.compile(r"Cargo\.lock.{0,80}needs to be updated but --locked", re.I), "Cargo.lock", "cargo update --workspace"),
)


def notes(hints: Iterable[str]) -> list[str]:
    """One note on the first lock file that the failing job's log calls out of date."""
    text = "\n".join(hints)
    for pattern, file, command in _MESSAGES:
        if pattern.search(text):
            return [f"{file} is out of date and regenerating it needs the package index; run `{command}` and commit the result"]
    return []
