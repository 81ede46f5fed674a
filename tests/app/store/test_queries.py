"""What lists are made of: filters, places to go on from, and marks of what changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import event, insert, text, update

from agent.contract.events import StepStarted
from agent.contract.outcome import Outcome
from app.store.models import AttemptRow, BlobRow
from app.store.store import Store
from app.store.values import AttemptQuery, Cursor
from tests.app.requests import COMMAND, REPOSITORY, cancel, run_of, taken


async def test_attempts_of_one_moment_are_listed_once_each(store: Store) -> None:
    """The place is time and id: attempts that share their time are neither left out nor shown twice."""
    ids = {await taken(store, run_of(f"{number:040x}")) for number in range(9)}
    async with store.database.write() as session:
        await session.execute(update(AttemptRow).values(created_at=store.clock.now()))
    seen: list[str] = []
    before: Cursor | None = None
    while page := await store.page_of_attempts(AttemptQuery(before=before), limit=2):
        seen += [attempt.id for attempt in page]
        before = Cursor(page[-1].created_at, page[-1].id)
    assert sorted(seen) == sorted(ids)
    assert seen == sorted(ids, reverse=True)


async def test_filters_narrow_the_list(store: Store) -> None:
    run = await taken(store, run_of("a" * 40))
    command = await taken(store, COMMAND)
    other = await taken(store, replace(run_of("b" * 40), repository=replace(REPOSITORY, id=8, full_name="acme/100%_sure")))
    await cancel(store, other, Outcome.SUPERSEDED, "moved on")

    async def found(**wanted: object) -> set[str]:
        return {attempt.id for attempt in await store.page_of_attempts(AttemptQuery(**wanted))}  # type: ignore[arg-type]

    assert await found() == {run, command, other}
    assert await found(repository="OCTO/calc") == {run, command}
    assert await found(repository="%_s") == {other}
    assert await found(repository="_") == {other}
    assert await found(status="queued") == {run, command}
    assert await found(outcome=Outcome.SUPERSEDED) == {other}
    assert await found(trigger="command") == {command}
    assert await found(trigger="fork") == set()
    assert await found(repository="calc", trigger="automatic", status="queued") == {run}


async def test_a_mark_changes_with_whatever_is_told(store: Store) -> None:
    attempt_id = await taken(store, run_of("a" * 40))
    marks = [await store.versions([attempt_id, "nobody"])]
    async with store.lease(attempt_id, "w1") as lease:
        marks.append(await store.versions([attempt_id]))
        await lease.record(StepStarted(text="one", step="x"))
        marks.append(await store.versions([attempt_id]))
        await lease.end(Outcome.GAVE_UP, "enough")
    marks.append(await store.versions([attempt_id]))
    assert len({mark[attempt_id] for mark in marks}) == 4
    assert all(list(mark) == [attempt_id] for mark in marks)


async def test_marks_of_very_many_attempts_are_found(store: Store) -> None:
    attempt_id = await taken(store, run_of("a" * 40))
    assert list(await store.versions([*(f"{number:032x}" for number in range(2000)), attempt_id])) == [attempt_id]


async def test_a_timeline_is_read_in_pieces(store: Store) -> None:
    attempt_id = await taken(store, run_of("a" * 40))
    async with store.lease(attempt_id, "w1") as lease:
        for number in range(5):
            await lease.record(StepStarted(text=str(number), step="x"))
    assert [stored.sequence for stored in await store.timeline(attempt_id, 1, limit=2)] == [2, 3]


async def test_the_sweep_and_the_forgetting_read_no_more_the_more_there_was(store: Store) -> None:
    """Each statement's plan, as the database tells it, among very many attempts that are over."""
    last = await taken(store, run_of("a" * 40))
    now, engine = store.clock.now(), store.database.engine
    times = [now - timedelta(days=100 + number / 100) for number in range(3000)]
    over = {"repository_id": 7, "installation_id": 11, "trigger": "command", "status": "ended", "told": True, "forgotten": True}
    attempts = [{"id": f"{number:032x}", "created_at": at, "ended_at": at, **over} for number, at in enumerate(times)]
    async with store.database.write() as session:
        await session.execute(insert(AttemptRow), attempts)
        blobs = [{"sha256": f"{number:064x}", "content": b"x" * 500, "created_at": now} for number in range(3000)]
        await session.execute(insert(BlobRow), blobs)
        if engine.dialect.name == "postgresql":
            await session.execute(text("ANALYZE"))  # as its autovacuum does; nobody does it for SQLite
    asked: list[tuple[str, Any]] = []

    @event.listens_for(engine.sync_engine, "before_cursor_execute")
    def note(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        asked.append((statement, parameters))

    assert await store.due() == [last]
    await store.forgotten(last)
    event.remove(engine.sync_engine, "before_cursor_execute", note)
    explain = "EXPLAIN QUERY PLAN " if engine.dialect.name == "sqlite" else "EXPLAIN "
    plans = []
    async with engine.connect() as connection:
        for statement, parameters in asked:
            if "attempts.created_at" in statement or "blobs" in statement:
                rows = await connection.exec_driver_sql(explain + statement, parameters)
                plans.append("\n".join(str(row[-1]) for row in rows))
    by = ["ix_attempts_status_", "ix_attempts_status_", "untold", "unforgotten", "unforgotten", "created_at"]
    for index, plan in zip(by, plans[:4] + plans[-2:], strict=True):
        assert index in plan
