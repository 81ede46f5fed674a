"""The last commit that passed CI before the failing one, and the difference from it, as GitHub tells them.

Only reads, and never ends an attempt: if GitHub cannot tell, no good commit is known, and a note says why.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from agent.contract import words
from agent.contract.last_good import MESSAGES, ChangedFile, LastGood
from app.github.errors import BadCredentials, GitHubError, NotFound, RateLimited, TooLarge
from app.github.repository import MIB, Repository
from app.github.types import MOST_COMPARED, ComparedFile, Comparison, WorkflowRun

_MOST_FETCHED = 20  # files whose patch GitHub leaves out: pictures and recorded data
_LARGEST = 4 * MIB  # of these files
_MOST_COMPARED_RUNS = 2  # if the newest passed run is of a later commit than the failing one
_ONE_LINE = re.compile(r"@@ -1 \+0,0 @@\n-([^\n]*)\n\\ [^\n]*\n?")
_SUBMODULE = re.compile(r"@@ [^\n]* @@(?:\n[-+]Subproject commit [0-9a-f]{40,64})+")


@dataclass(frozen=True, slots=True)
class _Base:
    """A commit to compare with: `name` for people, and the difference from it."""

    sha: str
    name: str
    passed_in_ci: bool
    comparison: Comparison


class _Unknown(Exception):
    """The difference is not known; the message is a sentence."""


async def find_last_good(
    sha: str, branch: str, runs: Collection[WorkflowRun], base_branch: str, repository: Repository
) -> tuple[tuple[LastGood, ...], tuple[str, ...]]:
    """The last good commit before `sha`, the head of `branch`, at most one; and notes for people.

    It is the newest ancestor with a green run of the failing workflow on the branch, else the merge base with `base_branch`,
    the base of its pull request or the default branch. Usually two or three requests. Raises `RateLimited`, `BadCredentials`,
    which postpone an attempt.
    """
    try:
        base = await _passed_ancestor(sha, branch, runs, repository) if runs else None
        base = base or await _fork_point(sha, branch, base_branch, repository)
        if base is None:
            return (), ()
        files, unread = await _changed_files(base, repository)
        if unread and not files:
            raise _Unknown(f"GitHub does not tell the old content of {words.named(unread)}")
        messages = "\n".join(each.commit.message for each in base.comparison.commits)[:MESSAGES]
        return (LastGood(base.name, files, base.passed_in_ci, unread, messages=messages, sha=base.sha),), ()
    except (RateLimited, BadCredentials):
        raise
    except NotFound:
        return (), ()  # no common ancestor, or no such commit or branch any more
    except (_Unknown, GitHubError) as error:
        return (), (f"What changed since the last good commit is not known: {f'{error}'.rstrip('.')}.",)


async def _passed_ancestor(sha: str, branch: str, runs: Collection[WorkflowRun], repository: Repository) -> _Base | None:
    """The newest commit before `sha` on its branch that passed the workflow of the first failing run."""
    failing = next(iter(runs))
    try:
        listed = await repository.passed_runs(failing, branch)
    except NotFound:
        return None
    if any(run.head_sha == sha for run in listed):
        raise _Unknown("this very commit passed the same workflow before, so no change of the code broke it")
    # Later runs of a workflow have higher numbers. They can still be of earlier commits, but then nobody waits for this one.
    candidates = dict.fromkeys(run.head_sha for run in listed if run.number < failing.number and run.head_sha != sha)
    for candidate in list(candidates)[:_MOST_COMPARED_RUNS]:
        try:
            comparison = await repository.compare(candidate, sha)
        except NotFound:
            continue  # a force push removed it
        if comparison.merge_base.sha == candidate:
            return _Base(candidate, f"the last commit that passed CI (`{candidate[:10]}`)", True, comparison)
    return None


async def _fork_point(sha: str, branch: str, base_branch: str, repository: Repository) -> _Base | None:
    """Where the branch left its base."""
    if branch == base_branch:
        return None
    comparison = await repository.compare(base_branch, sha)
    point = comparison.merge_base.sha
    if point == sha:
        return None  # the base contains the commit
    base = "default branch" if base_branch == repository.ref.default_branch else "pull request's base"
    return _Base(point, f"the merge base with the {base} (`{point[:10]}`)", False, comparison)


async def _changed_files(base: _Base, repository: Repository) -> tuple[tuple[ChangedFile, ...], tuple[str, ...]]:
    """Every file that changed, and further ones whose old content GitHub does not give. Raises `_Unknown` if more changed."""
    if not base.comparison.is_whole:
        raise _Unknown(f"{MOST_COMPARED} or more files changed since {base.name}")
    found: list[ChangedFile] = []
    unread: list[str] = []
    fetched = 0
    for file in base.comparison.files:
        if file.status == "unchanged":
            continue
        if _SUBMODULE.fullmatch(file.patch or ""):
            unread.append(file.path)  # its files are in another repository
            continue
        if file.status in ("added", "copied"):
            found.append(ChangedFile(file.path))
            continue
        old_path = file.old_path or file.path
        if _must_be_fetched(file):
            fetched += 1
            content = await _content(old_path, base.sha, repository) if fetched <= _MOST_FETCHED else None
            if content is None or _was_link(file, content):
                unread += dict.fromkeys((old_path, file.path))  # the new half of a renamed file stays too
                continue
            found.append(ChangedFile(old_path, content))
        elif old_path != file.path:
            found.append(ChangedFile(old_path, patch=file.patch or "", renamed_to=file.path))
        else:
            found.append(ChangedFile(file.path, patch=file.patch))
        if old_path != file.path:
            found.append(ChangedFile(file.path))
    return tuple(found), tuple(unread)


def _was_link(file: ComparedFile, content: bytes) -> bool:
    """Whether it was a link: GitHub returns the content of the file that it led to, but its patch removes the target's name.

    https://docs.github.com/rest/repos/contents#get-repository-content
    """
    line = _ONE_LINE.fullmatch(file.patch or "")
    return line is not None and line[1].encode() != content


def _must_be_fetched(file: ComparedFile) -> bool:
    """Whether only the old file shows what changed. One that was only renamed has no patch either."""
    if file.patch is None:
        return file.status != "renamed" or file.changes > 0
    if file.status == "removed" and _ONE_LINE.fullmatch(file.patch):
        return True  # it may have been a link, whose content is its target
    # "Some portions of a limited diff may be displayed": a patch that was cut has fewer lines.
    return sum(line.startswith(("+", "-")) for line in file.patch.split("\n")) != file.changes


async def _content(path: str, sha: str, repository: Repository) -> bytes | None:
    """None if it is not a regular file, or too large."""
    try:
        return await repository.file(path, sha, limit=_LARGEST)
    except TooLarge:
        return None
