"""Checks the database: that it opens and can be written, and its migration."""

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


async def run_checks(settings: Settings) -> AsyncIterator[Check]:
    source = "in the data folder" if settings.database_url is None else f"from {PREFIX}DATABASE_URL"
    try:
        async with asyncio.timeout(SECONDS):
            found = await condition(settings.database)
    except StoreError as error:
        fix = f"check that it runs, that its user has write access, and that {PREFIX}DATABASE_URL is correct"
        yield Check("database", "opens", "failed", str(error), fix)
        return
    except TimeoutError:
        fix = f"check that it runs and is reachable from here, and that {PREFIX}DATABASE_URL is correct"
        yield Check("database", "opens", "failed", f"no response within {SECONDS:.0f} s", fix)
        return
    if found is None:
        yield Check("database", "opens", "ok", "SQLite in the data folder; created when the service starts")
        return
    if found.free is not None and found.free < NO_ROOM:
        room = f"{found.free / (1 << 20):.1f} MiB free, {_LEAST_MIB} MiB needed to start"
        seen = f"{found.name}: the disk is full ({room})"
        yield Check("database", "opens", "failed", seen, f"free disk space, or set {PREFIX}DATABASE_URL to another database")
        return
    yield Check("database", "opens", "ok", f"{found.name} {found.version} {source}, writable")
    if not found.known:
        fix = f"run the version of Selfheal that migrated it, or set {PREFIX}DATABASE_URL to another database"
        yield Check("database", "migration", "failed", f"at {found.revision}, which this version does not know", fix)
    elif found.revision == found.newest:
        yield Check("database", "migration", "ok", f"at {found.newest} (latest)")
    else:
        seen = f"at {found.revision or 'none'}; the service migrates to {found.newest} when it starts"
        yield Check("database", "migration", "ok", seen)
