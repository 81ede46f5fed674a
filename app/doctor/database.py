"""The database: which, whether it opens, at which migration it is, whether it can be written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from app.cli.doctor.checks import Check
from app.cli.doctor.setup import NO_ROOM
from app.settings import PREFIX, Settings
from app.store.database.condition import condition
from app.store.database.database import StoreError

SECONDS = 8.0
_LEAST_MIB = NO_ROOM >> 20


async def look(settings: Settings) -> AsyncIterator[Check]:
    which = "the data folder's" if settings.database_url is None else f"what {PREFIX}DATABASE_URL names"
    try:
        async with asyncio.timeout(SECONDS):
            found = await condition(settings.database)
    except StoreError as error:
        fix = f"see that it runs, that its user may write it, and that {PREFIX}DATABASE_URL is right"
        yield Check("database", "opens", "failed", str(error), fix)
        return
    except TimeoutError:
        fix = f"see that it runs and can be reached from here, and that {PREFIX}DATABASE_URL is right"
        yield Check("database", "opens", "failed", f"it did not answer within {SECONDS:.0f} s", fix)
        return
    if found is None:
        yield Check("database", "opens", "ok", "SQLite in the data folder; it is made when the service starts")
        return
    if found.free is not None and found.free < NO_ROOM:
        room = f"{found.free / (1 << 20):.1f} MiB are free, and the service takes {_LEAST_MIB} to start"
        seen = f"{found.name}: its disk is full: {room}"
        yield Check(
            "database", "opens", "failed", seen, f"make room there, or name a database elsewhere with {PREFIX}DATABASE_URL"
        )
        return
    yield Check("database", "opens", "ok", f"{found.name}, version {found.version} ({which}); it can be written")
    if not found.known:
        fix = f"run the version of Selfheal that made it, or name another database with {PREFIX}DATABASE_URL"
        yield Check("database", "migration", "failed", f"it is at {found.revision}, which this version does not know", fix)
    elif found.revision == found.newest:
        yield Check("database", "migration", "ok", f"it is at the newest, {found.newest}")
    else:
        seen = f"it is at {found.revision or 'none'}; the service brings it to {found.newest} when it starts"
        yield Check("database", "migration", "ok", seen)
