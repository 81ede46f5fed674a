"""Writes to one repository: each looks for an existing object before it creates one.

A repeated request would duplicate four kinds of objects. They are found again: a branch and a pull request by name, a comment
by the hidden marker in its text and its author, a check run by its external id. Unreferenced duplicates of blobs, trees and
commits are harmless, and all other writes are idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from app.github.channel import Channel
from app.github.errors import Conflict, Invalid
from app.github.reads import Reads
from app.github.retries import find_or_create
from app.github.types import CheckReport, CheckRun, Comment, Object, PullRequest, Reaction, Reference, Tree, TreeEntry, parsed
from webhooks.intake import RepositoryRef

_REGULAR = ("100644", "100755")


class Repository(Reads):
    """Reads and writes. Every method raises `GitHubError`.

    `fence` is called right before each write and prevents it by raising, as GitHub cannot tell whether a worker still owns its
    attempt.
    """

    def __init__(self, channel: Channel, ref: RepositoryRef, app_id: int, fence: Callable[[], None] | None = None) -> None:
        super().__init__(channel, ref, app_id)
        self._fence = fence

    async def create_tree(self, parent: str, files: Mapping[str, str | None]) -> str:
        """Sha of commit `parent`'s tree with these texts of `files` by path; None removes one, and modes stay as they are.

        `Conflict` for anything but regular files.
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
        """Create a commit without a branch; returns its sha. Without author and date, so that GitHub signs it as the App."""
        body = {"message": message, "tree": tree, "parents": [parent]}
        return parsed(Object, await self._write("POST", f"{self._path}/git/commits", body, repeatable=True)).sha

    async def create_branch(self, branch: str, sha: str) -> None:
        """Create `branch` at `sha` unless it exists. `Conflict` if it points elsewhere."""

        async def create() -> str:
            body = {"ref": f"refs/heads/{branch}", "sha": sha}
            return parsed(Reference, await self._write("POST", f"{self._path}/git/refs", body)).object.sha

        head = await find_or_create(lambda: self.branch_head(branch), create, self._channel.retry_policy)
        if head != sha:
            raise Conflict(f"the branch {branch} of {self.ref.full_name} already points to {head[:10]}")

    async def move_branch(self, branch: str, sha: str) -> None:
        """Force an existing branch to `sha`; only for our own branches."""
        body = {"sha": sha, "force": True}
        await self._write("PATCH", f"{self._path}/git/refs/heads/{quote(branch)}", body, repeatable=True)

    async def find_pull(self, head: str) -> PullRequest | None:
        """The newest pull request from our branch `head`, open or closed."""
        owner = self.ref.full_name.partition("/")[0]
        listing = self._channel.listing(f"{self._path}/pulls", head=f"{owner}:{head}", state="all")
        async for item in listing:
            pull = parsed(PullRequest, item)
            # GitHub ignores an invalid `head` and lists everything, so check it here.
            if pull.head.ref == head and pull.head_repository in (self.ref.full_name, None):
                return pull
        return None

    async def find_or_create_pull(self, head: str, base: str, title: str, body: str) -> PullRequest:
        """The pull request from our branch `head`: a draft, or an ordinary one if the repository's plan has no drafts.

        An open one gets the title and the text; a closed one is left alone.
        """
        texts = {"title": title, "body": body}

        async def create(draft: bool = True) -> PullRequest:
            try:
                answer = await self._write("POST", f"{self._path}/pulls", {**texts, "head": head, "base": base, "draft": draft})
            except Invalid as error:
                if draft and error.says("draft"):
                    return await create(draft=False)
                raise
            return parsed(PullRequest, answer)

        pull = await find_or_create(lambda: self.find_pull(head), create, self._channel.retry_policy)
        if pull.state == "open" and (pull.title, (pull.body or "").strip()) != (title, body.strip()):
            answer = await self._write("PATCH", f"{self._path}/pulls/{pull.number}", texts, repeatable=True)
            return parsed(PullRequest, answer)
        return pull

    async def find_or_create_comment(self, number: int, marker: str, text: str) -> Comment:
        """Create or update our comment with `marker` on an issue or pull request; `text` must contain the marker."""
        if marker not in text:
            raise ValueError(f"the comment's text lacks its marker {marker!r}")

        async def find() -> Comment | None:
            async for item in self._channel.listing(f"{self._path}/issues/{number}/comments"):
                comment = parsed(Comment, item)
                if marker in (comment.body or "") and self._is_ours(comment.performed_via_github_app):
                    return comment
            return None

        async def create() -> Comment:
            answer = await self._write("POST", f"{self._path}/issues/{number}/comments", {"body": text})
            return parsed(Comment, answer)

        comment = await find_or_create(find, create, self._channel.retry_policy)
        if (comment.body or "").strip() != text.strip():
            path = f"{self._path}/issues/comments/{comment.id}"
            return parsed(Comment, await self._write("PATCH", path, {"body": text}, repeatable=True))
        return comment

    async def report_check(self, report: CheckReport) -> CheckRun:
        """Create or update our check run on a commit, found by name, commit and external id."""
        body = msgspec.to_builtins(report)
        update = {name: value for name, value in body.items() if name != "head_sha"}

        async def find() -> CheckRun | None:
            listing = self._channel.listing(
                f"{self._path}/commits/{report.head_sha}/check-runs", "check_runs", check_name=report.name, filter="all"
            )
            async for item in listing:
                run = parsed(CheckRun, item)
                if run.external_id == report.external_id and self._is_ours(run.app):
                    return run
            return None

        created: list[CheckRun] = []

        async def create() -> CheckRun:
            created.append(parsed(CheckRun, await self._write("POST", f"{self._path}/check-runs", body)))
            return created[0]

        run = await find_or_create(find, create, self._channel.retry_policy)
        if not created:
            await self._write("PATCH", f"{self._path}/check-runs/{run.id}", update, repeatable=True)
        return run

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

    async def _write(self, method: str, path: str, body: Mapping[str, Any], *, repeatable: bool = False) -> Any:
        return await self._channel.write(method, path, body, repeatable=repeatable, fence=self._fence)

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
