"""Installations and repositories as GitHub's deliveries name them, inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, bindparam, insert, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.store.models import InstallationRow, RepositoryRow
from webhooks.intake import RepositoryRef

_REPOSITORIES = select(RepositoryRow).where(RepositoryRow.id.in_(bindparam("ids", expanding=True)))
_INSTALLATIONS = select(InstallationRow.id).where(InstallationRow.id.in_(bindparam("ids", expanding=True)))


class NamedRepository(NamedTuple):
    """A repository as a delivery of an installation names it."""

    installation_id: int
    repository: RepositoryRef


async def find_or_create_installation(session: AsyncSession, installation_id: int, now: datetime) -> InstallationRow:
    """The installation's row, created if it is new."""
    row = await session.get(InstallationRow, installation_id)
    if row is None:
        row = InstallationRow(id=installation_id, updated_at=now)
        session.add(row)
        await session.flush()
    return row


async def record_repository(session: AsyncSession, installation_id: int, repository: RepositoryRef, now: datetime) -> None:
    """Record the repository as GitHub names it now. An installation that sends events is installed."""
    connection = await session.connection()
    await connection.run_sync(record_repositories, {repository.id: NamedRepository(installation_id, repository)}, now)


def record_repositories(connection: Connection, named: Mapping[int, NamedRepository], now: datetime) -> None:
    """As `record_repository`, for many repositories by their ids. Writes only changes, as writing takes the rows' locks."""
    rows = connection.execute(_REPOSITORIES, {"ids": list(named)})
    known = {row.id: row for row in rows}
    new = [_row(one, now) for id_, one in named.items() if id_ not in known]
    changed = [_row(one, now) for id_, one in named.items() if id_ in known and _is_changed(known[id_], one)]
    if not new and not changed:
        return
    installations = {row["installation_id"] for row in (*new, *changed)}
    missing = installations - set(connection.scalars(_INSTALLATIONS, {"ids": list(installations)}))
    if missing:
        connection.execute(insert(InstallationRow), [{"id": id_, "updated_at": now} for id_ in missing])
    if new:
        connection.execute(insert(RepositoryRow), new)
    for row in changed:
        connection.execute(update(RepositoryRow).where(RepositoryRow.id == row["id"]).values(row))


def _row(named: NamedRepository, now: datetime) -> dict[str, Any]:
    repository = named.repository
    return {
        "id": repository.id,
        "installation_id": named.installation_id,
        "full_name": repository.full_name,
        "default_branch": repository.default_branch,
        "private": repository.private,
        "removed": False,
        "updated_at": now,
    }


def _is_changed(known: Row[Any], named: NamedRepository) -> bool:
    repository = named.repository
    current = (named.installation_id, repository.full_name, repository.default_branch, repository.private, False)
    return current != (known.installation_id, known.full_name, known.default_branch, known.private, known.removed)
