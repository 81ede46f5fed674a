"""Reads of one repository. Reads are retried and change nothing on GitHub."""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import AsyncIterator
from urllib.parse import quote

from app.github.channel import Channel
from app.github.errors import Conflict, NotFound, TooLarge, Unavailable
from app.github.types import (
    CheckRun,
    Collaborator,
    Commit,
    Encoded,
    Job,
    Object,
    Permission,
    PullRequest,
    Reference,
    WorkflowRun,
    parsed,
)
from webhooks.events import GitHubApp
from webhooks.intake import RepositoryRef
from webhooks.triggers import FAILING

MIB = 1024 * 1024
ACTIONS = "github-actions"


class Reads:
    """One repository through one channel. Every method raises `GitHubError`."""

    def __init__(self, channel: Channel, ref: RepositoryRef, app_id: int) -> None:
        self.ref = ref
        self._channel, self._app_id = channel, app_id
        self._path = f"/repos/{quote(ref.full_name)}"

    async def run(self, run_id: int) -> WorkflowRun:
        return parsed(WorkflowRun, await self._channel.get(f"{self._path}/actions/runs/{run_id}"))

    async def failing_runs(self, head_sha: str) -> tuple[WorkflowRun, ...]:
        """The workflow runs of a commit whose latest attempt failed."""
        listing = self._channel.listing(f"{self._path}/actions/runs", "workflow_runs", head_sha=head_sha)
        runs = [parsed(WorkflowRun, item) async for item in listing]
        return tuple(run for run in runs if run.conclusion in FAILING)

    async def failed_jobs(self, run: WorkflowRun) -> tuple[Job, ...]:
        """The failed jobs of the run's latest attempt."""
        listing = self._channel.listing(f"{self._path}/actions/runs/{run.id}/jobs", "jobs", filter="latest")
        jobs = [parsed(Job, item) async for item in listing]
        return tuple(job for job in jobs if job.conclusion in FAILING)

    async def failing_checks(self, head_sha: str) -> tuple[CheckRun, ...]:
        """Failed check runs of a commit by other CI services: neither GitHub Actions (see its runs) nor Selfheal."""
        listing = self._channel.listing(f"{self._path}/commits/{head_sha}/check-runs", "check_runs", filter="latest")
        checks = [parsed(CheckRun, item) async for item in listing]
        failing = (check for check in checks if check.conclusion in FAILING and not self._is_ours(check.app))
        return tuple(check for check in failing if check.app is None or check.app.slug != ACTIONS)

    async def job_log(self, job_id: int, limit: int) -> str:
        """The log of one job, cut in the middle to `limit` bytes, with a line that says how much is missing.

        Raises `NotFound` once it has expired.
        """
        try:
            async with asyncio.timeout(self._channel.retry_policy.download):
                async with self._channel.download(f"{self._path}/actions/jobs/{job_id}/logs") as response:
                    return await _head_and_tail(response.aiter_raw(), limit)
        except TimeoutError as error:
            raise Unavailable(f"the log of job {job_id} took too long") from error

    async def archive(self, ref: str, limit: int = 512 * MIB) -> AsyncIterator[bytes]:
        """The repository at `ref` as GitHub's gzipped tar, chunk by chunk. `TooLarge` after `limit` bytes."""
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

    async def file(self, path: str, ref: str) -> bytes | None:
        """The bytes of one regular file at `ref`, or None. `TooLarge` beyond GitHub's 100 MB."""
        try:
            answer = await self._channel.get(f"{self._path}/contents/{quote(path)}", ref=ref)
        except NotFound:
            return None
        if not isinstance(answer, dict) or answer.get("type") != "file":
            return None  # a folder, a symlink, a submodule
        if answer.get("encoding") == "base64":
            return _decoded(answer)
        # Above 1 MB only the blob has the content.
        return _decoded(await self._channel.get(f"{self._path}/git/blobs/{parsed(Object, answer).sha}"))

    async def branch_head(self, branch: str) -> str | None:
        """The sha that a branch points to, or None if there is no such branch."""
        try:
            answer = await self._channel.get(f"{self._path}/git/ref/heads/{quote(branch)}")
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
