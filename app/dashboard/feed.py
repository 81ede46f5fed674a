"""Live updates of attempts: one loop per process polls the database for all followers.

    TooManyFollowers    the limit of followers is reached    retry_after

A follower is only a position in the timeline and pulls updates, so slow readers cost no memory. Each change is rendered once
for all followers. This module must not know about HTTP or pages.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.dashboard.safe_text import run_in_thread
from app.dashboard.status import AttemptSummary
from app.store.events import StoredEvent
from app.store.store import Store
from app.store.values import Attempt, AttemptVersion

TICK = 0.5  # seconds between two polls
HEARTBEAT = 15.0  # seconds without an update after which a follower receives None
MOST_FOLLOWERS = 2_000
PAGE = 200  # events read at a time
_MADE = 8  # renderings cached per snapshot; most followers need the same one

_log = structlog.get_logger()


class TooManyFollowers(Exception):
    """The limit of followers is reached; try again later."""

    def __init__(self) -> None:
        super().__init__(f"{MOST_FOLLOWERS:,} streams are already open; close a page, or try again later")
        self.retry_after = 10  # seconds


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An attempt after a change. `fresh` holds the events of that change."""

    attempt: Attempt
    summary: AttemptSummary
    fresh: list[StoredEvent]
    made: dict[str, asyncio.Task[bytes]] = field(default_factory=dict)

    @property
    def events(self) -> int:
        return self.summary.events

    @property
    def is_last(self) -> bool:
        return self.attempt.status == "ended"

    async def once(self, name: str, make: Callable[[], bytes]) -> bytes:
        """The result of `make`, run in a thread; concurrent calls with the same name share one run."""
        making = self.made.get(name)
        if making is None:
            if len(self.made) >= _MADE:
                del self.made[next(iter(self.made))]
            making = self.made[name] = asyncio.create_task(run_in_thread(make))
        return await asyncio.shield(making)  # cancelling one caller does not stop the work for the others


@dataclass(frozen=True, slots=True)
class Update:
    """Events that a follower has not seen, and the current snapshot if these events complete it.

    `since` is the follower's position when it last received a snapshot.
    """

    events: list[StoredEvent]
    snapshot: Snapshot | None
    since: int


