"""What came out of an attempt, put on GitHub: branch, commit, pull request, check run, comment.

Every function may be killed between any two writes and run again: it finds what it wrote and goes on from there. Nothing that
a person did is undone: a branch that holds somebody's commits is not moved, a pull request that was closed stays closed.

Failures of GitHub leave as `app.github.GitHubError`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from agent.contract.outcome import NoRepair, Outcome, Repair
from agent.contract.proposal import FileChange
from agent.question import Question
from app.endings import ENDINGS
from app.github import Conflict, Repository
from app.github.types import CheckReport, Commit, FileWrite, NewCommit, NewPull, PullRequest
from app.publish import messages
from app.publish.messages import Publication
from webhooks.triggers import OWN_BRANCHES

CHECK = "Selfheal"
LABEL = "selfheal"  # of our pull requests, so that people can list them, and leave them out of a list


@dataclass(frozen=True, slots=True)
class Published:
    """Where a repair is now."""

    number: int
    url: str
    branch: str
    commit_sha: str
    state: Literal["open", "closed", "merged"]  # of the pull request


@dataclass(frozen=True, slots=True)
class _Place:
    """A branch of ours as it stands: its head is None while it does not exist."""

    branch: str
    head: Commit | None
    pull: PullRequest | None


async def progress(publication: Publication, repository: Repository, step: str | None) -> None:
    """Show on the failing commit that the attempt is queued (`step=None`) or what it is doing now."""
    await repository.report_check(
        CheckReport(
            name=CHECK,
            head_sha=publication.head_sha,
            external_id=publication.attempt_id,
            status="queued" if step is None else "in_progress",
            title="Queued" if step is None else messages.quoter(publication).line(step, 100),
            summary=messages.progress_summary(publication, step or "waiting for a worker"),
            details_url=publication.details_url,
        )
    )


async def question(publication: Publication, asked: Question, repository: Repository) -> None:
    """Show on the failing commit what a person is asked, and how they answer."""
    await repository.report_check(
        CheckReport(
            name=CHECK,
            head_sha=publication.head_sha,
            external_id=publication.attempt_id,
            status="in_progress",
            title="Waiting for a person",
            summary=messages.question_summary(publication, asked),
            details_url=publication.details_url,
        )
    )


async def pull_request(publication: Publication, repair: Repair, repository: Repository) -> Published | NoRepair:
    """Open (or find) the draft pull request that carries the repair, and end the check run with it.

    One pull request per head: a further attempt of the same head renews the one that is open. `NoRepair(superseded)` when the
    branch is gone meanwhile (nothing is published then: call `explanation`). Raises `GitHubError`; `Conflict` when the repair
    does not fit the commit or its branch holds other people's work.
    """
    place = await _place(publication, repository)
    if place.pull is None and await repository.branch_head(publication.head_branch) is None:
        return NoRepair(
            Outcome.SUPERSEDED,
            "The branch was deleted before the repair could be proposed.",
            ENDINGS[Outcome.SUPERSEDED].next_step,
            repair.usage,
            repair.log,
        )
    if place.pull is not None and not _may_renew(place, publication):
        pull, commit = place.pull, place.pull.head_sha
    else:
        commit = await _commit(place, publication, repair, repository)
        pull = await repository.find_or_create_pull(
            NewPull(
                title=messages.title(publication, repair),
                body=messages.pull_body(publication, repair),
                head=place.branch,
                base=publication.head_branch,
            )
        )
        if LABEL not in pull.labels:
            await repository.add_label(pull.number, LABEL)
    summary = messages.healed_summary(publication, repair, pull.url)
    await _conclude(publication, repository, Outcome.HEALED, summary)
    await _answer(publication, repository, messages.healed_comment(publication, pull.number, pull.url))
    return Published(pull.number, pull.url, place.branch, commit, "merged" if pull.merged else pull.state)


async def explanation(publication: Publication, result: NoRepair, repository: Repository) -> None:
    """End the check run with the outcome's sentence and log; answer the person who asked by a command, nobody else.

    Raises `GitHubError`.
    """
    await _conclude(publication, repository, result.outcome, messages.no_repair_summary(publication, result))
    await _answer(publication, repository, messages.no_repair_comment(publication, result))


def branch_name(publication: Publication, number: int = 1) -> str:
    """`selfheal/<branch>-<short sha>`, with `-<number>` for a further attempt whose predecessor's place is taken."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", publication.head_branch).strip("-").lower()[:40].rstrip("-") or "branch"
    suffix = f"-{number}" if number > 1 else ""
    return f"{OWN_BRANCHES}{slug}-{publication.head_sha[:8]}{suffix}"


