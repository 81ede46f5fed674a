"""Finds machines of dead workers at E2B: those of this installation whose folder on this machine is no longer locked.

An installation is a data folder. Workers that share it see each other's locks; machines of other installations are left alone.
Machines of a computer that never returns end with their lease.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from pathlib import Path
from secrets import token_hex

from sandbox import folders
from sandbox.base import SandboxUnavailable
from sandbox.e2b import account as accounts
from sandbox.e2b.account import HOLDER, INSTALLATION
from sandbox.e2b.plan import Account

EVERY = 600.0  # seconds
_NAME = "installation"
_log = logging.getLogger(__name__)


class OrphanSweeper:
    """Kills orphaned machines; each open sandbox has a folder below `folder`."""

    def __init__(self, account: Account, folder: Path) -> None:
        self._account, self._folder = account, folder
        self._last: float | None = None

    async def metadata(self, holder: str, label: str) -> dict[str, str]:
        """Metadata that identifies the machine of `holder`, a folder name."""
        return {INSTALLATION: await self._installation(), HOLDER: holder, "selfheal-attempt": label[:200]}

    async def sweep(self) -> None:
        """Kill orphans, at most every `EVERY` seconds; errors are left to the next time."""
        if self._last is not None and time.monotonic() - self._last < EVERY:
            return
        self._last = time.monotonic()
        try:
            found = await accounts.listed(self._account, {INSTALLATION: await self._installation()})
        except SandboxUnavailable as error:
            _log.warning("cannot list orphaned machines: %s", error)
            return
        for sandbox_id, metadata in found:
            holder = metadata.get(HOLDER, "")
            if not await asyncio.to_thread(folders.is_in_use, self._folder / re.sub("[^A-Za-z0-9-]", "", holder)):
                await accounts.kill(self._account, sandbox_id)
        await asyncio.to_thread(folders.sweep, self._folder)

    async def _installation(self) -> str:
        return await asyncio.to_thread(_installation, self._folder)


def _installation(folder: Path) -> str:
    """The installation's id, created once; a concurrent second creator reads the first one's."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path, fresh = folder / _NAME, folder / f"{_NAME}-{token_hex(6)}"
    if not path.is_file():
        fresh.write_text(token_hex(16))
        try:
            path.hardlink_to(fresh)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text()