@dataclass(slots=True)
class _Watch:
    """One attempt with followers."""

    followers: int = 0
    mark: AttemptVersion | None = None
    snapshot: Snapshot | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Feed:
    """Follows attempts for pages and streams; created by `open_feed`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watched: dict[str, _Watch] = {}
        self.followers = 0
        self._closing = False

    def admit(self) -> None:
        """Raises `TooManyFollowers`."""
        if self.followers >= MOST_FOLLOWERS:
            raise TooManyFollowers

    async def follow(self, attempt_id: str, after: int, since: int | None = None) -> AsyncGenerator[Update | None, None]:
        """Updates after the event `after`, until the attempt ends or the service stops; none if there is no such attempt.

        `since` is the follower's position when it last received a snapshot; the default is `after`. None is a heartbeat. While
        the database is unavailable, only heartbeats are sent.
        """
        since = after if since is None else min(since, after)
        watched = self._watched.setdefault(attempt_id, _Watch())
        watched.followers += 1
        self.followers += 1
        try:
            seen: Snapshot | None = None
            while not self._closing:
                try:
                    if watched.snapshot is None:
                        await self._refresh(attempt_id, watched, None)
                    changed, snapshot = watched.changed, watched.snapshot
                    if snapshot is None:
                        return
                    missed = await self._missed(attempt_id, after, snapshot) if snapshot is not seen else None
                except (SQLAlchemyError, OSError):  # logged by `run`
                    await asyncio.sleep(TICK)
                    yield None
                    continue
                if missed:
                    after = missed[-1].sequence
                    yield Update(missed, None, since)
                    continue
                if snapshot is not seen:
                    # A position after the last event counts as the last event.
                    yield Update(
                        [stored for stored in snapshot.fresh if stored.sequence > after], snapshot, min(since, snapshot.events)
                    )
                    since = after = max(after, snapshot.events)
                    seen = snapshot
                    if snapshot.is_last:
                        return
                    continue
                try:
                    async with asyncio.timeout(HEARTBEAT):
                        await changed.wait()
                except TimeoutError:
                    yield None
        finally:
            self.followers -= 1
            watched.followers -= 1
            if not watched.followers:
                self._watched.pop(attempt_id, None)

    async def _missed(self, attempt_id: str, after: int, snapshot: Snapshot) -> list[StoredEvent] | None:
        """Events between the follower's position and the snapshot's fresh events; None if there are none."""
        first = snapshot.fresh[0].sequence if snapshot.fresh else snapshot.events + 1
        if after >= first - 1:
            return None
        events = await self._store.timeline(attempt_id, after, limit=min(PAGE, first - 1 - after))
        return events or None

    async def run(self) -> None:
        """Poll forever; log once when the database becomes unavailable."""
        is_unavailable = False
        while True:
            await asyncio.sleep(TICK)
            try:
                await self._poll()
                if is_unavailable:
                    _log.info("the pages can read the database again")
                is_unavailable = False
            except (SQLAlchemyError, OSError) as error:
                if not is_unavailable:
                    _log.warning("the pages cannot read the database", error=str(error).partition("\n")[0])
                is_unavailable = True
            except Exception:  # noqa: BLE001 - if this loop ended, no page would update any more
                _log.exception("polling for page updates failed")

    async def close(self) -> None:
        """End all followers."""
        self._closing = True
        for watched in self._watched.values():
            watched.changed.set()

    async def _poll(self) -> None:
        if not self._watched:
            return
        for attempt_id, mark in (await self._store.versions(tuple(self._watched))).items():
            watched = self._watched.get(attempt_id)
            if watched is None or watched.snapshot is None or mark == watched.mark:
                continue
            try:
                await self._refresh(attempt_id, watched, mark)
            except (SQLAlchemyError, OSError):
                raise
            except Exception:  # noqa: BLE001 - one attempt's fault; the others are still polled
                watched.mark = mark  # do not read it again until it changes
                _log.exception("cannot read an attempt to show its page", attempt=attempt_id)

    async def _refresh(self, attempt_id: str, watched: _Watch, mark: AttemptVersion | None) -> None:
        """Read an attempt's changes and wake its followers."""
        async with watched.reading:
            if mark is None and watched.snapshot is not None:
                return  # another caller has just read it
            if mark is None:
                mark = (await self._store.versions((attempt_id,))).get(attempt_id)
            summary = watched.snapshot.summary if watched.snapshot else AttemptSummary()
            # Read the attempt before its events, so that the events include all that the attempt reflects.
            attempt = await self._store.attempt(attempt_id)
            if attempt is None:
                return
            summary, fresh = await extended_summary(self._store, attempt_id, summary, PAGE)
            # The first snapshot has no fresh events: each follower reads the old events that it needs.
            watched.snapshot = Snapshot(attempt, summary, fresh if watched.snapshot else [])
            watched.mark = mark
            watched.changed.set()
            watched.changed = asyncio.Event()


async def extended_summary(
    store: Store, attempt_id: str, summary: AttemptSummary, most: int
) -> tuple[AttemptSummary, list[StoredEvent]]:
    """The summary including later events, and the newest `most` of these events. Reads in pages, as events can be long."""
    fresh: deque[StoredEvent] = deque(maxlen=most)
    while events := await store.timeline(attempt_id, summary.events, limit=PAGE):
        summary = summary.with_events(events)
        fresh.extend(events)
    return summary, list(fresh)


@contextlib.asynccontextmanager
async def open_feed(store: Store) -> AsyncIterator[Feed]:
    """A feed whose loop runs during the block."""
    feed = Feed(store)
    running = asyncio.create_task(feed.run(), name="feed")
    try:
        yield feed
    finally:
        await feed.close()
        running.cancel()
        await asyncio.wait({running})
