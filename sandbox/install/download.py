"""Bounds what package clients download outside the sandbox: bytes and seconds, for all commands of one step together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from sandbox.base import MIB, InstallFailed
from sandbox.host import launch
from sandbox.host.folder_workspace import run_watched
from sandbox.host.launch import ProcessResult

IndexStrategy: TypeAlias = Literal["first", "best"]
WATCH_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class DownloadPolicy:
    """What may be downloaded outside the sandbox, from where, and how much of it is kept.

    `strategy` says which of several package indexes provides a project: the `first` that has it, or the one with the `best`
    (highest) version.
    """

    size: int = 3072 * MIB  # bytes on disk of one step's downloads, with the clients' temporary files
    seconds: float = 900.0  # for all downloads of one step
    cache: int | None = None  # bytes of each cache; None: `folder_cache.BOUND`
    strategy: IndexStrategy = "first"
    size_hint: str = "SELFHEAL_DOWNLOAD_MB raises this limit"  # what a person can do about `size`
    seconds_hint: str = "SELFHEAL_DOWNLOAD_SECONDS raises this limit"

    def within(self, disk: int) -> DownloadPolicy:
        """The policy for a sandbox with a disk limit of `disk` bytes: what is larger could not be installed there."""
        if disk >= self.size:
            return self
        return replace(self, size=disk, size_hint="it is the sandbox's disk limit; require fewer or smaller packages")


class DownloadRefused(InstallFailed):
    """A download exceeded a bound. Its processes are dead; the caller removes its files."""


class Download:
    """The downloads of one step. `measure` returns their bytes on disk and blocks; `what` is for people."""

    def __init__(self, policy: DownloadPolicy, measure: Callable[[], int], what: str = "the packages") -> None:
        self._policy, self._measure, self._what = policy, measure, what
        self._ends = time.monotonic() + policy.seconds

    async def run(self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None = None) -> ProcessResult:
        """Run one command to its end. Raises `DownloadRefused` as soon as a bound is exceeded."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise self._late()
        ended = await run_watched(launch.run(launch.Launch(argv, env, left, cwd=cwd)), self._check, WATCH_SECONDS)
        if ended.timed_out:
            raise self._late()
        return ended

    async def _check(self) -> None:
        if await asyncio.to_thread(self._measure) > self._policy.size:
            bound = f"{self._policy.size / MIB:g} MiB on disk, temporary files included ({self._policy.size_hint})"
            raise DownloadRefused(f"downloading {self._what} takes more than {bound}")

    def _late(self) -> DownloadRefused:
        bound = f"{self._policy.seconds:g} s ({self._policy.seconds_hint})"
        return DownloadRefused(f"downloading {self._what} takes more than {bound}")
