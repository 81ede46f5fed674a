"""What a worker asks of its sandbox before it takes an attempt: real bubblewrap, whole and with a hole in it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.assembly import sandboxes_of
from app.service import run
from app.service.isolation import NotIsolated, grounds_of, require_isolation
from app.settings import Settings, SettingsError, load
from sandbox.base import SandboxUnavailable
from sandbox.jail import bubblewrap
from sandbox.proof.prove import HostAssets, prove
from tests.sandbox.conftest import make, no_bubblewrap
from tests.sandbox.proof.recipe import recipe_without
from tests.standins.github.auth import private_pem


@pytest.fixture
def local(tmp_path: Path) -> Settings:
    no_bubblewrap()
    return load(
        data_dir=tmp_path / "data",
        github_webhook_secret="hush-hush-hush-hush",
        github_app_id=1,
        github_private_key=private_pem(),
        github_api_url="http://127.0.0.1:1",
        model="none",
        sandbox="local",
        port=0,
    )


async def test_a_sandbox_that_holds_is_required_and_nothing_is_left(local: Settings) -> None:
    local.data_dir.mkdir()
    await require_isolation(local, make("local", local.data_dir))
    assert not list(local.data_dir.glob(".canary*"))
    assert not list((local.data_dir / "open").iterdir())


async def test_files_of_another_sandbox_are_attacked_where_the_service_keeps_them(local: Settings) -> None:
    proofs = prove(await sandboxes_of(local), grounds_of(local), frozenset({"other sandboxes"}))
    assert [found.status async for found in proofs] == ["ok"], "skipped where they are not found"


async def test_one_with_a_network_is_refused_by_the_proofs_name(local: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe_without("--unshare-net")(monkeypatch)
    with pytest.raises(NotIsolated, match=r"(?s)loopback of the machine: .*SELFHEAL_TRUST_CODE"):
        await require_isolation(local, make("local", local.data_dir))


async def test_one_that_isolates_nothing_is_refused_in_every_part(local: Settings) -> None:
    with pytest.raises(NotIsolated) as refusal:
        await require_isolation(local, make("process", local.data_dir))
    for part in ("files: ", "network: ", "uid: "):
        assert part in str(refusal.value)


async def test_who_trusts_all_code_is_not_stopped(local: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    trusted = local.model_copy(update={"trust_code": True})
    await require_isolation(trusted, make("process", local.data_dir))
    recipe_without("--unshare-net")(monkeypatch)
    await require_isolation(trusted, make("local", local.data_dir))


async def test_a_worker_that_cannot_isolate_ends_before_it_takes_anything(
    local: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe_without("--unshare-net")(monkeypatch)
    with pytest.raises(SandboxUnavailable, match="does not isolate on this machine"):
        async with asyncio.timeout(60):
            await run.worker(local)
    assert issubclass(NotIsolated, run.CANNOT_START), "one line and exit code 1"


async def test_a_worker_without_bubblewrap_says_how_to_get_it(local: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "BWRAP", "/nowhere/bwrap")
    with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap"):
        async with asyncio.timeout(60):
            await run.worker(local)


async def test_the_web_process_refuses_settings_that_no_worker_would_run_with(local: Settings) -> None:
    with pytest.raises(SettingsError, match="SELFHEAL_TRUST_CODE"):
        await run.web(local.model_copy(update={"sandbox": "process"}))


def test_the_database_that_is_at_stake_is_the_one_of_the_settings(local: Settings, tmp_path: Path) -> None:
    assert local.data_dir / "selfheal.db" in grounds_of(local).files
    elsewhere = load(database_url=f"sqlite:///{tmp_path}/elsewhere/own.db", data_dir=local.data_dir)
    assert tmp_path / "elsewhere" / "own.db" in grounds_of(elsewhere).files
    assert local.data_dir / "selfheal.db" not in grounds_of(elsewhere).files
    server = load(database_url="postgresql://somebody@host/database", data_dir=local.data_dir)
    assert not [file for file in grounds_of(server).files if file.suffix == ".db"]


async def test_a_sandbox_that_nothing_could_be_tried_on_is_refused(local: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.service.isolation.grounds_of", lambda _: HostAssets())
    with pytest.raises(NotIsolated, match="files of the worker: not proven"):
        await require_isolation(local, make("local", local.data_dir))
