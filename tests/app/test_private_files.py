"""The data folder is its owner's alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.assembly import sandboxes_of
from app.cli.doctor import checks
from app.clock import SystemClock
from app.private_files import make_folder, open_to_others
from app.queue.redis import embedded
from app.settings import Settings, SettingsError, load
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


async def test_the_folder_of_the_sandboxes_is_private_whichever_part_is_made_first(tmp_path: Path) -> None:
    settings = load(data_dir=tmp_path / "data", sandbox="local")
    await sandboxes_of(settings)
    assert modes(settings.data_dir) == {".": "0o700", "sandboxes": "0o700"}


@pytest.mark.parametrize("mode", [0o755, 0o1777])
async def test_a_folder_that_others_use_is_refused_and_not_taken_from_them(tmp_path: Path, mode: int) -> None:
    shared = tmp_path / "srv"
    shared.mkdir()
    (shared / "of-somebody-else").touch(0o644)
    shared.chmod(mode)
    with pytest.raises(SettingsError, match=r"SELFHEAL_DATA_DIR: .*others use this folder.*one below it"):
        async with open_store(load(data_dir=shared), SystemClock()):
            pass
    assert modes(shared) == {".": oct(mode), "of-somebody-else": "0o644"}
    assert "does not start" in (await privacy(load(data_dir=shared))).seen
    make_folder(shared / "selfheal")
    assert modes(shared / "selfheal") == {".": "0o700"}


def test_an_empty_folder_of_a_new_volume_is_closed(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "lost+found").mkdir(parents=True)
    volume.chmod(0o755)
    make_folder(volume)
    assert modes(volume)["."] == "0o700"


def test_what_a_link_in_it_names_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "passwd").touch(0o644)
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "selfheal.db").symlink_to(tmp_path / "passwd")
    (folder / "selfheal.db-wal").symlink_to(tmp_path / "gone")
    make_folder(folder)
    assert modes(tmp_path)["passwd"] == "0o644"


async def privacy(settings: Settings) -> checks.Check:
    return {check.name: check async for check in checks.check_settings(settings, None)}["private files"]


async def test_doctor_names_what_others_may_read_and_changes_nothing(tmp_path: Path) -> None:
    settings = load(data_dir=tmp_path / "data", database_url=f"sqlite:///{tmp_path}/elsewhere.db")
    assert (await privacy(settings)).status == "ok"
    settings.data_dir.mkdir(mode=0o750)
    (tmp_path / "checkpoints.db-wal").touch(0o640)
    found = await privacy(settings)
    assert found.status == "failed"
    assert f"{settings.data_dir}, {tmp_path}/checkpoints.db-wal" in found.seen
    assert "chmod go=" in found.fix
    assert modes(settings.data_dir)["."] == "0o750"


@pytest.mark.optional(reason="only root can give a file to another user")
async def test_doctor_names_what_belongs_to_another_user(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    settings = load(data_dir=tmp_path / "data")
    make_folder(settings.data_dir)
    for each in (settings.data_dir / "selfheal.db", settings.data_dir):
        each.touch(0o600)
        os.chown(each, 4242, 4242)
        found = await privacy(settings)
        assert (found.status, "another user" in found.seen, str(each) in found.seen) == ("failed", True, True)
        assert "chown" in found.fix
