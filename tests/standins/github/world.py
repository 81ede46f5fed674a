"""The whole stand-in at once: every record, the counters, who is told of changes, and the work in the background."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from tests.standins.github.state import Account, App, Installation, Json, PullRequest, Repository, now


class Listener(Protocol):
    """Who is told of a moved branch or a pull request: the Actions runner and the pull requests themselves."""

    async def pushed(self, push: Push) -> None: ...

    async def pull_changed(
        self, repository: Repository, pull: PullRequest, action: str, actor: Account, before: str
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Push:
    repository: Repository
    branch: str
    before: str | None
    after: str | None  # None: the branch was deleted
    actor: Account


class Emitter(Protocol):
    def emit(
        self, event: str, payload: Json, repository: Repository | None, installation: Installation | None = None
    ) -> None: ...


#: One for the whole process: githubkit keeps tokens by App and installation id beyond the life of a client.
_IDS = itertools.count(1001)


class World:
    """Everything at once, with the counters and the background work."""

    def __init__(self, root: Path, app_slug: str, *, enterprise: bool = False) -> None:
        self.root = root
        self.is_enterprise = enterprise
        self.url = ""  # the API; set when the sockets are open
        self.site = ""  # pages and git
        self.downloads_url = ""  # logs and tarballs: another origin, except on Enterprise Server
        self.accounts: dict[str, Account] = {}
        self.repositories: dict[int, Repository] = {}
        self.installations: dict[int, Installation] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.failures: list[BaseException] = []
        self.listeners: list[Listener] = []
        self.emitter: Emitter | None = None
        self.app = App(self.next_id(), app_slug, app_slug.title(), self.account("selfheal-makers", "Organization"))
        self.bot = self.account(f"{app_slug}[bot]", "Bot")
        self.actions_app = App(15368, "github-actions", "GitHub Actions", self.account("github", "Organization"))

    def next_id(self) -> int:
        return next(_IDS)

    def account(self, login: str, kind: Literal["User", "Organization", "Bot"] = "User") -> Account:
        if login not in self.accounts:
            self.accounts[login] = Account(self.next_id(), login, kind)
        return self.accounts[login]

    def repository(self, full_name: str) -> Repository | None:
        wanted = full_name.lower()
        return next((r for r in self.repositories.values() if r.full_name.lower() == wanted), None)

    def installation_of(self, repository: Repository) -> Installation | None:
        for installation in self.installations.values():
            if repository in self.repositories_of(installation):
                return installation
        return None

    def repositories_of(self, installation: Installation) -> list[Repository]:
        return [
            r
            for r in self.repositories.values()
            if r.owner is installation.account and (installation.selection == "all" or r.id in installation.repository_ids)
        ]

    async def pushed(self, push: Push) -> None:
        push.repository.pushed = now()
        for listener in self.listeners:
            await listener.pushed(push)

    async def pull_changed(
        self, repository: Repository, pull: PullRequest, action: str, actor: Account, before: str = ""
    ) -> None:
        for listener in self.listeners:
            await listener.pull_changed(repository, pull, action, actor, before)

    def emit(self, event: str, payload: Json, repository: Repository | None, installation: Installation | None = None) -> None:
        if self.emitter is not None:
            self.emitter.emit(event, payload, repository, installation)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background; `settled` waits for it and its failure is raised at the end."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(error)

    async def settled(self) -> None:
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    async def cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await self.settled()
