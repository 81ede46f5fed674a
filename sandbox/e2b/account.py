"""The account at E2B: machines are made, listed and killed by it, through the SDK.

Every wait has a deadline of our own: the SDK's are not kept once a stream is open (Python 3.11), or fire late.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from secrets import token_hex

from e2b import AsyncSandbox
from e2b.sandbox.sandbox_api import SandboxQuery

from sandbox.base import SandboxError
from sandbox.e2b.admission import Admission
from sandbox.e2b.errors import RETRIED, refused, trouble_of
from sandbox.e2b.plan import Account

TRIES = 4  # to create one, by the same idempotency key
LEASE_SECONDS = 600  # a machine whose worker is silent for so long is ended by E2B
INSTALLATION, HOLDER = "selfheal-installation", "selfheal-holder"  # metadata


async def create(account: Account, label: str, metadata: Mapping[str, str], admission: Admission) -> AsyncSandbox:
    """Make a machine without any way out. Raises `SandboxUnavailable`; whatever was made nevertheless is gone then."""
    # By one key E2B makes one machine, however often it is asked.
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
            await admission.turn()
            try:
                async with asyncio.timeout(account.patience.create):
                    return await ask()
            except Exception as error:
                if (task := asyncio.current_task()) and task.cancelling():  # it was lost in the line's own error
                    raise asyncio.CancelledError from error
                if trouble_of(error) not in RETRIED or number == TRIES - 1:
                    raise refused(error, account.template) from error
            await asyncio.sleep(0.25 * 2**number)
        raise AssertionError("the last try returns or raises")
    except BaseException:
        # An answer that we did not wait for may have been a machine.
        with suppress(SandboxError):
            await asyncio.shield(kill_held(account, metadata))
        raise


async def kill_held(account: Account, metadata: Mapping[str, str]) -> None:
    """Kill whatever has this metadata. Raises `SandboxUnavailable`."""
    for sandbox_id, _ in await listed(account, metadata):
        await kill(account, sandbox_id)


async def listed(account: Account, metadata: Mapping[str, str]) -> tuple[tuple[str, dict[str, str]], ...]:
    """(id, metadata) of every machine with at least this metadata. Raises `SandboxUnavailable`."""
    found: list[tuple[str, dict[str, str]]] = []
    try:
        pages = AsyncSandbox.list(query=SandboxQuery(metadata=dict(metadata)), **account.options)
        while pages.has_next:
            async with asyncio.timeout(account.patience.call):
                found += [(info.sandbox_id, info.metadata) for info in await pages.next_items()]
    except Exception as error:
        raise refused(error, account.template) from error
    return tuple(found)


async def kill(account: Account, sandbox_id: str) -> None:
    """Two tries; what is not killed ends with its lease, or is swept."""
    for _ in range(2):
        try:
            async with asyncio.timeout(account.patience.call):
                await AsyncSandbox.kill(sandbox_id, **account.options)
            return
        except Exception as error:  # noqa: BLE001 - as above
            if trouble_of(error) not in RETRIED:
                return
