"""`/healthz`, `/readyz` and `selfheal health`: what is wrong is named, shortly, and with nothing that is nobody's business."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from app.service.health import Health, of_worker
from app.settings import Settings, load
from app.store.database.database import Database
from app.store.store import Store
from tests.app.service.test_web import serving
from tests.app.service.test_worker import working
from tests.app.waiting import until
from tests.tiers import long_but


def on(settings: Settings, redis_url: str) -> Settings:
    return settings.model_copy(update={"redis_url": load(redis_url=redis_url).redis_url})


async def test_a_service_that_has_all_it_needs_is_ready(settings: Settings, redis_url: str) -> None:
    async with serving(on(settings, redis_url)) as url, httpx.AsyncClient() as client:
        answer = await client.get(url + "/readyz")
    assert answer.status_code == 200
    assert answer.json()["status"] == "ready"
    assert set(answer.json()["parts"]) == {"database", "migrations", "redis"}


async def test_without_redis_it_is_alive_but_not_ready_and_says_no_password(settings: Settings) -> None:
    async with serving(on(settings, "redis://:canary-word@127.0.0.1:1")) as url, httpx.AsyncClient() as client:
        assert (await client.get(url + "/healthz")).status_code == 200
        answer = await client.get(url + "/readyz")
    assert answer.status_code == 503
    assert answer.json()["parts"]["redis"] == {"ok": False, "reason": "cannot be reached"}
    assert answer.json()["parts"]["database"]["ok"]
    assert "canary" not in answer.text


async def test_tables_of_another_version_are_named(store: Store, redis_url: str) -> None:
    async with store.database.write() as session:
        await session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    parts = await Health(store.database, redis_url).parts()
    assert "another version" in parts["migrations"]
    assert not parts["database"]


async def test_a_database_without_tables_is_named(settings: Settings, store: Store, redis_url: str) -> None:
    async with store.database.write() as session:
        await session.execute(text("DROP TABLE alembic_version"))
    database = Database.connect(settings.database)
    try:
        parts = await Health(database, redis_url).parts()
    finally:
        await database.close()
    assert parts["migrations"] == "Selfheal's tables are missing"


async def test_a_redis_that_says_nothing_is_not_waited_for(store: Store) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        health = Health(store.database, f"redis://127.0.0.1:{port}")
        began = time.monotonic()
        parts = await health.parts()
        assert time.monotonic() - began < 10
    assert parts["redis"] == "no answer within 1 s"


async def test_an_answer_waits_for_no_thread(store: Store, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.service.health.REDIS_SECONDS", 8.0)  # a second is little on a busy machine
    health = Health(store.database, redis_url)
    over = threading.Event()
    busy = [asyncio.create_task(asyncio.to_thread(over.wait, 30)) for _ in range(100)]  # more than there are threads
    try:
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            parts = await health.parts()
    finally:
        over.set()
        await asyncio.gather(*busy)
    assert not any(parts.values()), parts


async def test_a_worker_is_well_while_it_takes_work(settings: Settings, store: Store, redis_url: str) -> None:
    settings = on(settings, redis_url)
    assert "no worker on this host" in (await of_worker(settings))["worker"]

    async def heal(_: str) -> None:
        return

    async def is_well() -> bool:
        return not any((await of_worker(settings)).values())

    async with working(settings, store, redis_url, heal):
        await until(is_well)
    assert not await is_well()


async def test_the_command_ends_with_one_and_a_line_where_nothing_runs(settings: Settings) -> None:
    environment = {**os.environ, "SELFHEAL_DATA_DIR": str(settings.data_dir)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app", "health", env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 1
    assert "redis: no process runs the embedded Redis" in err.decode()


async def test_asking_makes_no_database(settings: Settings, redis_url: str) -> None:
    settings = on(settings.model_copy(update={"database_url": None}), redis_url)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    assert "no database yet" in (await of_worker(settings))["database"]
    assert not (settings.data_dir / "selfheal.db").exists()


@pytest.mark.parametrize("name", long_but(["data", "d" * 120], "data"), ids=["short", "too long for a socket"])
async def test_a_data_folder_that_cannot_be_is_told_in_lines_and_none_is_made(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file" / name, tmp_path / name):
        environment, pipe = {**os.environ, "SELFHEAL_DATA_DIR": str(folder)}, asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "app", "health", env=environment, stdout=pipe, stderr=pipe
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert (process.returncode, out) == (1, b"")
        assert "Traceback" not in err.decode()
        assert all(line.startswith(("database: ", "redis: ")) for line in err.decode().splitlines()), err.decode()
        assert sorted(tmp_path.iterdir()) == [tmp_path / "file"]
