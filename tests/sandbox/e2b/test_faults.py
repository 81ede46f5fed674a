"""Every way in which E2B, or the line to it, fails, with the unmodified SDK: what becomes of it is decided in one table."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from connectrpc.code import Code
from connectrpc.errors import ConnectError
from e2b import exceptions as told

from sandbox import folders
from sandbox.base import Command, LimitExceeded, SandboxLost, SandboxUnavailable
from sandbox.e2b import account
from sandbox.e2b.errors import Failure, failure_of
from sandbox.e2b.sandboxes import E2BSandboxes
from tests.sandbox.conftest import there, until
from tests.sandbox.contract.backends import e2b_sandboxes, gone, running
from tests.sandbox.e2b.conftest import HASTE, Shared, count
from tests.standins.e2b import E2B, Fault

pytestmark = [
    pytest.mark.optional(reason="the machines of the local E2B need root"),
    pytest.mark.asyncio(loop_scope="module"),
]
CREATE, START = "POST /v2/sandboxes", "POST /process.Process/Start"


async def opened(sandboxes: E2BSandboxes) -> SandboxUnavailable:
    """Why none is opened."""
    with pytest.raises(SandboxUnavailable) as refused:
        async with sandboxes.open("attempt 7"):
            pass
    return refused.value


@pytest.fixture(autouse=True)
def _shorter_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "FIRST_WAIT", 0.02)


async def test_a_bad_key_is_fatal_and_names_the_setting(e2b: E2B, tmp_path: Path) -> None:
    refused = await opened(e2b_sandboxes(tmp_path, replace(e2b.account, api_key="e2b_wrong")))
    assert "E2B_API_KEY" in refused.reason
    assert "e2b_wrong" not in refused.reason
    assert refused.retry_after is None
    assert e2b.requests.count(CREATE) == 1


async def test_an_unknown_template_is_fatal_and_tells_how_it_is_built(e2b: E2B, tmp_path: Path) -> None:
    refused = await opened(e2b_sandboxes(tmp_path, replace(e2b.account, template="missing")))
    assert "deploy.e2b.build" in refused.reason
    assert refused.retry_after is None


async def test_a_template_that_lacks_our_python_is_told(e2b: E2B, tmp_path: Path) -> None:
    refused = await opened(e2b_sandboxes(tmp_path, replace(e2b.account, template="bare")))
    assert "'bare' cannot run a sandbox" in refused.reason
    assert "deploy.e2b.build" in refused.reason
    assert not e2b.machines.all


async def test_429_sends_the_attempt_back_into_the_queue(e2b: E2B, sandboxes: E2BSandboxes) -> None:
    e2b.machines.most = 0
    refused = await opened(sandboxes)
    assert refused.retry_after is not None
    assert e2b.requests.count(CREATE) == 1


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_busy_service_is_asked_again(e2b: E2B, sandboxes: E2BSandboxes, status: int) -> None:
    e2b.faults.add(Fault(CREATE, status=status, times=2))
    async with sandboxes.open("attempt 7"):
        assert e2b.requests.count(CREATE) == 3


async def test_a_service_that_stays_busy_postpones(e2b: E2B, sandboxes: E2BSandboxes) -> None:
    e2b.faults.add(Fault(CREATE, status=503, times=9))
    assert (await opened(sandboxes)).retry_after is not None
    assert not e2b.machines.all


@pytest.mark.parametrize("kind", ["late", "reset"])
async def test_a_lost_answer_makes_no_second_machine(e2b: E2B, sandboxes: E2BSandboxes, kind: str) -> None:
    e2b.faults.add(Fault(CREATE, kind=kind))
    async with sandboxes.open("attempt 7"):
        assert len(e2b.machines.all) == 1
        assert all(key.startswith("attempt-7-") for key in e2b.machines.made_by_key)
    assert not e2b.machines.all


@pytest.mark.long
async def test_a_stalled_service_postpones_and_leaves_nothing(e2b: E2B, tmp_path: Path) -> None:
    e2b.faults.add(Fault(CREATE, kind="stall", times=9))
    assert (await opened(e2b_sandboxes(tmp_path, replace(e2b.account, timeouts=HASTE)))).retry_after is not None
    assert not e2b.machines.all


@pytest.mark.long
async def test_an_api_that_is_not_there_postpones(tmp_path: Path, e2b: E2B) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{one.getsockname()[1]}"
    assert (await opened(e2b_sandboxes(tmp_path, replace(e2b.account, api_url=url, timeouts=HASTE)))).retry_after is not None


async def test_who_stops_waiting_for_a_machine_leaves_none(e2b: E2B, sandboxes: E2BSandboxes) -> None:
    e2b.faults.add(Fault(CREATE, kind="late", times=9))
    opening = asyncio.create_task(opened(sandboxes))
    await until(lambda: bool(e2b.machines.all))
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not e2b.machines.all


async def test_who_stops_waiting_before_there_is_a_machine_leaves_no_folder(
    sandboxes: E2BSandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, really = threading.Event(), folders.make

    def slow(parent: Path, label: str) -> folders.SandboxFolder:
        made = really(parent, label)
        begun.set()
        time.sleep(0.2)
        return made

    monkeypatch.setattr(folders, "make", slow)
    opening = asyncio.create_task(opened(sandboxes))
    await asyncio.to_thread(begun.wait, 20)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert begun.is_set()
    assert not list((tmp_path / "open").glob("*/"))


async def test_a_machine_lost_while_it_starts_is_replaced(e2b: E2B, sandboxes: E2BSandboxes) -> None:
    e2b.faults.add(Fault("POST /files", status=502, message="The sandbox was not found"))
    async with sandboxes.open("attempt 7") as sandbox, sandbox.candidate() as workspace:
        assert await count(workspace) == b"1"
    assert e2b.requests.count(CREATE) == 2


async def test_a_machine_that_goes_is_lost_and_no_result(e2b: E2B, sandboxes: E2BSandboxes) -> None:
    async with sandboxes.open("attempt 7") as sandbox, sandbox.candidate() as workspace:
        running = asyncio.create_task(workspace.run(Command(("/bin/sh", "-c", "touch there; sleep 60"), 90.0)))
        await until(lambda: there(workspace))
        await e2b.machines.end(e2b.machine)
        with pytest.raises(SandboxLost, match="sandbox is gone"):
            await running


async def test_a_machine_whose_time_is_over_is_lost(e2b: E2B, sandboxes: E2BSandboxes) -> None:
    async with sandboxes.open("attempt 7") as sandbox, sandbox.candidate() as workspace:
        e2b.machine.ends = 0.0
        with pytest.raises(SandboxLost):
            await workspace.read("a.txt")


@pytest.mark.parametrize(
    "fault",
    [
        Fault(START, kind="reset", after=1),
        Fault(START, kind="end", after=1),
        Fault(START, kind="status", after=1, message="the connection to the sandbox ended before the stream completed"),
    ],
    ids=["reset", "end", "unavailable"],
)
async def test_a_stream_that_breaks_finds_its_command_again(shared: Shared, fault: Fault) -> None:
    async with shared.sandbox.candidate() as workspace:
        await shared.sandbox.gate.closed()
        shared.e2b.requests.clear()
        shared.e2b.faults.add(fault)
        assert await count(workspace) == b"1"
    assert shared.e2b.faults.struck[-1] == f"{START} > {fault.kind}"
    assert "GET /files" in shared.e2b.requests, "its answer is there all the same"


async def test_a_stream_that_breaks_as_its_command_ends_has_its_answer_all_the_same(shared: Shared) -> None:
    async with shared.sandbox.candidate() as workspace:
        await shared.sandbox.gate.closed()
        shared.e2b.faults.add(
            Fault(START, kind="reset", after=2), Fault(START, status=502, message="port is not open", times=2)
        )
        assert await count(workspace) == b"1"


@pytest.mark.parametrize(
    "fault",
    [
        Fault(START, kind="reset"),
        Fault(START, kind="late"),
        Fault(START, status=502, message="The sandbox is running but port is not open", times=2),
        Fault(START, status=503, times=2),
        Fault(START, status=429, times=2),
        Fault(START, kind="stall"),
    ],
    ids=["reset", "late", "closed port", "503", "429", "stall"],
)
async def test_a_command_that_may_have_been_started_is_done_once(shared: Shared, fault: Fault) -> None:
    async with shared.sandbox.candidate() as workspace:
        await shared.sandbox.gate.closed()
        shared.e2b.faults.add(fault)
        assert await count(workspace) == b"1"


@pytest.mark.long
async def test_an_envd_that_stays_away_is_lost(e2b: E2B, sandboxes: E2BSandboxes) -> None:
    async with sandboxes.open("attempt 7") as sandbox, sandbox.candidate() as workspace:
        await sandbox.gate.closed()
        e2b.faults.add(Fault("POST /process", status=502, message="port is not open", times=999))
        with pytest.raises(SandboxLost, match="connection was lost"):
            await count(workspace)


async def test_files_that_break_on_the_way_go_again(shared: Shared) -> None:
    content = bytes(1_000_000)
    async with shared.sandbox.candidate() as workspace:
        shared.e2b.faults.add(Fault("POST /files", kind="reset"), Fault("POST /files", status=500))
        await workspace.write("big", content)
        shared.e2b.faults.add(Fault("GET /files", kind="reset"), Fault("GET /files", status=503))
        assert await workspace.read("big") == content


async def test_a_full_disk_of_the_machine_is_a_limit(shared: Shared) -> None:
    async with shared.sandbox.candidate() as workspace:
        shared.e2b.faults.add(Fault("POST /files", status=507, message="not enough disk space"))
        with pytest.raises(LimitExceeded) as full:
            await workspace.write("big", bytes(1_000_000))
    assert full.value.which == "disk"


async def test_a_stopped_command_dies_in_the_machine_too(shared: Shared) -> None:
    async with shared.sandbox.candidate() as workspace:
        task = asyncio.create_task(workspace.run(Command(("sleep", "223606"), 90.0)))
        await until(lambda: bool(running("223606")))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await gone("223606")


async def test_a_command_of_ours_that_says_too_much_is_killed(e2b: E2B, sandboxes: E2BSandboxes) -> None:
    async with sandboxes.open("attempt 7") as sandbox:
        there = sandbox.client._machine
        with pytest.raises(SandboxLost, match="printed too much"):
            await there.run("yes 173205", 60.0)
        assert await gone("173205")
        assert (await there.run("echo on", 20.0)).strip() == "on", "the machine is as it was"


async def test_a_key_that_is_withdrawn_ends_it(e2b: E2B, sandboxes: E2BSandboxes) -> None:
    async with sandboxes.open("attempt 7") as sandbox, sandbox.candidate() as workspace:
        e2b.machine.token = "another"
        with pytest.raises(SandboxLost, match="API key was rejected"):
            await workspace.files()


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (told.AuthenticationException(), Failure.KEY),
        (told.RateLimitException(), Failure.LIMITED),
        (told.ServiceBusyException(), Failure.BUSY),
        (told.SandboxException(status_code=500), Failure.BUSY),
        (told.SandboxException("500: of the agent"), Failure.BUSY),
        (told.SandboxNotFoundException(), Failure.GONE),
        (told.SandboxNotRunningException(), Failure.GONE),
        (told.SandboxUnreachableException(), Failure.CONNECTION),
        (told.TimeoutException(), Failure.CONNECTION),
        (TimeoutError(), Failure.CONNECTION),
        (ConnectError(Code.UNAVAILABLE, "reset"), Failure.CONNECTION),
        (httpx.ConnectError("refused"), Failure.CONNECTION),
        (httpx.ReadTimeout("stalled"), Failure.CONNECTION),
        (Exception("Command ended without an end event"), Failure.CONNECTION),
        (told.NotEnoughSpaceException(), Failure.SPACE),
        (told.FileNotFoundException(), Failure.MISSING),
        (told.SandboxException(status_code=404), Failure.MISSING),
        (told.InvalidArgumentException("bad cwd"), Failure.REQUEST),
        (told.SandboxException(status_code=400), Failure.REQUEST),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.name,
)
async def test_what_the_sdk_raises_is_told_apart(error: Exception, trouble: Failure) -> None:
    assert failure_of(error) is trouble