async def _place(publication: Publication, repository: Repository) -> _Place:
    """The branch for this attempt: the head's own, or a numbered one where a person has done something to that."""
    numbers = (1,) if publication.number == 1 else (1, publication.number)
    for number in numbers:
        branch = branch_name(publication, number)
        place = await _look(branch, repository)
        if _free(place) or _may_renew(place, publication) or _is_published(place, publication):
            return place
    raise Conflict(f"the branch {branch} holds work that is not this attempt's; it was not touched")


async def _look(branch: str, repository: Repository) -> _Place:
    sha = await repository.branch_head(branch)
    head = await repository.commit(sha) if sha else None
    return _Place(branch, head, await repository.find_pull(branch))


def _free(place: _Place) -> bool:
    return place.head is None and place.pull is None


def _is_published(place: _Place, publication: Publication) -> bool:
    return place.pull is not None and messages.pull_marker(publication.attempt_id) in place.pull.body


def _may_renew(place: _Place, publication: Publication) -> bool:
    """Only our own single commit on the failing head stands there, and nobody closed its pull request."""
    ours = place.head is not None and place.head.parents == (publication.head_sha,) and messages.is_ours(place.head.message)
    return (ours or _free(place)) and (place.pull is None or place.pull.state == "open")


async def _commit(place: _Place, publication: Publication, repair: Repair, repository: Repository) -> str:
    """Sha of the branch's one commit on top of the failing head; the one that is there, when it has the same content."""
    files = tuple([await _fitted(change, publication.head_sha, repository) for change in repair.edits])
    tree = await repository.create_tree(publication.head_sha, files)
    if place.head is not None and place.head.tree == tree:
        return place.head.sha
    new = NewCommit(publication.head_sha, tree, messages.commit_message(publication, repair))
    sha = await repository.create_commit(new)
    if place.head is not None:
        await repository.move_branch(place.branch, sha)
        return sha
    try:
        await repository.create_branch(place.branch, sha)
    except Conflict:
        # The last request of a worker that died may arrive after we looked.
        place = await _look(place.branch, repository)
        if place.head is None or not _may_renew(place, publication):
            raise
        return await _commit(place, publication, repair, repository)
    return sha


async def _fitted(change: FileChange, head_sha: str, repository: Repository) -> FileWrite:
    """The change as a write to the file that the commit really has.

    An archive may hold other bytes than the commit (line ends converted by attributes, placeholders filled in): line ends are
    put back as they are in the commit, any other difference is a `Conflict`.
    """
    base = await repository.file(change.path, head_sha)
    if change.before is None:
        if base is not None:
            raise Conflict(f"{change.path} exists at the commit, though the repair creates it")
        return FileWrite(change.path, change.after)
    try:
        stands = None if base is None else base.decode()
    except UnicodeDecodeError:
        stands = None
    if stands is None or _unix(stands) != _unix(change.before):
        raise Conflict(f"{change.path} differs between the commit and the code that was repaired")
    if change.after is None or stands == change.before:
        return FileWrite(change.path, change.after)
    return FileWrite(change.path, _unix(change.after).replace("\n", "\r\n") if "\r\n" in stands else _unix(change.after))


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")


async def _conclude(publication: Publication, repository: Repository, outcome: Outcome, summary: str) -> None:
    ending = ENDINGS[outcome]
    await repository.report_check(
        CheckReport(
            name=CHECK,
            head_sha=publication.head_sha,
            external_id=publication.attempt_id,
            status="completed",
            conclusion=ending.conclusion,
            title=ending.sentence,
            summary=summary,
            details_url=publication.details_url,
        )
    )


async def _answer(publication: Publication, repository: Repository, text: str) -> None:
    if publication.by_command and publication.pull_number is not None:
        marker = messages.comment_marker(publication.attempt_id)
        await repository.find_or_create_comment(publication.pull_number, marker, text)
