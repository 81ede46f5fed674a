"""The product with its leases disabled, to see that the suite would notice: `python -m tests.chaos.unleased worker`.

Anybody may claim what somebody else works on, and nobody ever hears that he has lost it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from app.cli.main import main
from app.store.leases import claims
from app.store.leases.leases import Lease
from app.store.models import AttemptRow


def _claims_all(row: AttemptRow, now: datetime) -> str | None:
    return f"it has ended as {row.outcome}" if row.status == "ended" else None


@contextlib.asynccontextmanager
async def _unfenced(self: Lease) -> AsyncIterator[tuple[AsyncSession, AttemptRow]]:
    async with self._database.write() as session:
        yield session, await session.get_one(AttemptRow, self.attempt.id)


def disable() -> None:
    """Take the fences away; fails when they are not where they were."""
    assert callable(claims._refusal)
    assert callable(Lease._fenced)
    assert callable(Lease.check)
    claims._refusal = _claims_all
    Lease._fenced = _unfenced  # type: ignore[method-assign]
    Lease.check = lambda self: None  # type: ignore[method-assign]


if __name__ == "__main__":
    disable()
    main()
