"""What dead workers left at E2B: machines of this installation whose folder on this machine nobody holds any more.

An installation is a data folder: workers that share it know of each other by the folders' locks, others are not judged. The
machines of a computer that never comes back end with their lease.
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


class Orphans:
    """Sweeps below `folder`, where each open sandbox has a folder of its own."""

    def __init__(self, account: Account, folder: Path) -> None:
        self._account, self._folder = account, folder
        self._last: float | None = None

    async def metadata(self, holder: str, label: str) -> dict[str, str]:
        """What the machine of `holder`, a folder's name, is found by."""
        return {INSTALLATION: await self._installation(), HOLDER: holder, "selfheal-attempt": label[:200]}

    async def sweep(self) -> None:
        """Kill them, if it is time. What cannot be asked now is asked at the next time."""
        if self._last is not None and time.monotonic() - self._last < EVERY:
            return
        self._last = time.monotonic()
        try:
            found = await accounts.listed(self._account, {INSTALLATION: await self._installation()})
        except SandboxUnavailable as error:
            _log.warning("what dead workers left cannot be looked for: %s", error)
            return
        for sandbox_id, metadata in found:
            holder = metadata.get(HOLDER, "")
            if not await asyncio.to_thread(folders.is_held, self._folder / re.sub("[^A-Za-z0-9-]", "", holder)):
                await accounts.kill(self._account, sandbox_id)
        await asyncio.to_thread(folders.sweep, self._folder)

    async def _installation(self) -> str:
        return await asyncio.to_thread(_installation, self._folder)


def _installation(folder: Path) -> str:
    """A name of its own, made once. Whoever is second reads what the first one wrote."""
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
