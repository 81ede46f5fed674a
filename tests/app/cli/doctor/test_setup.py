"""The settings, as each of the containers that deploy/README.md has people look from is told them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.doctor import checks
from app.cli.doctor.checks import Check
from app.clock import SystemClock
from app.settings import PREFIX, Settings, load
from app.store.store import open_store
from tests.deploy.composing import LEAST, environment


async def looked(settings: Settings) -> dict[str, Check]:
    return {check.name: check async for check in checks.check_settings(settings, None)}


@pytest.mark.parametrize(("service", "status"), [("web", "ok"), ("worker", "warning")])
async def test_no_container_fails_for_what_it_is_not_told(
    service: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(service, LEAST).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(f"{PREFIX}DATA_DIR", str(tmp_path))
    found = await looked(load())
    assert [check for check in found.values() if check.status == "failed"] == []
    assert found["webhook secret"].status == status


async def test_without_a_webhook_secret_it_is_told_who_needs_one(tmp_path: Path) -> None:
    found = await looked(load(data_dir=tmp_path))
    assert "web process" in found["webhook secret"].seen
    assert f"{PREFIX}GITHUB_WEBHOOK_SECRET" in found["webhook secret"].fix


async def test_a_secret_that_can_be_guessed_is_told(tmp_path: Path) -> None:
    found = await looked(load(data_dir=tmp_path, github_webhook_secret="short"))
    assert found["webhook secret"].status == "warning"


@pytest.mark.parametrize(
    ("lease", "sweep", "status", "longest"),
    [(30.0, 15.0, "ok", "45 s"), (45.0, 15.0, "ok", "60 s"), (5.0, 600.0, "warning", "605 s")],
)
async def test_it_is_told_how_late_a_dead_worker_is_noticed(
    tmp_path: Path, lease: float, sweep: float, status: str, longest: str
) -> None:
    found = (await looked(load(data_dir=tmp_path, lease_seconds=lease, sweep_seconds=sweep)))["takeover"]
    assert found.status == status
    assert longest in found.seen
    assert (f"{PREFIX}SWEEP_SECONDS" in found.fix) == (status == "warning")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB; what is written there fills it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode != 0:
        pytest.skip("a small file system cannot be mounted here; that takes root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.optional("a small file system can be mounted by root alone")
async def test_a_full_disk_fails_for_the_folder_and_for_the_database_there(small_disk: Path) -> None:
    settings = load(data_dir=small_disk / "data")
    async with open_store(settings, SystemClock()):
        pass
    assert (await looked(settings))["data folder"].status == "warning", "little room is not none"
    assert {check.status async for check in checks.check_database(settings)} == {"ok"}
    (small_disk / "filler").write_bytes(bytes(14 << 20))
    folder = (await looked(settings))["data folder"]
    (opens,) = [check async for check in checks.check_database(settings)]
    for check in (folder, opens):
        assert (check.status, "full" in check.seen) == ("failed", True)
        assert "free disk space" in check.fix


async def test_a_full_disk_where_nothing_is_made_yet_fails(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(bytes(14 << 20))
    assert (await looked(load(data_dir=small_disk / "data")))["data folder"].status == "failed"
