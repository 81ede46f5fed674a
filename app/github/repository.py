"""One repository: reads, and writes that look for an existing object before they create one.

A repeated request would duplicate four kinds of objects, so these are looked up first: a branch and a pull request by the
branch's name, a comment by its author and the hidden marker in its text, a check run by its external id. Unreferenced
duplicates of blobs, trees and commits are harmless, and all other writes are idempotent.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from itertools import accumulate
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from agent.ci.job.contexts import web_address
from app.github.channel import Channel
from app.github.errors import BranchTaken, Conflict, Forbidden, GitHubError, Invalid, NotFound, TooLarge, TooSlow, Unavailable
from app.github.retries import find_or_create
from app.github.types import (
    CheckReport,
    CheckRun,
    CheckSuite,
    Collaborator,
    Comment,
    Commit,
    CommitStatus,
    Comparison,
    Encoded,
    Job,
    LfsAnswer,
    Link,
    Object,
    Permission,
    PullRequest,
    Reaction,
    RecentRuns,
    Reference,
    Tag,
    Tree,
    TreeEntry,
    WorkflowRun,
    WorkflowRuns,
    parsed,
)
from webhooks.events import GitHubApp
from webhooks.intake import RepositoryRef
from webhooks.triggers import DYNAMIC, FAILING

MIB = 1024 * 1024
ACTIONS = "github-actions"
_UPDATE_FAILED = "reference update failed"
_MOST_TAGS = 1000
_MOST_CHECKS = 1000  # whose ids are kept


_REGULAR = ("100644", "100755")


class Repository:
    """One repository through one channel. Every method raises `GitHubError`.

    Reads are retried. `fence` is called right before each write and prevents it by raising an exception, because GitHub cannot
    tell whether a worker still owns its attempt. `optional`: a write that would have to wait for others is refused with
    `RateLimited`.
    """

    def __init__(
        self,
        channel: Channel,
        ref: RepositoryRef,
        app_id: int,
        fence: Callable[[], None] | None = None,
        channel_of: Callable[[str], Channel] | None = None,
        *,
        optional: bool = False,
        made: dict[tuple[str, str], CheckRun] | None = None,
    ) -> None:
        """`channel_of` opens a channel to another repository of the same installation, by its name.

        `made`: our newest check runs, by commit and external id, as GitHub may not list them at once.
        """
        self.ref = ref
        self._channel, self._app_id, self._fence, self._optional = channel, app_id, fence, optional
        self._channel_of = channel_of
        self._made = {} if made is None else made
        self._path = f"/repos/{quote(ref.full_name)}"

    @property
    def api_url(self) -> str:
        return self._channel.api_url

    @property
    def web_url(self) -> str:
        """Of this GitHub, "https://github.com"."""
        return web_address(self._channel.api_url)

    async def run(self, run_id: int) -> WorkflowRun:
        return parsed(WorkflowRun, await self._channel.get(f"{self._path}/actions/runs/{run_id}"))

    async def runs(self, head_sha: str) -> tuple[WorkflowRun, ...] | None:
        """The latest attempt of each workflow run of a commit but GitHub's own; none where this GitHub has no Actions.

        None if the installation does not grant to read them.
        """
        listing = self._channel.listing(f"{self._path}/actions/runs", "workflow_runs", head_sha=head_sha)
        try:
            runs = [parsed(WorkflowRun, item) async for item in listing]
        except NotFound:  # an Enterprise server; if the repository itself is gone, the next request tells
            return ()
        except Forbidden as error:
            if error.is_of_token:
                return None
            raise
        return tuple(run for run in runs if run.event != DYNAMIC)

    async def recent_runs(self, conclusion: str, since: datetime) -> RecentRuns:
        """The newest 100 workflow runs that were created since then and whose latest attempt ended so."""
        path = f"{self._path}/actions/runs"
        wanted = {"status": conclusion, "created": _since(since), "exclude_pull_requests": "true"}
        return parsed(RecentRuns, await self._channel.get(path, **wanted, per_page=100))

    async def failed_queues(self, since: datetime) -> tuple[str, ...]:
        """The branches of the newest 20 runs in GitHub's merge queue that were created since then and failed, such as
        "gh-readonly-queue/main/pr-7-0123…"."""
        wanted = {"event": "merge_group", "status": "failure", "created": _since(since), "exclude_pull_requests": "true"}
        runs = parsed(WorkflowRuns, await self._channel.get(f"{self._path}/actions/runs", **wanted, per_page=20)).workflow_runs
        return tuple(run.head_branch for run in runs if run.head_branch)

    async def passed_runs(self, run: WorkflowRun, branch: str) -> tuple[WorkflowRun, ...]:
        """The newest successful runs of the run's workflow on a branch of this repository; at most 20 are read."""
        path = f"{self._path}/actions/workflows/{run.workflow_id}/runs"
        answer = await self._channel.get(path, branch=branch, status="success", exclude_pull_requests="true", per_page=20)
        runs = parsed(WorkflowRuns, answer).workflow_runs
        # A fork's branch may have the same name.
        return tuple(each for each in runs if each.head_repository is not None and each.head_repository.id == self.ref.id)

    async def compare(self, base: str, head: str) -> Comparison:
        """What changed from the merge base of two refs to `head`. Raises `NotFound` also if they have no common ancestor."""
        # With a parameter for pages, GitHub would list the oldest commits, and not the newest.
        path = f"{self._path}/compare/{quote(base, safe='')}...{quote(head, safe='')}"
        return parsed(Comparison, await self._channel.get(path))

    async def tags(self) -> tuple[str, ...]:
        """The names of up to 1,000 tags, in GitHub's order (by name, descending: v9 comes before v10)."""
        found: list[str] = []
        async for item in self._channel.listing(f"{self._path}/tags"):
            found.append(parsed(Tag, item).name)
            if len(found) == _MOST_TAGS:
                break
        return tuple(found)

    async def failed_jobs(self, run: WorkflowRun) -> tuple[Job, ...]:
        """The failed jobs of the run's latest attempt."""
        listing = self._channel.listing(f"{self._path}/actions/runs/{run.id}/jobs", "jobs", filter="latest")
        jobs = [parsed(Job, item) async for item in listing]
        return tuple(job for job in jobs if job.conclusion in FAILING)

    async def other_checks(self, head_sha: str, *, with_actions: bool = False) -> tuple[CheckRun, ...]:
        """The check runs of a commit by other services than GitHub Actions (see `runs`); never ours."""
        listing = self._channel.listing(f"{self._path}/commits/{head_sha}/check-runs", "check_runs", filter="latest")
        checks = [parsed(CheckRun, item) async for item in listing]
        return tuple(check for check in checks if not self._is_ours(check.app) and (with_actions or check.service != ACTIONS))

    async def statuses(self, head_sha: str) -> tuple[CommitStatus, ...] | None:
        """The newest commit status of each name; None if the installation does not grant to read them."""
        try:
            listing = self._channel.listing(f"{self._path}/commits/{head_sha}/status", "statuses")
            return tuple([parsed(CommitStatus, item) async for item in listing])
        except Forbidden as error:
            if error.is_of_token:
                return None
            raise

    async def job_log(self, job_id: int, limit: int) -> str:
        """The log of one job, cut in the middle to `limit` bytes, with a line that says how much is missing.

        Raises `NotFound` once it has expired, `TooSlow`, and other errors with a `download_host` if that fails.
        """
        try:
            async with asyncio.timeout(self._channel.retry_policy.download):
                async with self._channel.download(f"{self._path}/actions/jobs/{job_id}/logs") as response:
                    return await _head_and_tail(response.aiter_raw(), limit)
        except TimeoutError as error:
            raise TooSlow(f"the log of job {job_id} took too long") from error

    async def archive(self, ref: str, limit: int = 512 * MIB) -> AsyncIterator[bytes]:
        """The repository at `ref` as GitHub's gzipped tar, chunk by chunk. Raises `TooLarge` after `limit` bytes."""
        loop = asyncio.get_running_loop()
        deadline, size = loop.time() + self._channel.retry_policy.download, 0
        async with self._channel.download(f"{self._path}/tarball/{quote(ref, safe='')}") as response:
            async for chunk in response.aiter_raw():
                size += len(chunk)
                if size > limit:
                    raise TooLarge(f"the archive of {self.ref.full_name}", limit)
                if loop.time() > deadline:
                    raise Unavailable(f"the archive of {self.ref.full_name} took too long")
                yield chunk

    async def file(self, path: str, ref: str, limit: int = 100 * MIB) -> bytes | None:
        """The bytes of one regular file at `ref`, or None. Raises `TooLarge` beyond `limit` bytes or GitHub's own 100 MB."""
        try:
            answer = await self._channel.get(f"{self._path}/contents/{quote(path)}", ref=ref)
        except NotFound:
            return None
        if not isinstance(answer, dict) or answer.get("type") != "file":
            return None  # a folder, a symlink, a submodule
        if isinstance(size := answer.get("size"), int) and size > limit:
            raise TooLarge(path, limit)
        if answer.get("encoding") == "base64":
            return _decoded(answer)
        # Above 1 MB only the blob has the content.
        return await self.blob(parsed(Object, answer).sha)

    async def blob(self, sha: str) -> bytes:
        return _decoded(await self._channel.get(f"{self._path}/git/blobs/{sha}"))

    async def tree(self, ref: str) -> tuple[TreeEntry, ...] | None:
        """Everything below the top folder at `ref`; None if that is more than GitHub lists (100,000 entries or 7 MB)."""
        answer = parsed(Tree, await self._channel.get(f"{self._path}/git/trees/{quote(ref, safe='')}", recursive="1"))
        return None if answer.truncated else answer.tree

    async def large_files(self, sizes: Mapping[str, int]) -> dict[str, Link]:
        """Where the content of at most 100 Git LFS objects is, without those that GitHub does not have; `sizes` by their ids.

        https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md
        """
        url = f"{self.web_url}/{quote(self.ref.full_name)}.git/info/lfs/objects/batch"
        objects = [{"oid": oid, "size": size} for oid, size in sizes.items()]
        asked = {"operation": "download", "transfers": ["basic"], "objects": objects}
        answer = parsed(LfsAnswer, await self._channel.ask_git(url, asked, "application/vnd.git-lfs+json"))
        links = {each.oid: each.actions.download for each in answer.objects if each.oid in sizes}
        return {oid: link for oid, link in links.items() if link is not None}

    async def large_file(self, oid: str, size: int, link: Link) -> AsyncIterator[bytes]:
        """The content of a Git LFS object. Raises `Unavailable` at its end, or before, if it is another one."""
        read, what = 0, f"the Git LFS object {oid[:10]}"
        digest = sha256()
        async with self._channel.download(what, link) as response:
            async for chunk in response.aiter_raw():
                read += len(chunk)
                if read > size:
                    break
                digest.update(chunk)
                yield chunk
        if (read, digest.hexdigest()) != (size, oid):
            raise Unavailable(f"{what} has another content than the commit says")

    def neighbour(self, full_name: str) -> tuple[Repository, ...]:
        """Another repository, with each token that may read it: this one, if it is public; its own, if the installation has it.

        Only private repositories read other private ones: else, whoever can write to a public one could publish their content.
        """
        owner, _, name = full_name.partition("/")
        channels = [self._channel]
        if self._channel_of is not None and self.ref.private and owner.lower() == self.ref.full_name.partition("/")[0].lower():
            channels.append(self._channel_of(name))
        return tuple(Repository(channel, RepositoryRef(0, full_name), self._app_id) for channel in channels)

    async def branch_head(self, branch: str) -> str | None:
        """The sha that a branch points to, or None if there is no such branch."""
        return await self._target(f"heads/{branch}")

    async def merge_of(self, number: int) -> str | None:
        """The merge of an open pull request into its base that GitHub made last, or None if the two conflict."""
        return await self._target(f"pull/{number}/merge")

    async def _target(self, ref: str) -> str | None:
        try:
            answer = await self._channel.get(f"{self._path}/git/ref/{quote(ref)}")
        except (NotFound, Conflict):  # 409: the repository is empty
            return None
        # Some versions of GitHub return a list for a prefix of several branches; only the exact name counts.
        return parsed(Reference, answer).object.sha if isinstance(answer, dict) else None

    async def commit(self, sha: str) -> Commit:
        return parsed(Commit, await self._channel.get(f"{self._path}/git/commits/{sha}"))

    async def pull(self, number: int) -> PullRequest:
        return parsed(PullRequest, await self._channel.get(f"{self._path}/pulls/{number}"))

    async def permission(self, login: str) -> Permission:
        """A person's permission here; `NONE` for an unknown login."""
        try:
            answer = await self._channel.get(f"{self._path}/collaborators/{quote(login, safe='')}/permission")
        except NotFound:
            return Permission.NONE
        return parsed(Collaborator, answer).effective

    def _is_ours(self, app: GitHubApp | None) -> bool:
        return app is not None and app.id == self._app_id

    async def create_tree(self, parent: str, files: Mapping[str, str | None]) -> str:
        """Create `parent`'s tree with the texts in `files` by path (None removes a file); returns its sha. Modes are kept.

        Raises `Conflict` for anything but regular files.
        """
        base = (await self.commit(parent)).tree.sha
        listed: dict[str, dict[str, TreeEntry]] = {}
        entries = []
        for path, text in files.items():
            mode = await self._mode(base, path, listed)
            if text is None and mode is None:
                continue  # removing a missing file changes nothing
            content = {"sha": None} if text is None else {"content": text}
            entries.append({"path": path, "mode": mode or _REGULAR[0], "type": "blob", **content})
        if not entries:
            return base
        body = {"base_tree": base, "tree": entries}
        return parsed(Object, await self._write("POST", f"{self._path}/git/trees", body, repeatable=True)).sha

    async def create_commit(self, parent: str, tree: str, message: str) -> str:
        """Create a commit without a branch; returns its sha. It has no author and date, so that GitHub signs it as the App."""
        body = {"message": message, "tree": tree, "parents": [parent]}
        return parsed(Object, await self._write("POST", f"{self._path}/git/commits", body, repeatable=True)).sha

    async def create_branch(self, branch: str, sha: str) -> None:
        """Create `branch` at `sha` unless it exists. Raises `BranchTaken` if it points elsewhere or a branch is named like
        its folder, and `Forbidden` or `Invalid` if a rule or a missing permission prevents it."""
        *folders, _ = accumulate(branch.split("/"), "{}/{}".format)

        async def create() -> str:
            body = {"ref": f"refs/heads/{branch}", "sha": sha}
            try:
                return parsed(Reference, await self._write("POST", f"{self._path}/git/refs", body)).object.sha
            except (NotFound, Invalid) as error:
                if isinstance(error, Invalid) and error.says(_UPDATE_FAILED):
                    for folder in folders:
                        if await self.branch_head(folder) is not None:
                            raise BranchTaken(f"the branch {folder} exists, so GitHub makes none below `{folder}/`") from error
                raise _of_missing_permission(error) from error

        head = await find_or_create(lambda: self.branch_head(branch), create, self._channel.retry_policy)
        if head != sha:
            raise BranchTaken(f"the branch {branch} of {self.ref.full_name} already points to `{head[:10]}`")

    async def move_branch(self, branch: str, sha: str) -> None:
        """Force an existing branch to `sha`; only for our own branches."""
        body = {"sha": sha, "force": True}
        try:
            await self._write("PATCH", f"{self._path}/git/refs/heads/{quote(branch)}", body, repeatable=True)
        except (NotFound, Invalid) as error:
            raise _of_missing_permission(error) from error

    async def remove_branch(self, branch: str, sha: str) -> None:
        """Delete a branch of ours that still ends with `sha`, if the rules allow it."""
        if await self.branch_head(branch) == sha:
            with contextlib.suppress(Forbidden, Invalid, NotFound):
                await self._write("DELETE", f"{self._path}/git/refs/heads/{quote(branch)}", None, repeatable=True)

    async def find_pull(self, head: str, state: Literal["open", "all"] = "all") -> PullRequest | None:
        """The newest pull request from the branch `head` of this repository."""
        owner = self.ref.full_name.partition("/")[0]
        listing = self._channel.listing(f"{self._path}/pulls", head=f"{owner}:{head}", state=state)
        async for item in listing:
            pull = parsed(PullRequest, item)
            # GitHub ignores an invalid `head` and lists everything, so check it here.
            if pull.head.ref == head and (pull.head.repo is None or pull.head.repo.id == self.ref.id):
                return pull
        return None

    async def pulls_into(self, base: str) -> AsyncIterator[PullRequest]:
        """The open pull requests from this repository's branches into the branch `base`, newest first."""
        async for item in self._channel.listing(f"{self._path}/pulls", base=base, state="open"):
            pull = parsed(PullRequest, item)
            if pull.base.ref == base and pull.head.repo is not None and pull.head.repo.id == self.ref.id:
                yield pull

    async def find_or_create_pull(self, head: str, base: str, title: str, body: str) -> PullRequest:
        """The pull request from our branch `head`: a draft, or an ordinary one if the repository's plan has no drafts.

        An existing open one gets the title and the text; a closed one is left unchanged.
        """
        texts = {"title": title, "body": body}

        async def create(draft: bool = True) -> PullRequest:
            try:
                answer = await self._write("POST", f"{self._path}/pulls", {**texts, "head": head, "base": base, "draft": draft})
            except NotFound as error:  # the branch was just made: they are turned off, or the token may not know them
                refusal = Forbidden(str(error))
                refusal.said = "Pull requests cannot be opened here (404)"
                raise refusal from error
            except Invalid as error:
                if draft and error.says("draft"):
                    return await create(draft=False)
                named = [name for name, end in ((head, "head"), (base, "base")) if error.says(f"{end} invalid")]
                if named and None not in [await self.branch_head(name) for name in named]:
                    raise Unavailable(f"{error}; the branch exists, so GitHub will soon see it") from error
                raise
            return parsed(PullRequest, answer)

        pull = await find_or_create(lambda: self.find_pull(head), create, self._channel.retry_policy)
        if pull.state == "open" and (pull.title, (pull.body or "").strip()) != (title, body.strip()):
            answer = await self._write("PATCH", f"{self._path}/pulls/{pull.number}", texts, repeatable=True)
            return parsed(PullRequest, answer)
        return pull

    async def request_review(self, pull: PullRequest, login: str) -> None:
        """Ask a person for a review, unless they are asked already or GitHub says that they cannot review it."""
        if any(each.login == login for each in pull.requested_reviewers):
            return
        path = f"{self._path}/pulls/{pull.number}/requested_reviewers"
        with contextlib.suppress(Invalid):  # not a collaborator, or the author
            await self._write("POST", path, {"reviewers": [login]}, repeatable=True)

    async def close_pull(self, number: int, body: str) -> None:
        """Close a pull request without merging it; its text says why."""
        await self._write("PATCH", f"{self._path}/pulls/{number}", {"state": "closed", "body": body}, repeatable=True)

    async def find_or_create_comment(self, number: int, marker: str, text: str) -> Comment:
        """Create or update our comment with `marker` on an issue or pull request; `text` must contain the marker."""
        if marker not in text:
            raise ValueError(f"the comment's text lacks its marker {marker!r}")

        async def create() -> Comment:
            answer = await self._write("POST", f"{self._path}/issues/{number}/comments", {"body": text})
            return parsed(Comment, answer)

        comment = await find_or_create(lambda: self._comment(number, marker), create, self._channel.retry_policy)
        try:
            return await self._with_text(comment, text)
        except NotFound:  # somebody deleted it in this moment
            return await create()

    async def edit_comment(self, number: int, marker: str, edit: Callable[[str], str]) -> None:
        """Edit the text of our comment with `marker`, if there is one."""
        if (comment := await self._comment(number, marker)) is not None:
            await self._with_text(comment, edit(comment.body or ""))

    async def _comment(self, number: int, marker: str) -> Comment | None:
        async for item in self._channel.listing(f"{self._path}/issues/{number}/comments"):
            comment = parsed(Comment, item)
            if marker in (comment.body or "") and self._is_ours(comment.performed_via_github_app):
                return comment
        return None

    async def _with_text(self, comment: Comment, text: str) -> Comment:
        if (comment.body or "").strip() == text.strip():
            return comment
        path = f"{self._path}/issues/comments/{comment.id}"
        return parsed(Comment, await self._write("PATCH", path, {"body": text}, repeatable=True))

    async def find_check(self, name: str, head_sha: str, external_id: str) -> CheckRun | None:
        """Our check run on a commit."""
        return await anext(self._own_checks(name, head_sha, external_id), None)

    async def _own_checks(self, name: str, head_sha: str, external_id: str) -> AsyncIterator[CheckRun]:
        path = f"{self._path}/commits/{head_sha}/check-runs"
        async for item in self._channel.listing(path, "check_runs", check_name=name, filter="all"):
            run = parsed(CheckRun, item)
            if run.external_id == external_id and self._is_ours(run.app):
                yield run

    async def report_check(self, report: CheckReport) -> CheckRun:
        """Create or update our check run on a commit, found by name, commit and external id.

        GitHub lists a new one late, so a lost answer can leave two: both are completed.
        """
        known = (report.head_sha, report.external_id)
        body = msgspec.to_builtins(report)
        update = {name: value for name, value in body.items() if name != "head_sha"}

        reported: list[CheckRun] = []

        async def create_in_suite() -> CheckRun:
            reported.append(parsed(CheckRun, await self._write("POST", f"{self._path}/check-runs", body)))
            self._made[known] = CheckRun(reported[0].id, report.name)  # without its long text
            if len(self._made) > _MOST_CHECKS:
                del self._made[next(iter(self._made))]
            return reported[0]

        async def create() -> CheckRun:
            try:
                return await create_in_suite()
            except (Invalid, NotFound):
                # https://docs.github.com/rest/checks/suites#create-a-check-suite: needed where automatic suites are off.
                with contextlib.suppress(Invalid, NotFound):
                    suite = {"head_sha": report.head_sha}
                    await self._write("POST", f"{self._path}/check-suites", suite, repeatable=True)
                return await create_in_suite()

        async def find() -> CheckRun | None:
            return self._made.get(known) or await self.find_check(report.name, *known)

        run = await find_or_create(find, create, self._channel.retry_policy)
        if reported:
            return run
        runs = {run.id}
        if report.status == "completed":
            runs.update([copy.id async for copy in self._own_checks(report.name, *known)])
        for number in sorted(runs):
            with contextlib.suppress(NotFound):  # it was deleted
                answer = await self._write("PATCH", f"{self._path}/check-runs/{number}", update, repeatable=True)
                reported.append(parsed(CheckRun, answer))
        return reported[0] if reported else await create()

    async def queued_suite(self, head_sha: str) -> CheckSuite | None:
        """Our check suite of a commit, if GitHub waits for its runs."""
        path = f"{self._path}/commits/{head_sha}/check-suites"
        async for item in self._channel.listing(path, "check_suites", app_id=self._app_id):
            if (suite := parsed(CheckSuite, item)).status == "queued":
                return suite
        return None

    async def report_again(self, suite: CheckSuite) -> None:
        """Report the completed check runs of our suite once more, unchanged: only that ends it after a person re-ran it."""
        async for item in self._channel.listing(f"{self._path}/check-suites/{suite.id}/check-runs", "check_runs"):
            run = parsed(CheckRun, item)
            if not run.is_pending and run.conclusion != "stale":  # which only GitHub sets
                same = {"status": run.status, "conclusion": run.conclusion}
                await self._write("PATCH", f"{self._path}/check-runs/{run.id}", same, repeatable=True)

    async def stop_automatic_suites(self) -> None:
        """Ask GitHub not to make a check suite of ours for every push: without a check run, it stays queued for ever.

        https://docs.github.com/rest/checks/suites#update-repository-preferences-for-check-suites
        """
        body = {"auto_trigger_checks": [{"app_id": self._app_id, "setting": False}]}
        await self._write("PATCH", f"{self._path}/check-suites/preferences", body, repeatable=True)

    async def add_label(self, number: int, label: str) -> None:
        """Add `label` to an issue or pull request; GitHub creates an unknown label."""
        path = f"{self._path}/issues/{number}/labels"
        await self._channel.write("POST", path, {"labels": [label]}, repeatable=True)

    async def react(self, comment_id: int, reaction: Reaction) -> None:
        """React to a comment on an issue or pull request; repeating it changes nothing."""
        path = f"{self._path}/issues/comments/{comment_id}/reactions"
        await self._write("POST", path, {"content": reaction}, repeatable=True)

    async def rerun_failed_jobs(self, run_id: int) -> None:
        """Rerun a run's failed jobs and their dependents. Each call is another rerun, so call it once."""
        await self._write("POST", f"{self._path}/actions/runs/{run_id}/rerun-failed-jobs", {})

    async def _write(self, method: str, path: str, body: Mapping[str, Any] | None, *, repeatable: bool = False) -> Any:
        return await self._channel.write(method, path, body, repeatable=repeatable, optional=self._optional, fence=self._fence)

    async def _mode(self, tree: str, path: str, listed: dict[str, dict[str, TreeEntry]]) -> str | None:
        """The mode of a regular file in a tree, or None; `listed` caches the folders that were read."""
        folder, _, name = path.rpartition("/")
        sha: str | None = tree
        for part in folder.split("/") if folder else ():
            entry = (await self._entries(sha, listed)).get(part) if sha else None
            if entry is not None and entry.type != "tree":
                raise Conflict(f"{path}: {part} is not a folder at the commit")
            sha = entry.sha if entry else None
        entry = (await self._entries(sha, listed)).get(name) if sha else None
        if entry is not None and entry.mode not in _REGULAR:
            raise Conflict(f"{path} is a link, a submodule or a folder at the commit; a repair only writes regular files")
        return entry.mode if entry else None

    async def _entries(self, tree: str, listed: dict[str, dict[str, TreeEntry]]) -> dict[str, TreeEntry]:
        if tree not in listed:
            answer = await self._channel.get(f"{self._path}/git/trees/{tree}")
            listed[tree] = {entry.path: entry for entry in parsed(Tree, answer).tree}
        return listed[tree]


