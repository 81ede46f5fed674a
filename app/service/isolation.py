"""What has to be shown before a worker runs code that nobody vouches for: that the sandbox really isolates, on this machine.

`selfheal doctor` shows the same and more. Knows what is at stake on the worker's side; how a sandbox is attacked is the
business of `sandbox.proof`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

from app.settings import ENV_FILE, PREFIX, Settings
from app.store.database import address
from app.store.database.address import Sqlite, StoreError
from sandbox.base import Sandboxes, SandboxUnavailable
from sandbox.proof.findings import Finding
from sandbox.proof.prove import Grounds, prove_decisive

SHADOW = Path("/etc/shadow")
_log = structlog.get_logger(__name__)


class NotIsolated(SandboxUnavailable):
    """A sandbox could be opened, but does not hold here; the message names what failed and the way out."""


def grounds_of(settings: Settings) -> Grounds:
    """What hostile code would look for: the data folder, the home, the database, keys, passwords."""
    data = settings.data_dir.resolve()
    files = [SHADOW, *_database_files(settings), Path(ENV_FILE).resolve()]
    if settings.github_private_key_file is not None:
        files.append(settings.github_private_key_file.resolve())
    return Grounds((data, Path.home()), files, settings.sandboxes)


async def require_isolation(settings: Settings, sandboxes: Sandboxes) -> None:
    """Try what matters most, before the first attempt is claimed. Raises `NotIsolated`, `SandboxUnavailable`.

    Where the operator says that all code is trusted, what does not hold is only logged; a sandbox that isolates nothing by
    its own word is not even tried.
    """
    if settings.trust_code and not sandboxes.isolation.untrusted:
        _log.warning("code is trusted, nothing is isolated", sandbox=sandboxes.isolation.name)
        return
    began = time.monotonic()
    found = await prove_decisive(sandboxes, grounds_of(settings))
    failed = [finding for finding in found if finding.is_decisive]
    for finding in failed:
        _log.error("the isolation does not hold", part=finding.part, proof=finding.name, seen=finding.seen, fix=finding.fix)
    if failed and not settings.trust_code:
        raise NotIsolated(_refusal(sandboxes.isolation.name, failed))
    if not failed:
        _log.info("the isolation is proven", sandbox=sandboxes.isolation.name, seconds=round(time.monotonic() - began, 3))


def _database_files(settings: Settings) -> list[Path]:
    """Of SQLite, wherever it is; a server's files are no files of the worker's."""
    try:
        where = address.read(settings.database)
    except StoreError:  # whoever opens it says so
        return []
    if not isinstance(where, Sqlite):
        return []
    path = where.path.resolve()
    return [path, path.with_name(f"{path.name}-wal")]


@asynccontextmanager
async def meanwhile(proof: Coroutine[None, None, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Prove while other things get ready; await what is yielded before anything is run. Ended with the block."""
    task = asyncio.create_task(proof, name="proof of the isolation")
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


def _refusal(name: str, failed: list[Finding]) -> str:
    told = [f"  {finding.part}: {finding.name}: {finding.seen}; {finding.fix}" for finding in failed]
    return "\n".join(
        (
            f"the `{name}` sandbox does not isolate on this machine, so no code of a repository is run here:",
            *told,
            f"`selfheal doctor` shows everything; {PREFIX}TRUST_CODE=true runs it nevertheless, if all code is trusted",
        )
    )
