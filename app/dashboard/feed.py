"""How attempts change while somebody looks: one loop a process asks the database, whoever runs the attempts, for all who look.

    Crowded                  as many look as may     retry_after

A follower holds a place in the timeline and nothing else; it is handed what is new when it asks, so one who reads slowly
costs no memory. What a change comes to is worked out once, however many follow. Knows nothing of HTTP and of pages.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.dashboard.beside import beside
from app.dashboard.summary import Story
from app.store.events import Stored
from app.store.store import Store
from app.store.values import Attempt, Mark

TICK = 0.5  # seconds between two looks at the database
HEARTBEAT = 15.0  # seconds without news after which a follower is told so
MOST_FOLLOWERS = 2_000
PAGE = 200  # events that are read at a time
_MADE = 8  # answers that are kept of one moment: most who look lack the same

_log = structlog.get_logger()


class Crowded(Exception):
    """As many follow as may; another one has to come again."""

    def __init__(self) -> None:
        super().__init__(f"{MOST_FOLLOWERS:,} streams are open already; close a page, or come again")
        self.retry_after = 10  # seconds


@dataclass(frozen=True, slots=True)
class Moment:
    """An attempt as it stands after a change. `fresh` are the events that came with it."""

    attempt: Attempt
    story: Story
    fresh: list[Stored]
    made: dict[str, asyncio.Task[bytes]] = field(default_factory=dict)

    @property
    def events(self) -> int:
        return self.story.events

    @property
    def is_last(self) -> bool:
        return self.attempt.status == "ended"

    async def once(self, name: str, make: Callable[[], bytes]) -> bytes:
        """What `make` makes, in a thread: once for all who ask by the same name at about the same time."""
        making = self.made.get(name)
        if making is None:
            if len(self.made) >= _MADE:
                del self.made[next(iter(self.made))]
            making = self.made[name] = asyncio.create_task(beside(make))
        return await asyncio.shield(making)  # one who leaves does not stop it for the others


@dataclass(frozen=True, slots=True)
class News:
    """What one follower has not seen: events in order, and the attempt as it stands where they are the newest.

    `since` is the follower's place when it was last told how the attempt stands.
    """

    events: list[Stored]
    moment: Moment | None
    since: int


@dataclass(slots=True)
class _Watched:
    """One attempt that is followed."""

    followers: int = 0
    mark: Mark | None = None
    moment: Moment | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Feed:
    """Made by `open_feed`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watched: dict[str, _Watched] = {}
        self.followers = 0
        self._closing = False

    def admit(self) -> None:
        """Raises `Crowded` where nobody else may follow."""
        if self.followers >= MOST_FOLLOWERS:
            raise Crowded

    async def follow(self, attempt_id: str, after: int, since: int | None = None) -> AsyncGenerator[News | None, None]:
        """What comes beyond the event `after`, until the attempt has ended or the service stops.

        `since` is the follower's place when it was last told how the attempt stands, where that is not `after`. None is a
        sign of life where nothing happened; a database that is away is waited for. Ends at once where there is no such attempt.
        """
        since = after if since is None else min(since, after)
        watched = self._watched.setdefault(attempt_id, _Watched())
        watched.followers += 1
        self.followers += 1
        try:
            seen: Moment | None = None
            while not self._closing:
                try:
                    if watched.moment is None:
                        await self._look(attempt_id, watched, None)
                    changed, moment = watched.changed, watched.moment
                    if moment is None:
                        return
                    missed = await self._missed(attempt_id, after, moment) if moment is not seen else None
                except (SQLAlchemyError, OSError):  # of which `run` tells
                    await asyncio.sleep(TICK)
                    yield None
                    continue
                if missed:
                    after = missed[-1].sequence
                    yield News(missed, None, since)
                    continue
                if moment is not seen:
                    # A place beyond the events that there are is one more name for their end.
                    yield News(
                        [stored for stored in moment.fresh if stored.sequence > after], moment, min(since, moment.events)
                    )
                    since = after = max(after, moment.events)
                    seen = moment
                    if moment.is_last:
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

    async def _missed(self, attempt_id: str, after: int, moment: Moment) -> list[Stored] | None:
        """Events between the follower's place and those that came with the moment; None when there are none."""
        first = moment.fresh[0].sequence if moment.fresh else moment.events + 1
        if after >= first - 1:
            return None
        events = await self._store.timeline(attempt_id, after, limit=min(PAGE, first - 1 - after))
        return events or None

    async def run(self) -> None:
        """Look again and again; a database that is away is waited for, and told once."""
        is_away = False
        while True:
            await asyncio.sleep(TICK)
            try:
                await self._look_at_all()
                if is_away:
                    _log.info("the pages read the database again")
                is_away = False
            except (SQLAlchemyError, OSError) as error:
                if not is_away:
                    _log.warning("the pages cannot read the database", error=str(error).partition("\n")[0])
                is_away = True
            except Exception:  # noqa: BLE001 - nobody would begin it again, and every page would stand still
                _log.exception("the pages cannot tell what is new")

    async def close(self) -> None:
        """Let every follower come to its end."""
        self._closing = True
        for watched in self._watched.values():
            watched.changed.set()

    async def _look_at_all(self) -> None:
        if not self._watched:
            return
        for attempt_id, mark in (await self._store.marks(tuple(self._watched))).items():
            watched = self._watched.get(attempt_id)
            if watched is None or watched.moment is None or mark == watched.mark:
                continue
            try:
                await self._look(attempt_id, watched, mark)
            except (SQLAlchemyError, OSError):
                raise
            except Exception:  # noqa: BLE001 - one attempt's fault; the others are told all the same
                watched.mark = mark  # until it changes again
                _log.exception("an attempt cannot be told", attempt=attempt_id)

    async def _look(self, attempt_id: str, watched: _Watched, mark: Mark | None) -> None:
        """Read what is new of an attempt and wake those who follow it."""
        async with watched.reading:
            if mark is None and watched.moment is not None:
                return  # somebody else has just begun with it
            if mark is None:
                mark = (await self._store.marks((attempt_id,))).get(attempt_id)
            story = watched.moment.story if watched.moment else Story()
            # The attempt first: what it says of its events is there when they are read.
            attempt = await self._store.attempt(attempt_id)
            if attempt is None:
                return
            story, fresh = await retold(self._store, attempt_id, story, PAGE)
            # At the beginning nobody waits for old events: each follower asks for those that it lacks.
            watched.moment = Moment(attempt, story, fresh if watched.moment else [])
            watched.mark = mark
            watched.changed.set()
            watched.changed = asyncio.Event()


async def retold(store: Store, attempt_id: str, story: Story, most: int) -> tuple[Story, list[Stored]]:
    """The story with the events that came after it, and the newest `most` of those; read in pieces, as some are long."""
    fresh: deque[Stored] = deque(maxlen=most)
    while events := await store.timeline(attempt_id, story.events, limit=PAGE):
        story = story.with_events(events)
        fresh.extend(events)
    return story, list(fresh)


@contextlib.asynccontextmanager
async def open_feed(store: Store) -> AsyncIterator[Feed]:
    """A feed whose loop runs for the length of the block."""
    feed = Feed(store)
    running = asyncio.create_task(feed.run(), name="feed")
    try:
        yield feed
    finally:
        await feed.close()
        running.cancel()
        await asyncio.wait({running})
