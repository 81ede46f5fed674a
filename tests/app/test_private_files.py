"""The data folder is its owner's alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.clock import SystemClock
from app.private_files import open_to_others
from app.queue.redis import embedded
from app.settings import load
from app.store.checkpoints.checkpoints import open_checkpoints
from app.store.store import open_store


@pytest.fixture(autouse=True)
def careless() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    found = {path.name: oct(stat.S_IMODE(path.lstat().st_mode)) for path in folder.iterdir() if not path.is_socket()}
    return found | {".": oct(stat.S_IMODE(folder.stat().st_mode))}


async def test_nothing_in_it_can_be_read_by_others(tmp_path: Path) -> None:
    settings = load(data_dir=tmp_path / "data")
    async with open_store(settings, SystemClock()), open_checkpoints(settings), embedded(settings.data_dir):
        found = modes(settings.data_dir)
    assert {"selfheal.db", "selfheal.db-wal", "selfheal.db-shm", "checkpoints.db", "redis.log"} <= found.keys()
    assert found.pop(".") == "0o700"
    assert set(found.values()) <= {"0o600", "0o700"}, found


async def test_what_an_older_version_left_open_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    for name in ("selfheal.db", "checkpoints.db-wal", "redis.log"):
        (folder / name).touch(0o644)
    assert len(open_to_others(folder)) == 4
    async with open_store(load(data_dir=folder), SystemClock()):
        assert open_to_others(folder) == []


async def test_a_database_elsewhere_is_closed_and_its_folder_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    settings = load(data_dir=tmp_path / "data", database_url=f"sqlite:///{tmp_path}/shared/mine.db")
    async with open_store(settings, SystemClock()):
        assert modes(tmp_path / "shared")["mine.db"] == "0o600"
        assert modes(tmp_path / "shared")["."] == "0o755"
