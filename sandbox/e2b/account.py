"""Creates, lists and kills machines through the E2B SDK, within the plan's limits; also kills the machines of dead workers.

Every wait has our own deadline, because the SDK's deadlines do not apply to an open stream (Python 3.11) or fire late.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex

from e2b_code_interpreter import AsyncSandbox, SandboxQuery

from sandbox import folders
from sandbox.base import SandboxError, SandboxUnavailable
from sandbox.e2b.errors import RETRIED, failure_of, refused
from sandbox.e2b.plan import Account
from sandbox.host.folder_locks import is_in_use

PATIENCE = 60.0  # seconds an attempt waits before it returns to the queue
RETRY_AFTER = 30.0
FIRST_WAIT = 0.25  # seconds before a request is repeated; it doubles with each


class Admission:
    """Limits this worker to `at_once` sandboxes and `per_second` creations. If others use up the plan, E2B answers 429."""

    def __init__(self, at_once: int, per_second: float) -> None:
        self._slots = asyncio.Semaphore(at_once)
        self._at_once, self._apart = at_once, 1.0 / per_second
        self._next = 0.0

    @asynccontextmanager
    async def slot(self, timeouts: float = PATIENCE) -> AsyncIterator[None]:
        """Hold one slot. Raises `SandboxUnavailable`, to be retried later, if none becomes free."""
        try:
            async with asyncio.timeout(timeouts):
                await self._slots.acquire()
        except TimeoutError:
            raise SandboxUnavailable(f"all {self._at_once} sandboxes of the plan are in use", RETRY_AFTER) from None
        try:
            yield
        finally:
            self._slots.release()

    async def wait_turn(self) -> None:
        """Wait until the next creation is due."""
        loop = asyncio.get_running_loop()
        due = max(self._next, loop.time())
        self._next = due + self._apart
        await asyncio.sleep(due - loop.time())


TRIES = 4  # creations with one idempotency key
LEASE_SECONDS = 600  # E2B ends a machine whose worker does not renew the lease for this long
INSTALLATION, HOLDER = "selfheal-installation", "selfheal-holder"  # metadata


async def create(account: Account, label: str, metadata: Mapping[str, str], admission: Admission) -> AsyncSandbox:
    """Create a machine without network. Raises `SandboxUnavailable`, after removing whatever was created."""
    # E2B creates one machine per key, however often it is asked.
    key = f"{re.sub('[^a-z0-9]+', '-', label.lower())[:200].strip('-')}-{token_hex(8)}".lstrip("-")
    ask = partial(
        AsyncSandbox.create,
        account.template,
        timeout=min(LEASE_SECONDS, int(account.lifetime)),
        metadata=dict(metadata),
        allow_internet_access=False,
        idempotency_key=key,
        **account.options,
    )
    try:
        for number in range(TRIES):
            await admission.wait_turn()
            try:
                async with asyncio.timeout(account.timeouts.create):
                    return await ask()
            except Exception as error:  # the SDK raises bare `Exception` and transport errors too
                if (task := asyncio.current_task()) and task.cancelling():  # the SDK turned this into a connection error
                    raise asyncio.CancelledError from error
                if failure_of(error) not in RETRIED or number == TRIES - 1:
                    raise refused(error, account.template) from error
            await asyncio.sleep(FIRST_WAIT * 2**number)
        raise AssertionError("the last try returns or raises")
    except BaseException:  # also a cancellation: a request whose answer was lost may have created a machine
        with suppress(SandboxError):
            await asyncio.shield(kill_held(account, metadata))
        raise


async def kill_held(account: Account, metadata: Mapping[str, str]) -> None:
    """Kill all machines with this metadata. Raises `SandboxUnavailable`."""
    for sandbox_id, _ in await listed(account, metadata):
        await kill(account, sandbox_id)


async def listed(account: Account, metadata: Mapping[str, str]) -> tuple[tuple[str, dict[str, str]], ...]:
    """(id, metadata) of every machine with at least this metadata. Raises `SandboxUnavailable`."""
    found: list[tuple[str, dict[str, str]]] = []
    try:
        pages = AsyncSandbox.list(query=SandboxQuery(metadata=dict(metadata)), **account.options)
        while pages.has_next:
            async with asyncio.timeout(account.timeouts.call):
                found += [(info.sandbox_id, info.metadata) for info in await pages.next_items()]
    except Exception as error:  # as in `create`
        raise refused(error, account.template) from error
    return tuple(found)


async def kill(account: Account, sandbox_id: str) -> None:
    """Try twice to kill a machine. If both tries fail, it ends when its lease expires, or is swept."""
    for _ in range(2):
        try:
            async with asyncio.timeout(account.timeouts.call):
                await AsyncSandbox.kill(sandbox_id, **account.options)
            return
        except Exception as error:  # noqa: BLE001 - as in `create`
            if failure_of(error) not in RETRIED:
                return


EVERY = 600.0  # seconds
_INSTALLATION_FILE = "installation"
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
        """Kill orphaned machines, at most every `EVERY` seconds. If they cannot be listed, the next sweep tries again."""
        if self._last is not None and time.monotonic() - self._last < EVERY:
            return
        self._last = time.monotonic()  # before listing, or every sandbox that opens meanwhile would sweep too
        try:
            found = await listed(self._account, {INSTALLATION: await self._installation()})
        except SandboxUnavailable as error:
            self._last = None
            _log.warning("cannot list orphaned machines: %s", error)
            return
        for sandbox_id, metadata in found:
            holder = metadata.get(HOLDER, "")
            if not await asyncio.to_thread(is_in_use, self._folder / re.sub("[^A-Za-z0-9-]", "", holder)):
                await kill(self._account, sandbox_id)
        await asyncio.to_thread(folders.sweep, self._folder)

    async def _installation(self) -> str:
        return await asyncio.to_thread(_installation, self._folder)


def _installation(folder: Path) -> str:
    """The installation's id, created once. If two processes create it at the same time, both use the first one's."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path, fresh = folder / _INSTALLATION_FILE, folder / f"{_INSTALLATION_FILE}-{token_hex(6)}"
    if not path.is_file():
        fresh.write_text(token_hex(16))
        try:
            path.hardlink_to(fresh)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text()
