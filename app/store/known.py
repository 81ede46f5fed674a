"""Installations and repositories as GitHub's deliveries name them, inside one transaction of the caller."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from app.store.models import InstallationRow, RepositoryRow
from webhooks.intake import RepositoryRef


async def install(session: AsyncSession, installation_id: int, now: datetime) -> InstallationRow:
    """The installation's row, made when it is new."""
    row = await session.get(InstallationRow, installation_id)
    if row is None:
        row = InstallationRow(id=installation_id, updated_at=now)
        session.add(row)
        await session.flush()
    return row


async def know(session: AsyncSession, installation_id: int, repository: RepositoryRef, now: datetime) -> None:
    """Note the repository as GitHub names it today. An installation that sends events is installed."""
    await install(session, installation_id, now)
    row = await session.get(RepositoryRow, repository.id)
    if row is None:
        row = RepositoryRow(id=repository.id, updated_at=now)
        session.add(row)
    row.installation_id = installation_id
    row.full_name, row.default_branch, row.private = repository.full_name, repository.default_branch, repository.private
    row.removed = False
    if session.is_modified(row):  # else every delivery would wait for the row's lock
        row.updated_at = now
    await session.flush()
