"""The App's credentials and permissions, against the local GitHub over real sockets."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from app.cli.doctor import github
from app.cli.doctor.checks import Check
from app.clock import SystemClock
from app.settings import Settings, load
from tests.standins.github import GitHub as StandIn
from tests.standins.github.auth import private_pem

PEM = private_pem()


@pytest.fixture
async def standin() -> AsyncIterator[StandIn]:
    async with StandIn() as standin:
        await standin.create_repository("acme/sample", {"a": "b\n"})
        yield standin


def settings_of(standin: StandIn, **more: object) -> Settings:
    own = {"github_app_id": standin.app_id, "github_private_key": PEM, "github_api_url": standin.url}
    return load(**{**own, **more})


class Ahead:
    """A clock that is wrong."""

    def __init__(self, seconds: float) -> None:
        self._wrong = timedelta(seconds=seconds)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._wrong


async def looked(settings: Settings, wrong: float = 0.0) -> dict[str, Check]:
    clock = Ahead(wrong) if wrong else SystemClock()
    return {check.name: check async for check in github.check_github(settings, clock)}


async def test_an_app_with_all_it_needs_is_fine(standin: StandIn) -> None:
    found = await looked(settings_of(standin))
    assert {check.status for check in found.values()} == {"ok"}, found
    assert found.keys() == {"reachable", "clock", "downloads", "credentials", "permissions", "events", "installations"}
    assert "acme" in found["installations"].seen


async def test_an_app_of_an_enterprise_server_is_fine_and_names_its_own_pages() -> None:
    async with StandIn(enterprise=True) as standin:
        await standin.create_repository("acme/sample", {"a": "b\n"})
        standin.world.app.permissions["checks"] = "read"
        found = await looked(settings_of(standin))
    site = standin.world.site
    assert found["reachable"].seen == f"{site}/api/v3 answers"
    page = f"{site}/organizations/selfheal-makers/settings/apps/selfheal/permissions"
    assert page in (found["permission checks"].fix or "")
    assert [check.name for check in found.values() if check.status != "ok"] == ["permission checks"]


async def test_a_missing_key_file_is_told_with_where_to_put_it(standin: StandIn, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    check = (await looked(settings_of(standin, github_private_key=None, github_private_key_file=file)))["credentials"]
    assert check.status == "failed"
    assert check.fix.startswith(f"make {file} readable ")


@pytest.mark.parametrize("name", ["actions", "checks", "contents", "issues", "pull_requests"])
async def test_a_missing_permission_is_told_with_what_stops_and_where_to_grant_it(standin: StandIn, name: str) -> None:
    standin.world.app.permissions.pop(name)
    check = (await looked(settings_of(standin)))[f"permission {name}"]
    assert check.status == "failed"
    assert github.CONSEQUENCES[name] in check.seen
    assert f"/apps/{standin.world.app.slug}/permissions" in check.fix


async def test_reading_is_not_writing(standin: StandIn) -> None:
    standin.world.app.permissions["contents"] = "read"
    found = await looked(settings_of(standin))
    assert "needs write, has read" in found["permission contents"].seen


async def test_what_apps_of_earlier_versions_lack_is_a_warning(standin: StandIn) -> None:
    app, (installation,) = standin.world.app, standin.world.installations.values()
    del installation.permissions["statuses"]
    found = await looked(settings_of(standin))
    assert (found["acme"].status, "statuses: read" in found["acme"].seen) == ("warning", True)
    installation.permissions["checks"] = "read"
    assert (await looked(settings_of(standin)))["acme"].status == "failed", "but what else it lacks is not"

    del app.permissions["statuses"]
    app.events = tuple(event for event in app.events if event != "status")
    found = await looked(settings_of(standin))
    assert [found[name].status for name in ("permission statuses", "event status")] == ["warning", "warning"]
    assert found["acme"].seen == "the installation has not accepted checks: write", "statuses: the App asks for none"
    assert "Jenkins" in found["permission statuses"].seen


async def test_what_workflows_would_allow_is_told(standin: StandIn) -> None:
    assert "without workflows write" in (await looked(settings_of(standin)))["permissions"].seen
    standin.world.app.permissions["workflows"] = "write"
    assert "without workflows" not in (await looked(settings_of(standin)))["permissions"].seen


async def test_running_jobs_again_needs_more(standin: StandIn) -> None:
    standin.world.app.permissions["actions"] = "read"
    assert (await looked(settings_of(standin)))["permissions"].status == "ok"
    found = await looked(settings_of(standin, rerun_flaky="once"))
    assert "cannot rerun failed jobs" in found["permission actions"].seen


async def test_permissions_that_an_installation_has_not_accepted_are_told(standin: StandIn) -> None:
    (installation,) = standin.world.installations.values()
    installation.permissions["checks"] = "read"
    found = await looked(settings_of(standin))
    assert found["acme"].status == "failed"
    assert "has not accepted checks: write" in found["acme"].seen


async def test_an_event_that_is_not_subscribed_to_is_told(standin: StandIn) -> None:
    standin.world.app.events = tuple(event for event in standin.world.app.events if event != "issue_comment")
    check = (await looked(settings_of(standin)))["event issue_comment"]
    assert check.status == "failed"
    assert "/heal" in check.seen


async def test_a_wrong_key_and_a_wrong_id_are_refused_credentials(standin: StandIn) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    for settings in (
        settings_of(standin, github_private_key=other.decode()),
        settings_of(standin, github_app_id=standin.app_id + 1),
    ):
        check = (await looked(settings))["credentials"]
        assert check.status == "failed"
        assert "SELFHEAL_GITHUB_APP_ID" in check.fix
        assert "PRIVATE KEY" not in check.seen


async def test_what_is_not_set_or_no_key_is_named(standin: StandIn) -> None:
    assert "SELFHEAL_GITHUB_APP_ID" in (await looked(load(github_private_key=PEM)))["credentials"].seen
    check = (await looked(settings_of(standin, github_private_key="rubbish")))["credentials"]
    assert "PEM" in check.seen


@pytest.mark.parametrize(("seconds", "word"), [(300.0, "ahead of"), (-300.0, "behind")])
async def test_a_wrong_clock_is_told_by_githubs_own(standin: StandIn, seconds: float, word: str) -> None:
    check = (await looked(settings_of(standin), wrong=seconds))["clock"]
    assert check.status == "failed"
    assert word in check.seen


async def test_nobody_there_is_told_with_the_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    found = await looked(load(github_app_id=1, github_private_key=PEM, github_api_url=url))
    assert found["reachable"].status == "failed"
    assert url in found["reachable"].seen


async def test_an_app_that_is_installed_nowhere_is_a_warning(standin: StandIn) -> None:
    standin.world.installations.clear()
    assert (await looked(settings_of(standin)))["installations"].status == "warning"


async def test_a_download_host_that_is_this_machine_is_told(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(github, "is_loopback", lambda host: False)  # the local GitHub is on this machine too
    found = (await looked(settings_of(standin, github_download_hosts="169.254.0.0/16")))["downloads"]
    assert (found.status, "169.254.169.254" in found.seen) == ("failed", True)
    assert "SELFHEAL_GITHUB_DOWNLOAD_HOSTS" in found.fix
