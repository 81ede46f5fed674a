"""The settings, as each of the containers that deploy/README.md has people look from is told them."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.doctor import setup
from app.doctor.checks import Check
from app.settings import PREFIX, Settings, load
from tests.deploy.composing import LEAST, environment


async def looked(settings: Settings) -> dict[str, Check]:
    return {check.name: check async for check in setup.look(settings, None)}


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
