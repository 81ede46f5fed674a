"""Before a worker runs untrusted code, proves that the sandbox isolates on this machine.

`selfheal doctor` shows the same and more. This module names what the worker has to protect; `sandbox.proof` attacks the
sandbox.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

from app.private_files import of_database
from app.settings import ENV_FILE, PREFIX, Settings
from app.store.database import address
from app.store.database.address import Sqlite, StoreError
from sandbox.base import Sandboxes, SandboxUnavailable
from sandbox.proof.prove import HostAssets, prove_decisive

SHADOW = Path("/etc/shadow")
_log = structlog.get_logger(__name__)


class NotIsolated(SandboxUnavailable):
    """A sandbox can be opened but does not isolate here; the message says what failed and what to do."""


def grounds_of(settings: Settings) -> HostAssets:
    """The files that hostile code would look for: data folder, home, database, keys, passwords."""
    data = settings.data_dir.resolve()
    files = [SHADOW, *database_files(settings), Path(ENV_FILE).resolve()]
    if settings.github_private_key_file is not None:
        files.append(settings.github_private_key_file.resolve())
    return HostAssets((data, Path.home()), files, settings.sandboxes)


async def require_isolation(settings: Settings, sandboxes: Sandboxes) -> None:
    """Run the decisive proofs before the first attempt is claimed. Raises `NotIsolated`, `SandboxUnavailable`.

    If the operator trusts all code, failures are only logged, and a sandbox that declares no isolation is not tested.
    """
    if settings.trust_code and not sandboxes.isolation.untrusted:
        _log.warning("no isolation: all code is trusted", sandbox=sandboxes.isolation.name)
        return
    began = time.monotonic()
    found = await prove_decisive(sandboxes, grounds_of(settings))
    failed = [finding for finding in found if finding.is_decisive]
    for finding in failed:
        _log.error("isolation failed", part=finding.part, proof=finding.name, seen=finding.seen, fix=finding.fix)
    if failed and not settings.trust_code:
        failures = [f"  {finding.part}: {finding.name}: {finding.seen}; {finding.fix}" for finding in failed]
        name = sandboxes.isolation.name
        first = f"the `{name}` sandbox does not isolate on this machine, so no repository code is run here:"
        last = f"`selfheal doctor` shows details; if you trust all code, {PREFIX}TRUST_CODE=true runs it anyway"
        raise NotIsolated("\n".join([first, *failures, last]))
    if not failed:
        _log.info("isolation proven", sandbox=sandboxes.isolation.name, seconds=round(time.monotonic() - began, 3))


def database_files(settings: Settings) -> list[Path]:
    """SQLite's files, with those of the checkpoints; a database server's files are not on the worker."""
    try:
        where = address.read(settings.database)
    except StoreError:  # reported when it is opened
        return []
    if not isinstance(where, Sqlite):
        return []
    path = where.path.resolve()
    return [*of_database(path), *of_database(path.with_name("checkpoints.db"))]


@asynccontextmanager
async def in_background(proof: Coroutine[None, None, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run the proof while other parts start; await the yielded task before running code. It is cancelled with the block."""
    task = asyncio.create_task(proof, name="isolation proof")
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
