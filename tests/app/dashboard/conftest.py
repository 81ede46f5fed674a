"""The pages on a real socket over a database of their own, and attempts with timelines to look at."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import uvicorn
from sqlalchemy import update

from agent.contract.events import AnyEvent
from app.dashboard.feed import Feed, open_feed
from app.dashboard.pages import create_pages
from app.settings import Settings
from app.store.models import AttemptRow
from app.store.store import Store
from tests.app.requests import run_of, taken
from webhooks.intake import Decision


@dataclass(frozen=True, slots=True)
class Site:
    """Pages that are served, and what they show."""

    url: str
    store: Store
    feed: Feed
    client: httpx.AsyncClient

    async def attempt(self, decision: Decision | None = None, *events: AnyEvent) -> str:
        """A queued attempt; with events, one that a worker has begun and told them of."""
        attempt_id = await taken(self.store, decision or run_of("a" * 40))
        if events:
            await self.tell(attempt_id, *events)
        return attempt_id

    async def tell(self, attempt_id: str, *events: AnyEvent, then: Callable[[Any], Any] | None = None) -> None:
        """Let a worker add events, and do something with its lease."""
        async with self.store.lease(attempt_id, "w1") as lease:
            for event in events:
                await lease.record(event)
            if then is not None:
                await then(lease)
        await self.change(attempt_id, tries=0)  # nobody died

    async def change(self, attempt_id: str, **values: object) -> None:
        async with self.store.database.write() as session:
            await session.execute(update(AttemptRow).where(AttemptRow.id == attempt_id).values(**values))

    async def text(self, path: str, status: int = 200) -> str:
        answer = await self.client.get(path)
        assert answer.status_code == status, answer.text[:500]
        return answer.text


@contextlib.asynccontextmanager
async def serving(settings: Settings, store: Store) -> AsyncIterator[Site]:
    app = create_pages(settings)
    onlooking = store.for_pages()
    async with open_feed(onlooking) as feed:

        async def call(scope: Any, receive: Any, send: Any) -> None:
            scope["state"] = {"store": onlooking, "feed": feed}
            await app(scope, receive, send)

        with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
            server = uvicorn.Server(uvicorn.Config(call, lifespan="off", log_config=None, timeout_graceful_shutdown=5))
            running = asyncio.create_task(server._serve([listener]))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with httpx.AsyncClient(base_url=url, timeout=60) as client:
                try:
                    yield Site(url, store, feed, client)
                finally:
                    await feed.close()
                    server.should_exit = True
                    await running


@pytest.fixture
async def site(settings: Settings, store: Store) -> AsyncIterator[Site]:
    async with serving(settings, store) as site:
        yield site
