"""Creates, lists and kills machines through the E2B SDK.

Every wait has a deadline of our own: the SDK's do not apply to an open stream (Python 3.11), or fire late.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from secrets import token_hex

from e2b_code_interpreter import AsyncSandbox, SandboxQuery

from sandbox.base import SandboxError
from sandbox.e2b.admission import Admission
from sandbox.e2b.errors import RETRIED, failure_of, refused
from sandbox.e2b.plan import Account

TRIES = 4  # creations with one idempotency key
LEASE_SECONDS = 600  # E2B ends a machine whose worker does not renew for this long
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
                if (task := asyncio.current_task()) and task.cancelling():  # the SDK replaced it with a connection error
                    raise asyncio.CancelledError from error
                if failure_of(error) not in RETRIED or number == TRIES - 1:
                    raise refused(error, account.template) from error
            await asyncio.sleep(0.25 * 2**number)
        raise AssertionError("the last try returns or raises")
    except BaseException:
        # A lost answer may have created a machine.
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
    """Try twice; otherwise the machine ends with its lease or is swept."""
    for _ in range(2):
        try:
            async with asyncio.timeout(account.timeouts.call):
                await AsyncSandbox.kill(sandbox_id, **account.options)
            return
        except Exception as error:  # noqa: BLE001 - as in `create`
            if failure_of(error) not in RETRIED:
                return
