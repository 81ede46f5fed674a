"""Says that a lock file is out of date, and what makes it anew: that needs the package index, which no command here can reach.

Pure. Nothing is guessed into a lock: its hashes are what others trust.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# What the tools say → the file, and the command that mends it.
_SAID = (
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


def remarks(hints: Iterable[str]) -> list[str]:
    """One sentence for the first lock file that the failing job's log calls out of date."""
    told = "\n".join(hints)
    for pattern, file, command in _SAID:
        if pattern.search(told):
            return [f"{file} is out of date, and making it anew needs the package index; run `{command}` and commit the result"]
    return []
