"""The newest version tag, for builds that derive the version from tags (setuptools-scm, hatch-vcs, versioneer)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

from app.github.errors import BadCredentials, GitHubError, RateLimited
from app.github.repository import Repository

# `actions/checkout` fetches tags only if asked to. A called workflow or action can do it too.
_FETCHES = re.compile(rb"fetch-depth|fetch-tags|fetch\b.*--tags|--unshallow|uses:\s*[\"']?\./")
_VERSION = re.compile(r"(?:[\w-]{1,60}-)?[vV]?(\d+(?:\.\d+)*[\w.-]{0,40})(?:\+.*)?", re.ASCII)  # as setuptools-scm reads tags


async def newest_tag(workflows: Iterable[bytes | None], repository: Repository) -> str:
    """The tag with the highest version, if one of the workflows fetches tags; else "".

    Which tags the commit contains, GitHub does not tell in one request; the version that a build derives is rarely checked.
    Raises `RateLimited` and `BadCredentials`, which postpone an attempt.
    """
    if not any(_FETCHES.search(text) for text in workflows if text is not None):
        return ""
    try:
        tags = await repository.tags()
    except (RateLimited, BadCredentials):
        raise
    except GitHubError:
        return ""
    versions = [(version, tag) for tag in tags if (version := _version(tag)) is not None]
    return max(versions)[1] if versions else ""


def _version(tag: str) -> Version | None:
    match = _VERSION.fullmatch(tag)
    try:
        return Version(match[1]) if match else None
    except InvalidVersion:
        return None