def _since(time: datetime) -> str:
    """As GitHub's search writes it."""
    return f">={time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _of_missing_permission(error: NotFound | Invalid) -> GitHubError:
    """`Forbidden` if writing a branch failed because the token lacks a permission, or may have; else the same error.

    The repository was just read, so 404 hides the missing permission. For workflow files GitHub may answer 422 instead of 403:
    "refusing to allow a GitHub App to create or update workflow `…` without `workflows` permission". "Reference update failed"
    has no reason: https://github.com/github/rest-api-description/issues/4887.
    """
    if isinstance(error, Invalid) and not any(map(error.says, ("without `workflows` permission", _UPDATE_FAILED))):
        return error
    forbidden = Forbidden(str(error))
    forbidden.said = error.said if isinstance(error, Invalid) else ""
    return forbidden


def _decoded(answer: object) -> bytes:
    try:
        return base64.b64decode(parsed(Encoded, answer).content)
    except ValueError as error:
        raise Unavailable("GitHub's response is not base64") from error


async def _head_and_tail(chunks: AsyncIterator[bytes], limit: int) -> str:
    """Keep the first and the last half of `limit` bytes of a stream of any length, in bounded memory."""
    half, size = max(1, limit // 2), 0
    head, tail, kept = bytearray(), deque[bytes](), 0
    async for chunk in chunks:
        size += len(chunk)
        room = half - len(head)
        head += chunk[:room]
        if rest := chunk[room:] if room > 0 else chunk:
            tail.append(rest)
            kept += len(rest)
            while kept - len(tail[0]) >= half:
                kept -= len(tail.popleft())
    ending = b"".join(tail)[-half:]
    missing = size - len(head) - len(ending)
    gap = f"\n… {missing} bytes omitted …\n".encode() if missing else b""
    return (bytes(head) + gap + ending).decode(errors="replace").removeprefix("\ufeff")
