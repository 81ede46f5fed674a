"""The App on GitHub: its life cycle, its tokens, and access to one repository."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from datetime import datetime
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary

from app.github.channel import AppChannel, InstallationChannel, SharedTransport, Token
from app.github.errors import Forbidden, Invalid, NotFound
from app.github.repository import Repository
from app.github.retries import RetryPolicy, SharedBudget, WritePacer
from app.github.types import (
    LISTING,
    OPTIONAL,
    READING,
    Access,
    AppFacts,
    CheckRun,
    HookDelivery,
    InstallationFacts,
    InstalledRepository,
    has_permission,
    parsed,
)
from webhooks.intake import RepositoryRef

_APP = 0  # stands for the App itself where writes are counted by installation


class GitHub:
    """One GitHub App. Open it with `async with` (or `close` it): it owns the connections.

    A repository's channel has a token for that repository and the requested permissions only, minted at its first request.
    An installation may lack `OPTIONAL` ones. The channel is shared while it is in use. Only `repositories` uses a token for all
    of an installation. `budget` is of the writes of all workers; None: each paces its own.
    """

    def __init__(
        self,
        app_id: int,
        private_key: str,
        *,
        api_url: str = "https://api.github.com",
        retry_policy: RetryPolicy | None = None,
        download_hosts: Collection[str] = (),
        budget: SharedBudget | None = None,
    ) -> None:
        self.app_id = app_id
        self._patience = retry_policy or RetryPolicy()
        self._wire = SharedTransport(api_url, self._patience, download_hosts)
        self._app = AppChannel(self._wire, WritePacer(self._patience.write_rates, _APP, budget), app_id, private_key)
        self._channels: WeakValueDictionary[object, InstallationChannel] = WeakValueDictionary()
        self._checks: dict[tuple[str, str], CheckRun] = {}
        self._budget = budget
        self._paces: dict[int, WritePacer] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._wire.close()

    async def itself(self) -> AppFacts:
        """GitHub's view of this App. Raises `GitHubError`; `BadCredentials` for a wrong id or key."""
        return parsed(AppFacts, await self._app.get("/app"))

    async def installations(self) -> tuple[InstallationFacts, ...]:
        """All installations of the App. Raises `GitHubError`."""
        return tuple([parsed(InstallationFacts, each) async for each in self._app.listing("/app/installations")])

    async def repositories(self, installation_id: int) -> tuple[Repository, ...]:
        """The repositories of an installation, the last pushed first, to read their runs. Raises `GitHubError`."""
        channel = self._channel(installation_id, None, LISTING)
        listing = channel.listing("/installation/repositories", "repositories")
        found = [parsed(InstalledRepository, each) async for each in listing]
        found.sort(key=lambda each: each.pushed_at or "", reverse=True)
        refs = (RepositoryRef(each.id, each.full_name, each.default_branch, each.private) for each in found)
        return tuple(Repository(channel, ref, self.app_id) for ref in refs)

    async def deliveries(self, since: datetime) -> AsyncIterator[HookDelivery]:
        """Every try to deliver a webhook of the App since then, newest first. Raises `GitHubError`."""
        async for item in self._app.listing("/app/hook/deliveries"):
            delivery = parsed(HookDelivery, item)
            if delivery.delivered_at < since:
                return
            yield delivery

    async def redeliver(self, delivery_id: int) -> None:
        """Ask GitHub to try a delivery once more, under the same GUID. Raises `GitHubError`."""
        await self._app.write("POST", f"/app/hook/deliveries/{delivery_id}/attempts", None, repeatable=True)

    async def time(self) -> datetime | None:
        """GitHub's time, in UTC. Sends no credentials, as a wrong local clock invalidates them. Raises `GitHubError`."""
        return await self._app.server_time()

    def repository(
        self,
        installation_id: int,
        ref: RepositoryRef,
        permissions: Mapping[str, Access] = READING,
        fence: Callable[[], None] | None = None,
        *,
        optional: bool = False,
    ) -> Repository:
        """One repository of an installation; no request is made yet. `fence`, `optional`: see `Repository`."""

        def channel_of(repository: int | str) -> InstallationChannel:
            return self._channel(installation_id, repository, permissions)

        return Repository(channel_of(ref.id), ref, self.app_id, fence, channel_of, optional=optional, made=self._checks)

    def _channel(
        self, installation_id: int, repository: int | str | None, permissions: Mapping[str, Access]
    ) -> InstallationChannel:
        """`repository`: its id, or its name without its owner; None for all repositories of the installation."""
        key = (installation_id, repository, frozenset(permissions.items()))
        if (channel := self._channels.get(key)) is None:

            async def mint() -> Token:
                try:
                    return await self._mint(installation_id, repository, permissions)
                except Invalid as error:
                    if not error.says("permissions requested are not granted"):
                        raise
                lacking = await self._lacking(installation_id, permissions)
                if not lacking or not lacking.items() <= OPTIONAL.items():
                    names = _named(lacking or permissions)
                    raise Forbidden(f"the installation does not grant {names}", names)
                least = {name: access for name, access in permissions.items() if name not in lacking}
                return await self._mint(installation_id, repository, least)

            pace = self._paces.setdefault(
                installation_id, WritePacer(self._patience.write_rates, installation_id, self._budget)
            )
            channel = InstallationChannel(self._wire, pace, mint)
            self._channels[key] = channel
        return channel

    async def _mint(self, installation_id: int, repository: int | str | None, permissions: Mapping[str, Access]) -> Token:
        """GitHub answers 422 for a missing permission (`Invalid`) and for a repository that the App cannot see (`NotFound`)."""
        named = "repository_ids" if isinstance(repository, int) else "repositories"
        body = {"permissions": dict(permissions), **({} if repository is None else {named: [repository]})}
        path = f"/app/installations/{installation_id}/access_tokens"
        try:
            return parsed(Token, await self._app.mint(path, body))
        except Invalid as error:
            if error.says("does not exist or is not accessible"):
                raise NotFound(str(error)) from error
            raise

    async def _lacking(self, installation_id: int, permissions: Mapping[str, Access]) -> Mapping[str, Access]:
        """Those of the permissions that the installation does not grant."""
        facts = parsed(InstallationFacts, await self._app.get(f"/app/installations/{installation_id}"))
        return {name: access for name, access in permissions.items() if not has_permission(facts.permissions, name, access)}


def _named(permissions: Mapping[str, Access]) -> str:
    return ", ".join(f"{name}={access}" for name, access in sorted(permissions.items()))
