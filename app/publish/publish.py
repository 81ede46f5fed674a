"""Publishes the result of an attempt on GitHub: branch, commit, pull request, check run, comment.

Every function is idempotent: if killed between two writes and run again, it finds its earlier writes and continues. People's
work is never undone: a branch with their commits is not moved, and a closed pull request stays closed.

GitHub's failures are raised as `app.github.GitHubError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Literal

import structlog

from agent.contract.outcome import NoRepair, Outcome, Repair
from agent.contract.proposal import FileChange
from agent.contract.question import Question
from app.github.errors import BranchTaken, Conflict, Forbidden, Invalid, NotFound
from app.github.repository import Repository
from app.github.types import CheckOutput, CheckReport, Commit, Conclusion, PullRequest, Status
from app.publish import messages
from app.publish.markdown import cut_bytes
from app.publish.messages import Publication
from app.publish.outcomes import OUTCOME_TEXTS
from app.publish.proof import in_one_line
from app.redaction import holds_secret, no_plain_words
from webhooks.triggers import BRANCH_PREFIX

log = structlog.get_logger()

LABEL = "selfheal"  # lets people filter for our pull requests


@dataclass(frozen=True, slots=True)
class Published:
    """A published repair."""

    number: int
    url: str
    branch: str
    state: Literal["open", "closed", "merged"]  # of the pull request


@dataclass(frozen=True, slots=True)
class _Branch:
    """A branch of ours; `head` is None if it does not exist."""

    name: str
    head: Commit | None
    pull: PullRequest | None


async def progress(publication: Publication, repository: Repository, step: str | None) -> None:
    """Show on the failing commit that the attempt is queued (`step=None`), or its current step."""
    title = "Queued" if step is None else messages.quoter(publication).line(step, 100)
    summary = messages.progress_summary(publication, step or "Waiting for a worker")
    await _report(publication, repository, "queued" if step is None else "in_progress", title, summary)


async def is_shown(publication: Publication, repository: Repository) -> bool:
    """Whether the failing commit shows the attempt. Raises `GitHubError`."""
    return await repository.find_check(messages.CHECK, publication.head_sha, _external_id(publication)) is not None


async def question(publication: Publication, asked: Question, repository: Repository) -> None:
    """Show on the failing commit a question and how to answer it, in a check run that is complete: the answer may take days."""
    summary = messages.question_summary(publication, asked)
    await _report(publication, repository, "completed", "Waiting for approval", summary)
    await _tell(publication, repository, messages.question_comment(publication, asked))


async def pull_request(publication: Publication, repair: Repair, repository: Repository) -> Published | NoRepair:
    """Open or update the draft pull request with the repair, and complete the check run.

    There is one pull request per head: a later attempt updates the open one, and a repair of a newer head of the branch closes
    those of older ones. Returns `NoRepair(superseded)` without publishing anything if the branch was deleted, or
    `NoRepair(refused)` if the repair contains a secret of this installation (then call `explanation`). Raises `GitHubError`;
    `Conflict` if the repair does not fit the commit or its branch contains other people's work.
    """
    if (path := _leaking_path(publication, repair)) is not None:
        return NoRepair(
            Outcome.REFUSED,
            f"The repair would write a secret of this Selfheal installation into {path}. Nothing was pushed.",
            "Ask the operator to replace the secret: the repair's author, a model or a tool, knows it.",
            repair.usage,
            repair.log,
        )
    branch = await _find_branch(publication, repository)
    if branch.pull is None and await repository.branch_head(publication.head_branch) is None:
        return NoRepair(
            Outcome.SUPERSEDED,
            "The branch was deleted before the pull request was opened.",
            OUTCOME_TEXTS[Outcome.SUPERSEDED].next_step,
            repair.usage,
            repair.log,
        )
    if branch.pull is not None and not _can_update(branch, publication):
        pull = branch.pull
    else:
        own = replace(publication, head_sha=await _commit(branch, publication, repair, repository))
        title, body = messages.title(publication, repair), messages.pull_body(publication, repair)
        try:
            pull = await repository.find_or_create_pull(branch.name, publication.head_branch, title, body)
        except (Forbidden, Invalid):
            if branch.pull is None:  # nothing would refer to the branch, and nobody would remove it
                await repository.remove_branch(branch.name, own.head_sha)
            raise
        await _close_replaced(pull, publication, repository)
        if all(label.name != LABEL for label in pull.labels):
            with _unless_refused():
                await repository.add_label(pull.number, LABEL)
        if publication.pull_author:
            with _unless_refused():
                await repository.request_review(pull, publication.pull_author)
        summary = messages.receipt_summary(publication, repair, pull.url)
        with _unless_refused():
            await _report(own, repository, "completed", in_one_line(repair.evidence), summary)
    summary = messages.healed_summary(publication, repair, pull.url)
    with _unless_refused():
        await _report(publication, repository, "completed", messages.healed_title(repair, pull.number), summary)
    await _tell(publication, repository, messages.healed_comment(publication, repair, pull.number, pull.url))
    return Published(pull.number, pull.url, branch.name, "merged" if pull.merged_at else pull.state)


async def close(pull: PullRequest, attempt_id: str, why: str, repository: Repository) -> None:
    """Close a pull request of ours, with `why` (a sentence) at the top of its text, and remove its branch.

    Raises `GitHubError`.
    """
    await repository.close_pull(pull.number, messages.closed_body(attempt_id, pull.body or "", why))
    await repository.remove_branch(pull.head.ref, pull.head.sha)


async def attempt_of(pull: PullRequest, repository: Repository) -> str | None:
    """The id of the attempt whose commit a pull request's branch ends with; None if people pushed there.

    Raises `GitHubError`.
    """
    return messages.attempt_in((await repository.commit(pull.head.sha)).message)


async def patch(publication: Publication, repair: Repair, refusal: str, repository: Repository) -> None:
    """Show a verified repair on the failing commit and in a comment, if GitHub refuses its pull request.

    Raises `GitHubError`.
    """
    summary = messages.patch_summary(publication, repair, refusal)
    await _report(publication, repository, "completed", messages.healed_title(repair, None), summary)
    await _tell(publication, repository, messages.patch_comment(publication, repair, refusal))


async def explanation(publication: Publication, result: NoRepair, repository: Repository) -> None:
    """Complete the check run with the outcome and log, and reply to the `/heal` comment if there is one.

    Without one, the author of the pull request is told only what is worth a notification. Raises `GitHubError`.
    """
    title, summary = messages.no_repair_title(publication, result), messages.no_repair_summary(publication, result)
    await _report(publication, repository, "completed", title, summary)
    text = messages.no_repair_comment(publication, result)
    await _tell(publication, repository, text, notify=messages.helps_the_author(result))


async def outdated(publication: Publication, why: str, repository: Repository) -> None:
    """Say on top of the report that nothing is left to do, and fold the rest; creates nothing and notifies nobody.

    `why`: one sentence. Raises `GitHubError`.
    """
    check = await repository.find_check(messages.CHECK, publication.head_sha, _external_id(publication))
    if check is not None and (former := (check.output and check.output.summary) or "") != (
        text := messages.folded(why, former)
    ):
        await _report(publication, repository, "completed", why.replace("`", ""), text)
    if publication.pull_number is not None:
        await repository.edit_comment(publication.pull_number, publication.comment_head, partial(messages.folded, why))


async def quota_refusal(pull_number: int, refusal: str, day: date, repository: Repository, pages_url: str = "") -> None:
    """Tell on a pull request that a quota refuses its commands, in one comment a day. Raises `GitHubError`."""
    text = messages.quota_comment(day, refusal, pages_url)
    await repository.find_or_create_comment(pull_number, messages.quota_marker(day), text)


async def refusal(pull_number: int, why: str, repository: Repository, page_url: str = "") -> None:
    """Tell on a pull request why its commands start nothing, in one comment. Raises `GitHubError`."""
    with _unless_refused():  # the conversation may be locked
        await repository.find_or_create_comment(pull_number, messages.REFUSAL, messages.refusal_comment(why, page_url))


def branch_name(publication: Publication, number: int = 1) -> str:
    """`<prefix><branch>-<short sha>`, with `-<number>` for a later attempt if the first name is taken."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", publication.head_branch).strip("-").lower()[:40].rstrip("-") or "branch"
    suffix = f"-{number}" if number > 1 else ""
    return f"{publication.branch_prefix}{slug}-{publication.head_sha[:8]}{suffix}"


