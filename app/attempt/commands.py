"""Decides on `/heal` comments before they cost anything: whether their authors may start an attempt, and a quota allows it.

The worker runs this beside its attempts, so it waits for no slot. A stranger's command makes no attempt; it costs one lookup of
the permission a minute, and at most a reaction.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

import structlog

from app.attempt.progress import AWAY_SECONDS, GITHUB_WAIT, MOST_REACTIONS
from app.github.client import GitHub
from app.github.errors import BadCredentials, GitHubError, RateLimited, Unavailable
from app.github.types import KNOWING, PUBLISHING, Permission
from app.publish import publish
from app.store import commands
from app.store.commands import Command
from app.store.store import Store

_LOOKUPS = 4  # at once
_LOOKUP_SECONDS = 20.0
_REMEMBERED_SECONDS = 60.0
_MOST_REMEMBERED = 10_000  # people
log = structlog.get_logger(__name__)


class CommandDesk:
    """Decides the pending commands of one pull request at a time. `enqueue` gets the ids of new attempts.

    `pages_url`: where people reach the pages; "": nowhere.
    """

    def __init__(self, store: Store, github: GitHub, enqueue: Callable[[str], Awaitable[object]], pages_url: str = "") -> None:
        self._store, self._github, self._enqueue, self._pages_url = store, github, enqueue, pages_url
        self._known: OrderedDict[tuple[int, str], tuple[float, Permission]] = OrderedDict()

    async def decide(self, repository_id: int, pull_number: int) -> None:
        """Decide or postpone every pending command of the pull request."""
        while pending := await commands.pending(self._store, repository_id, pull_number):
            await self._decide(pending)

    async def _decide(self, pending: Sequence[Command]) -> None:
        people = {command.sender: command for command in pending}
        limit = asyncio.Semaphore(_LOOKUPS)

        async def look_up(command: Command) -> Permission | GitHubError:
            async with limit:
                return await self._permission(command)

        found = dict(zip(people, await asyncio.gather(*map(look_up, people.values())), strict=True))
        permitted, strangers = list[Command](), dict[str, Command]()
        for command in pending:
            match found[command.sender]:
                case GitHubError() as error:
                    await self._give_up_or_wait(command, error)
                case permission if permission.can_write:
                    permitted.append(command)
                case permission:
                    strangers[command.sender] = command
                    why = f"Only people with write permission can start an attempt; @{command.sender} has `{permission}`."
                    await commands.refuse(self._store, [command], why)
        if permitted:
            await self._admit(permitted)
        for command in list(strangers.values())[:MOST_REACTIONS]:
            await self._react(command)

    async def _permission(self, command: Command) -> Permission | GitHubError:
        """The author's permission, at most a minute old, or why GitHub does not say it."""
        request, key = command.request, (command.request.repository.id, command.sender)
        if (known := self._known.get(key)) is not None and time.monotonic() - known[0] < _REMEMBERED_SECONDS:
            return known[1]
        try:
            repository = self._github.repository(request.installation_id, request.repository, KNOWING)
            async with asyncio.timeout(_LOOKUP_SECONDS):  # the lane is everybody's
                permission = await repository.permission(request.sender or "")
        except GitHubError as error:
            return error
        except TimeoutError:
            return Unavailable(f"no answer in {_LOOKUP_SECONDS:.0f} s")
        self._known[key] = time.monotonic(), permission
        self._known.move_to_end(key)
        if len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)
        return permission

    async def _give_up_or_wait(self, command: Command, error: GitHubError) -> None:
        may_recover = isinstance(error, RateLimited | Unavailable | BadCredentials)
        if may_recover and self._store.clock.now() - command.created_at <= GITHUB_WAIT:
            seconds = error.retry_after if isinstance(error, RateLimited) else AWAY_SECONDS
            await commands.postpone(self._store, [command], max(1.0, seconds))
            return
        log.warning("command dropped", comment=command.comment_id, error=str(error))
        await commands.refuse(self._store, [command], f"GitHub did not tell the author's permission: {error}.")

    async def _admit(self, permitted: Sequence[Command]) -> None:
        admitted = await commands.admit(self._store, permitted)
        if admitted is None:
            return
        if admitted.attempt_id is not None:
            await self._enqueue(admitted.attempt_id)
            return
        request = permitted[0].request
        log.info("commands refused", repository=request.repository.full_name, reason=admitted.refusal)
        repository = self._github.repository(request.installation_id, request.repository, PUBLISHING)
        try:
            today = self._store.clock.now().date()
            await publish.quota_refusal(request.pull_number or 0, admitted.refusal, today, repository, self._pages_url)
        except GitHubError as error:
            log.warning("refusal not told", comment=permitted[0].comment_id, error=str(error))

    async def _react(self, command: Command) -> None:
        request = command.request
        repository = self._github.repository(request.installation_id, request.repository, PUBLISHING)
        try:
            await repository.react(command.comment_id, "confused")
        except GitHubError as error:
            log.warning("reaction failed", comment=command.comment_id, error=str(error))
