"""What a sandbox bounds. What `Isolation.promises` leaves out is told as a shortcoming, and not tried."""

from __future__ import annotations

import socket
import tracemalloc
from pathlib import Path

import pytest

from sandbox.base import LimitExceeded, Promise, Sandbox, Workspace
from sandbox.install.python import interpreters
from tests.sandbox.conftest import LIMITS, MIB, sh

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.long
async def test_a_gigabyte_of_output_costs_no_memory(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        tracemalloc.start()
        try:
            ended = await sh(
                workspace, "echo first; head -c 1000000000 /dev/zero; echo last", timeout=120.0, output_limit=10_000
            )
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert ended.truncated
    assert ended.stdout.startswith(b"first\n")
    assert ended.stdout.endswith(b"last\n")
    assert len(ended.stdout) < 11_000
    assert peak < 20 * MIB


async def test_files_are_bounded_in_size_and_number_of_open_ones(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        assert (await sh(workspace, "head -c 40000000 /dev/zero > big")).exit_code != 0
        sizes = {entry.path: entry.size for entry in await workspace.files()}
        assert sizes["big"] == LIMITS.file_size
        assert (await sh(workspace, "ulimit -n")).stdout == b"256\n"


def promises(sandbox: Sandbox, promise: Promise, word: str) -> bool:
    """Whether it promises it; who does not has to say so, with this word."""
    if promise in sandbox.isolation.promises:
        return True
    assert any(word in text for text in sandbox.isolation.shortcomings), (
        f"{sandbox.isolation.name} hides that it lacks {promise}"
    )
    return False


async def test_who_runs_hostile_code_promises_what_that_needs(sandbox: Sandbox) -> None:
    if sandbox.isolation.untrusted:
        assert sandbox.isolation.promises >= {"files", "network", "processes", "disk"}
    else:
        assert sandbox.isolation.shortcomings


async def python(workspace: Workspace, program: str) -> bytes:
    return (await sh(workspace, f"{interpreters.own().path} -I - <<'END'\n{program}\nEND")).stdout


async def test_no_file_of_this_machine_is_seen_or_changed(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not promises(sandbox, "files", "files"):
        return
    monkeypatch.setenv("SELFHEAL_TEST_SECRET", "s3cr3t-value")
    (tmp_path / "mine").write_text("host")
    async with sandbox.candidate() as workspace:
        ended = await sh(workspace, f"cat {tmp_path}/mine; echo x > {tmp_path}/mine; cat /etc/shadow /proc/*/environ; env")
        for path in ("/usr/x", "/etc/x", "/x"):
            assert (await sh(workspace, f"echo x > {path}")).exit_code != 0, path
    assert b"host" not in ended.stdout
    assert b"s3cr3t" not in ended.stdout
    assert b"root:" not in ended.stdout
    assert (tmp_path / "mine").read_text() == "host"


async def test_there_is_no_network(sandbox: Sandbox) -> None:
    if not promises(sandbox, "network", "network"):
        return
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        places = [("127.0.0.1", listener.getsockname()[1]), ("192.0.2.1", 80), ("1.1.1.1", 443)]
        program = f"""
import socket
for place in {places}:
    one = socket.socket(); one.settimeout(2); print(one.connect_ex(place) == 0)
"""
        async with sandbox.candidate() as workspace:
            assert await python(workspace, program) == b"False\n" * 3


async def test_a_full_disk_is_bounded_and_told(sandbox: Sandbox) -> None:
    if not promises(sandbox, "disk", "disk"):
        return
    async with sandbox.candidate() as workspace:
        filler = "for i in 1 2 3 4 5 6; do head -c 16000000 /dev/zero > {}/$i || exit 9; done"
        for folder in ("/tmp", "/dev/shm", workspace.root):
            assert (await sh(workspace, filler.format(folder))).exit_code == 9, folder
        with pytest.raises(LimitExceeded) as full:
            await workspace.write("more", b"x" * 8 * MIB)
        assert full.value.which == "disk"
    async with sandbox.candidate() as workspace:
        await workspace.write("more", b"x" * 8 * MIB)


async def test_a_fork_bomb_is_bounded_and_dies(sandbox: Sandbox) -> None:
    if not promises(sandbox, "processes", "processes"):
        return
    program = """
import os, time
count = 0
try:
    while count < 1000:
        if os.fork() == 0: time.sleep(60); os._exit(0)
        count += 1
except OSError: pass
print(count)
"""
    async with sandbox.candidate() as workspace:
        assert 0 < int(await python(workspace, program)) < LIMITS.processes
        assert (await sh(workspace, "echo fine")).stdout == b"fine\n"


async def test_total_memory_is_bounded_and_the_kill_is_told(sandbox: Sandbox) -> None:
    if not promises(sandbox, "memory", "memory"):
        return
    hog = f"x = b'x' * {LIMITS.memory // 2}; import time; time.sleep(1)"
    one = f'{interpreters.own().path} -c "{hog}" &'
    async with sandbox.candidate() as workspace:
        ended = await sh(workspace, f"{one} {one} {one} wait; echo PASSED")
        assert ended.out_of_memory
        again = await sh(workspace, "echo fine")
        assert (again.stdout, again.out_of_memory) == (b"fine\n", False)