def _leaking_path(publication: Publication, repair: Repair) -> str | None:
    """The first changed file whose name or new text contains a secret of this installation that was not in it before."""
    secrets = no_plain_words(publication.secrets)
    for change in repair.edits:
        is_old = holds_secret(change.before or "", secrets)
        if not is_old and holds_secret(f"{change.path}\n{change.after or ''}", secrets):
            return change.path
    return None


async def _find_branch(publication: Publication, repository: Repository) -> _Branch:
    """The branch for this attempt: the unnumbered one, or a numbered one if people changed the unnumbered one.

    Before a new one is made, an open pull request of this head is looked for under other names.
    """
    numbers = (1,) if publication.number == 1 else (1, publication.number)
    for number in numbers:
        branch = await _read_branch(branch_name(publication, number), repository)
        if _is_free(branch):
            return await _find_renamed(publication, repository) or branch
        if _can_update(branch, publication) or _is_published(branch, publication):
            return branch
    raise BranchTaken(f"the branch {branch.name} contains other people's work; it was not changed")


async def _find_renamed(publication: Publication, repository: Repository) -> _Branch | None:
    """The branch of an open pull request of this head that has another number, or the prefix of an earlier setting."""
    async for pull in repository.pulls_into(publication.head_branch):
        if publication.head_sha[:8] in pull.head.ref:
            branch = _Branch(pull.head.ref, await repository.commit(pull.head.sha), pull)
            if _can_update(branch, publication) or _is_published(branch, publication):
                return branch
    return None


