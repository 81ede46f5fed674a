"""Signed webhook deliveries, the log of them with the receiver's answers, and redelivery under the same GUID."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import httpx

from tests.standins.github.routing import not_found
from tests.standins.github.serialise import Serialiser, node_id, stamp
from tests.standins.github.state import Installation, Json, Repository, now
from tests.standins.github.world import World

#: GitHub gives up after ten seconds and does not try again by itself.
TIMEOUT = 10.0


@dataclass(slots=True, eq=False)
class Attempt:
    """One try at delivering; `status_code` 0 means that nobody answered (or nobody was configured)."""

    id: int
    guid: str
    event: str
    body: bytes
    headers: dict[str, str]
    installation_id: int | None
    repository_id: int | None
    url: str
    redelivery: bool = False
    status_code: int = 0
    status: str = "pending"
    answer: str = ""
    seconds: float = 0.0
    at: datetime = field(default_factory=now)

    @property
    def payload(self) -> Json:
        value: Json = json.loads(self.body)
        return value

    @property
    def action(self) -> str | None:
        return self.payload.get("action")

    def item(self) -> Json:
        return {
            "id": self.id,
            "guid": self.guid,
            "delivered_at": stamp(self.at),
            "redelivery": self.redelivery,
            "duration": round(self.seconds, 2),
            "status": self.status,
            "status_code": self.status_code,
            "event": self.event,
            "action": self.action,
            "installation_id": self.installation_id,
            "repository_id": self.repository_id,
            "throttled_at": None,
        }

    def full(self) -> Json:
        request = {"headers": self.headers, "payload": self.payload}
        response = {"headers": {}, "payload": self.answer}
        return self.item() | {"url": self.url, "request": request, "response": response}


class Deliveries:
    """Sends what the world emits to the App's webhook URL, in the background, in the order of emission."""

    def __init__(self, world: World, show: Serialiser, secret: str, judge: Callable[[str, Json], list[str]] | None) -> None:
        self.world = world
        self.show = show
        self.secret = secret
        self.url: str | None = None
        self.log: list[Attempt] = []
        self.violations: list[str] = []
        self.judge = judge
        self._turn = asyncio.Lock()

    def emit(self, event: str, payload: Json, repository: Repository | None, installation: Installation | None = None) -> None:
        """Deliver an event to the installation that sees the repository, if there is one that is subscribed."""
        of = installation or (self.world.installation_of(repository) if repository is not None else None)
        subscribed = event in self.world.app.events or event.startswith(("installation", "ping"))
        if event != "ping" and (of is None or not subscribed or (of.suspended and not event.startswith("installation"))):
            return
        payload = dict(payload)
        if repository is not None:
            payload["repository"] = self.show.repository(repository)
            if repository.owner.kind == "Organization":
                payload["organization"] = self._organization(repository)
        if of is not None:
            light = {"id": of.id, "node_id": node_id("Installation", of.id)}
            payload["installation"] = self.show.installation(of) if event.startswith("installation") else light
        if self.judge is not None:
            self.violations += [f"delivery {event}: {problem}" for problem in self.judge(event, payload)]
        body = json.dumps(payload).encode()
        self._send(event, str(uuid.uuid4()), body, of.id if of else None, repository.id if repository else None)

    def _organization(self, repository: Repository) -> Json:
        one = f"{self.world.url}/orgs/{repository.owner.login}"
        return {
            "login": repository.owner.login,
            "id": repository.owner.id,
            "node_id": node_id("Organization", repository.owner.id),
            "url": one,
            "repos_url": f"{one}/repos",
            "events_url": f"{one}/events",
            "hooks_url": f"{one}/hooks",
            "issues_url": f"{one}/issues",
            "members_url": f"{one}/members{{/member}}",
            "public_members_url": f"{one}/public_members{{/member}}",
            "avatar_url": f"{self.world.site}/avatars/{repository.owner.id}",
            "description": None,
        }

    def attempt(self, attempt_id: int) -> Attempt:
        for attempt in self.log:
            if attempt.id == attempt_id:
                return attempt
        raise not_found()

    def redeliver(self, attempt_id: int) -> Attempt:
        """Send the same body under the same GUID once more. Raises `Refusal` (404) for an unknown attempt."""
        old = self.attempt(attempt_id)
        return self._send(old.event, old.guid, old.body, old.installation_id, old.repository_id, redelivery=True)

    def _send(
        self,
        event: str,
        guid: str,
        body: bytes,
        installation_id: int | None,
        repository_id: int | None,
        *,
        redelivery: bool = False,
    ) -> Attempt:
        headers = {
            "Accept": "*/*",
            "Content-Type": "application/json",
            "User-Agent": "GitHub-Hookshot/1a2b3c4",
            "X-GitHub-Delivery": guid,
            "X-GitHub-Event": event,
            "X-GitHub-Hook-ID": "1",
            "X-GitHub-Hook-Installation-Target-ID": str(self.world.app.id),
            "X-GitHub-Hook-Installation-Target-Type": "integration",
            **self._enterprise_headers(),
            "X-Hub-Signature-256": f"sha256={hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()}",
        }
        number = self.world.next_id()
        url = self.url or ""
        attempt = Attempt(number, guid, event, body, headers, installation_id, repository_id, url, redelivery)
        self.log.append(attempt)
        if self.url is None:
            attempt.status = "no webhook URL"
        else:
            self.world.spawn(self._post(attempt))
        return attempt

    def _enterprise_headers(self) -> dict[str, str]:
        """https://docs.github.com/enterprise-server@3.14/webhooks/webhook-events-and-payloads#delivery-headers"""
        if not self.world.is_enterprise:
            return {}
        host = self.world.site.removeprefix("http://")
        return {"X-GitHub-Enterprise-Host": host, "X-GitHub-Enterprise-Version": "3.14.0"}

    async def _post(self, attempt: Attempt) -> None:
        async with self._turn:
            started = time.monotonic()
            try:
                async with httpx.AsyncClient(timeout=TIMEOUT, trust_env=False) as client:
                    answer = await client.post(attempt.url, content=attempt.body, headers=attempt.headers)
                attempt.status_code, attempt.answer = answer.status_code, answer.text[:10_000]
                attempt.status = "OK" if answer.is_success else answer.reason_phrase or "Error"
            except httpx.TimeoutException:
                attempt.status = "timed out"
            except httpx.HTTPError as error:
                attempt.status = f"failed to connect to host: {type(error).__name__}"
            attempt.seconds = time.monotonic() - started
