from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from app.store.masses import insert_all
from app.store.models import AttemptRow, Base, InstallationRow, RepositoryRow
from app.store.store import Store

NOW = datetime(2026, 3, 1, 12, 30, 15, 250, UTC)
ELSEWHERE = NOW.astimezone(timezone(timedelta(hours=5)))
ATTEMPT = {"repository_id": 7, "installation_id": 11, "trigger": "automatic", "status": "queued", "created_at": ELSEWHERE}


def insert_attempts(connection: Connection, *rows: dict[str, object]) -> None:
    insert_all(connection, Base.metadata.tables["attempts"], [{**ATTEMPT, **row} for row in rows])


@pytest.fixture
async def known(store: Store) -> None:
    async with store.database.write() as session:
        session.add(InstallationRow(id=11, updated_at=NOW))
        await session.flush()
        session.add(
            RepositoryRow(id=7, installation_id=11, full_name="a/b", default_branch="main", private=False, updated_at=NOW)
        )


@pytest.mark.usefixtures("known")
async def test_rows_are_stored_as_sqlalchemy_would_store_them(store: Store) -> None:
    rows = {"id": "1", "head_branch": "a\0b", "number": 1}, {"id": "2", "head_branch": None, "number": 2}
    await store.database.write_in_one(lambda connection: insert_attempts(connection, *rows))
    async with store.database.write() as session:
        session.add(AttemptRow(id="3", head_branch="a\0b", number=3, **ATTEMPT))
    async with store.database.read() as session:
        first, second, usual = (await session.scalars(select(AttemptRow).order_by(AttemptRow.id))).all()
    names = set(AttemptRow.__table__.columns.keys()) - {"id", "number"}
    assert {name: getattr(first, name) for name in names} == {name: getattr(usual, name) for name in names}
    assert (first.created_at, first.head_branch, first.told, second.head_branch, second.number) == (NOW, "ab", False, None, 2)


@pytest.mark.usefixtures("known")
async def test_a_row_that_is_there_already_refuses_all_of_them(store: Store) -> None:
    with pytest.raises(IntegrityError):
        await store.database.write_in_one(lambda connection: insert_attempts(connection, {"id": "1"}, {"id": "1"}))
    assert await store.attempts() == []