async def _read_branch(name: str, repository: Repository) -> _Branch:
    sha = await repository.branch_head(name)
    head = await repository.commit(sha) if sha else None
    return _Branch(name, head, await repository.find_pull(name))


async def _close_replaced(pull: PullRequest, publication: Publication, repository: Repository) -> None:
    """Close our open pull requests for older commits of the branch, unless people pushed to them."""
    prefixes = (publication.branch_prefix, BRANCH_PREFIX)
    async for older in repository.pulls_into(publication.head_branch):
        if older.number >= pull.number or older.author or not older.head.ref.startswith(prefixes):
            continue
        if (attempt_id := await attempt_of(older, repository)) is not None:
            with _unless_refused():
                await close(older, attempt_id, f"Replaced by #{pull.number}.", repository)


def _is_free(branch: _Branch) -> bool:
    return branch.head is None and branch.pull is None


def _is_published(branch: _Branch, publication: Publication) -> bool:
    return branch.pull is not None and messages.pull_marker(publication.attempt_id) in (branch.pull.body or "")


def _can_update(branch: _Branch, publication: Publication) -> bool:
    """Whether the branch has only our single commit on the failing head, and its pull request is not closed."""
    head, only = branch.head, [publication.head_sha]
    ours = head is not None and [parent.sha for parent in head.parents] == only and messages.is_ours(head.message)
    return (ours or _is_free(branch)) and (branch.pull is None or branch.pull.state == "open")


async def _commit(branch: _Branch, publication: Publication, repair: Repair, repository: Repository) -> str:
    """Commit the repair on top of the failing head, unless the branch has that content already; returns the commit's sha."""
    files = {change.path: await _new_text(change, publication.head_sha, repository) for change in repair.edits}
    tree = await repository.create_tree(publication.head_sha, files)
    if branch.head is not None and branch.head.tree.sha == tree:
        return branch.head.sha
    sha = await repository.create_commit(publication.head_sha, tree, messages.commit_message(publication, repair))
    if branch.head is not None:
        await repository.move_branch(branch.name, sha)
        return sha
    try:
        await repository.create_branch(branch.name, sha)
    except Conflict:
        # The last request of a dead worker may arrive after our read.
        branch = await _read_branch(branch.name, repository)
        if branch.head is None or not _can_update(branch, publication):
            raise
        return await _commit(branch, publication, repair, repository)
    return sha


async def _new_text(change: FileChange, head_sha: str, repository: Repository) -> str | None:
    """The file's text after the change, as it is written to the commit.

    An archive's bytes can differ from the commit's (Git attributes convert line endings or fill in placeholders). The commit's
    line endings are restored; any other difference is a `Conflict`.
    """
    base = await repository.file(change.path, head_sha)
    if change.before is None:
        if base is not None:
            raise Conflict(f"{change.path} exists at the commit, though the repair creates it")
        return change.after
    try:
        current = None if base is None else base.decode()
    except UnicodeDecodeError:
        current = None
    if current is None or _unix(current) != _unix(change.before):
        raise Conflict(f"{change.path} differs between the commit and the repaired code")
    if change.after is None or current == change.before:
        return change.after
    return _unix(change.after).replace("\n", "\r\n") if "\r\n" in current else _unix(change.after)


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n")


async def _report(
    publication: Publication,
    repository: Repository,
    status: Status,
    title: str,
    summary: str,
) -> None:
    """The conclusion is always `neutral`: on a red commit, `success` would deceive, and any other could block a merge."""
    output = CheckOutput(title, cut_bytes(summary, messages.CHECK_LIMIT))
    conclusion: Conclusion | None = "neutral" if status == "completed" else None
    details_url = publication.page_url or None
    external_id = _external_id(publication)
    report = CheckReport(messages.CHECK, publication.head_sha, external_id, status, output, conclusion, details_url)
    await repository.report_check(report)


def _external_id(publication: Publication) -> str:
    return "-".join(part for part in (publication.attempt_id, publication.answered) if part)


async def _tell(publication: Publication, repository: Repository, text: str, *, notify: bool = True) -> None:
    """Reply to the `/heal` comment. Without one, keep one comment on the pull request up to date, if its author wants that.

    `notify`: create that comment if it is missing; editing one notifies nobody.
    """
    if publication.pull_number is None:
        return
    with _unless_refused():  # the conversation may be locked
        if publication.by_command or (publication.tells_author and notify):
            await repository.find_or_create_comment(publication.pull_number, publication.comment_marker, text)
        elif publication.tells_author:
            await repository.edit_comment(publication.pull_number, publication.comment_marker, lambda _: text)


@contextmanager
def _unless_refused() -> Iterator[None]:
    """For what stands beside a result that is already on GitHub: its refusal must not take the result back.

    GitHub also refuses by 404 (a person without access) and by 410 (issues are turned off).
    """
    try:
        yield
    except (Forbidden, Invalid, NotFound) as error:
        log.warning("not written beside the result", error=str(error))
