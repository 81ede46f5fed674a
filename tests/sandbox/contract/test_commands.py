"""What every sandbox promises of a command: how it is told, and that nothing of it stays."""

from __future__ import annotations

import asyncio

import pytest

from sandbox.base import Command, DeadlinePassed, Sandbox, SandboxLost
from tests.sandbox.conftest import sh, there, until
from tests.sandbox.contract.backends import gone

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.long
async def test_a_command_reports_its_end(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        ended = await sh(
            workspace, "cat; echo $EXTRA; pwd; echo bad >&2; exit 3", env={"EXTRA": "more"}, stdin=b"fed\n", cwd="pkg"
        )
    assert (ended.exit_code, ended.stdout, ended.stderr) == (3, f"fed\nmore\n{workspace.root}/pkg\n".encode(), b"bad\n")
    assert not ended.truncated
    assert not ended.out_of_memory


async def test_a_signal_is_a_negative_exit_code(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        assert (await sh(workspace, "kill -SEGV $$")).exit_code == -11


async def test_a_missing_program_is_an_ordinary_end(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        assert (await workspace.run(Command(("no-such-program",), 10.0))).exit_code == 127


async def test_a_deadline_kills_the_tree_and_keeps_the_output(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        with pytest.raises(DeadlinePassed) as late:
            await sh(workspace, "echo so far; sleep 314159 & setsid sleep 314159 & sleep 314159", timeout=0.5)
        assert late.value.stdout == b"so far\n"
        assert (await sh(workspace, "echo alive")).stdout == b"alive\n"
    assert await gone("314159")


@pytest.mark.long
async def test_standard_error_is_heard_while_the_command_runs_or_not_at_all(sandbox: Sandbox) -> None:
    heard: list[bytes] = []
    async with sandbox.candidate() as workspace:
        running = asyncio.create_task(sh(workspace, "echo out; echo now >&2; sleep 3", heard=heard.append))
        if sandbox.isolation.name != "e2b":  # which tells it at the end only
            await until(lambda: heard == [b"now\n"])
            assert not running.done()
        assert (await running).stderr == b"now\n"
    assert b"".join(heard) in (b"", b"now\n")


async def test_a_daemon_dies_with_its_command(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        ended = await sh(workspace, "setsid sleep 271828 >/dev/null 2>&1 & setsid sleep 271828 & echo started")
        assert ended.stdout == b"started\n"
    assert ended.seconds < 15  # it did not wait for the one that holds its output
    assert await gone("271828")


async def test_cancelling_kills_the_tree(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        task = asyncio.create_task(sh(workspace, "sleep 161803 & touch there; sleep 161803"))
        await until(lambda: there(workspace))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await gone("161803")


async def test_a_workspace_that_closes_ends_its_commands_as_lost(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        task = asyncio.create_task(sh(workspace, "touch there; sleep 141421"))
        await until(lambda: there(workspace))
    with pytest.raises(SandboxLost):
        await task
    with pytest.raises(SandboxLost):
        await sh(workspace, "echo late")
    assert await gone("141421")


async def test_output_is_bytes_and_may_be_anything(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        ended = await sh(workspace, "cat; printf '\\377\\000\\n\\200' >&2", stdin=bytes(range(256)) * 300)
    assert ended.stdout == bytes(range(256)) * 300
    assert ended.stderr == b"\xff\x00\n\x80"


async def test_long_arguments_and_odd_ones_arrive_as_they_are(sandbox: Sandbox) -> None:
    odd = ("", "two words", "$HOME `id` 'quoted'", "new\nline", "ü" * 1000, "x" * 100_000)
    async with sandbox.candidate() as workspace:
        ended = await workspace.run(Command(("/usr/bin/printf", "%s\\0", *odd), 20.0))
    assert ended.stdout.decode().split("\0")[:-1] == list(odd)


async def test_a_name_that_is_given_to_the_sandbox_leads_to_itself(sandbox: Sandbox) -> None:
    if "network" not in sandbox.isolation.promises:
        return  # it has the names of this machine
    async with sandbox.candidate() as workspace:
        ask = (workspace.python, "-c", "import socket; print(socket.gethostbyname('database'))")
        ended = await workspace.run(Command(ask, 20.0, hosts=("database",)))
        assert ended.stdout == b"127.0.0.1\n"
        assert (await workspace.run(Command(ask, 20.0))).exit_code != 0


async def test_commands_of_several_candidates_run_beside_each_other(sandbox: Sandbox) -> None:
    """Those of one that takes turns are all done too."""

    async def one(number: int) -> bytes:
        async with sandbox.candidate() as workspace:
            return b"".join([(await sh(workspace, f"echo {number}-{turn}")).stdout for turn in range(3)])

    said = await asyncio.gather(*(one(number) for number in range(6)))
    assert said == [b"".join(b"%d-%d\n" % (number, turn) for turn in range(3)) for number in range(6)]
