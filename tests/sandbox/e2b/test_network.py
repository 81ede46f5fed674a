"""The way out of a machine: closed, but while wheels are fetched or something is built; and seen to be closed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.base import Command, InstallFailed, Packages, SandboxLost, Workspace
from sandbox.e2b.plan import Timeouts
from tests.sandbox.conftest import tarball, until
from tests.sandbox.contract.backends import e2b_sandboxes
from tests.sandbox.index import Index, serving
from tests.standins.e2b import E2B, Fault

pytestmark = [
    pytest.mark.optional(reason="the machines of the local E2B need root"),
    pytest.mark.asyncio(loop_scope="module"),
]
NETWORK = "PUT /sandboxes/*/network"
REPOSITORY = {"requirements.txt": b"answering>=0.1\n"}
WANTED = Packages(requirement_files=("requirements.txt",))


@pytest.fixture
def index(tmp_path: Path, e2b: E2B) -> Iterator[Index]:
    with serving(tmp_path / "index") as made:
        e2b.machines.ports.append(made.address[1])
        yield made


async def answer(workspace: Workspace, program: str = "import answering; print(answering.answer)") -> str:
    ended = await workspace.run(Command((workspace.python, "-c", program), 30.0))
    return (ended.stdout + ended.stderr).decode().strip()


@pytest.mark.long
async def test_wheels_are_fetched_by_an_allowed_way_that_is_closed_before_code_runs(
    e2b: E2B, index: Index, tmp_path: Path
) -> None:
    index.add_wheel("answering")
    async with e2b_sandboxes(tmp_path, e2b.account, index.access).open("first") as sandbox:
        assert e2b.machine.rules["allow_internet_access"] is False
        await sandbox.unpack(tarball(REPOSITORY))
        await sandbox.install(WANTED)
        assert e2b.requests.count(NETWORK) == 2
        assert e2b.machine.rules == {"allow_internet_access": False}
        async with sandbox.candidate() as workspace:
            assert await answer(workspace) == "42"
    assert index.requests


@pytest.mark.long
async def test_the_same_wheels_are_fetched_once_for_all_attempts(e2b: E2B, index: Index, tmp_path: Path) -> None:
    index.add_wheel("answering")
    sandboxes = e2b_sandboxes(tmp_path, e2b.account, index.access)
    async with sandboxes.open("first") as sandbox:
        await sandbox.unpack(tarball(REPOSITORY))
        await sandbox.install(WANTED)
    asked = len(index.requests)
    e2b.requests.clear()
    async with sandboxes.open("second") as sandbox:
        await sandbox.unpack(tarball(REPOSITORY))
        installed = await sandbox.install(WANTED)
        assert "Unpinned dependencies resolved as of" in installed.notes[0]
        async with sandbox.candidate() as workspace:
            assert await answer(workspace) == "42"
    assert len(index.requests) == asked
    assert e2b.requests.count(NETWORK) == 1, "it is closed, and was never opened"


@pytest.mark.long
async def test_what_has_no_wheel_is_built_inside_with_a_way_to_the_index_alone(e2b: E2B, index: Index, tmp_path: Path) -> None:
    index.add_source("answering", tmp_path / "mark")
    async with e2b_sandboxes(tmp_path, e2b.account, index.access).open("build") as sandbox:
        await sandbox.unpack(tarball(REPOSITORY))
        installed = await sandbox.install(WANTED)
        assert installed.built == ("answering",)
        assert e2b.machine.rules == {"allow_internet_access": False}
        async with sandbox.candidate() as workspace:
            told = await answer(workspace, "import answering; print(answering.attempts)")
    assert "'proxied': 403" in told, "another host is refused"
    assert "'direct': 0" not in told
    assert not (tmp_path / "mark").exists()


@pytest.mark.long
async def test_what_cannot_be_had_is_told_and_the_way_is_closed(e2b: E2B, index: Index, tmp_path: Path) -> None:
    async with e2b_sandboxes(tmp_path, e2b.account, index.access).open("nothing") as sandbox:
        await sandbox.unpack(tarball(REPOSITORY))
        with pytest.raises(InstallFailed, match="answering"):
            await sandbox.install(WANTED)
        assert e2b.machine.rules == {"allow_internet_access": False}


async def test_a_way_that_does_not_close_ends_the_machine(e2b: E2B, index: Index, tmp_path: Path) -> None:
    index.add_wheel("answering")
    async with e2b_sandboxes(tmp_path, e2b.account, index.access).open("open") as sandbox:
        await sandbox.unpack(tarball(REPOSITORY))
        opened = sandbox.gate.opened()
        await opened.__aenter__()
        e2b.faults.add(Fault(NETWORK, kind="deaf"))
        with pytest.raises(SandboxLost, match="cannot close"):
            await opened.__aexit__(None, None, None)
        assert not e2b.machines.all
        with pytest.raises(SandboxLost):
            await sandbox.base.run(Command(("true",), 10.0))


@pytest.mark.parametrize("cancelled", [False, True], ids=["failed", "cancelled"])
async def test_a_way_that_could_not_be_opened_is_closed_all_the_same(
    e2b: E2B, index: Index, tmp_path: Path, cancelled: bool
) -> None:
    # Cancelled while it waits for the answer, not after a second try.
    account = replace(e2b.account, timeouts=Timeouts(call=20.0 if cancelled else 2.0, create=3.0, line=20.0))
    async with e2b_sandboxes(tmp_path, account, index.access).open("half") as sandbox:
        opened = sandbox.gate.opened()
        e2b.faults.add(Fault(NETWORK, kind="silent") if cancelled else Fault(NETWORK, status=400, message="no such rule"))
        opening = asyncio.create_task(opened.__aenter__())
        if cancelled:  # its rules are in force then, and nobody has heard of it
            await until(lambda: "allow_out" in str(e2b.machine.rules) or "allowOut" in str(e2b.machine.rules))
            opening.cancel()
        with pytest.raises(asyncio.CancelledError if cancelled else SandboxLost):
            await opening
        await sandbox.gate.closed()
        assert e2b.machine.rules == {"allow_internet_access": False}
        asked = e2b.requests.count(NETWORK)
        async with sandbox.gate.opened():
            assert e2b.machine.rules != {"allow_internet_access": False}, "it can be opened afterwards"
        assert e2b.machine.rules == {"allow_internet_access": False}
        assert e2b.requests.count(NETWORK) == asked + 2


@pytest.mark.long
async def test_nothing_of_the_worker_enters(e2b: E2B, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "s3cr3t-value")
    monkeypatch.setenv("E2B_API_KEY", "s3cr3t-value")
    index.add_wheel("answering")
    async with e2b_sandboxes(tmp_path, e2b.account, index.access).open("secret") as sandbox:
        await sandbox.unpack(tarball(REPOSITORY))
        await sandbox.install(WANTED)
        known = [config.envs for config in (one.config for one in e2b.machine.processes.values())]
        named = {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "NPM_CONFIG_REGISTRY", "NODE_EXTRA_CA_CERTS"}
        assert all(set(envs) <= named for envs in known)
        for file in e2b.machine.root.rglob("*"):
            if file.is_file() and not file.is_symlink():
                content = file.read_bytes()
                assert b"s3cr3t" not in content, file
                assert e2b.account.api_key.encode() not in content, file
