"""What every sandbox promises (`sandbox/base.py`), tried on each of them."""

from __future__ import annotations

import asyncio
import os
import sys
import tracemalloc
from pathlib import Path

import pytest

from sandbox.base import (
    Command,
    DeadlinePassed,
    InstallFailed,
    LimitExceeded,
    Packages,
    Sandbox,
    Sandboxes,
    SandboxLost,
    UnsafeArchive,
    Workspace,
)
from sandbox.jail import cgroup
from tests.sandbox.conftest import FILES, LIMITS, MIB, chunks, engine_of, tarball, there, until


async def sh(workspace: Workspace, script: str, timeout: float = 20.0, **more: object):
    return await workspace.run(Command(("/bin/sh", "-c", script), timeout, **more))


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


async def test_candidates_start_as_the_base_and_do_not_touch_it(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as one, sandbox.candidate() as other:
        await sh(one, "echo changed > a.txt; rm pkg/b.bin; mkdir new; echo x > new/file")
        await one.write("written.txt", b"w")
        assert [entry.path for entry in await one.files()] == ["a.txt", "new/file", "run.sh", "written.txt"]
        assert await one.read("a.txt") == b"changed\n"
        assert await other.read("a.txt") == FILES["a.txt"]
        assert one.root == other.root == sandbox.base.root
    assert [entry.path for entry in await sandbox.base.files()] == sorted(FILES)
    assert await sandbox.base.read("pkg/b.bin") == FILES["pkg/b.bin"]


async def test_parallel_candidates_do_not_see_each_other(sandbox: Sandbox) -> None:
    async def one(number: int) -> bytes:
        async with sandbox.candidate() as workspace:
            await workspace.write("a.txt", str(number).encode())
            return (await sh(workspace, "sleep 0.05; cat a.txt; ls")).stdout

    outputs = await asyncio.gather(*(one(number) for number in range(4)))
    assert outputs == [f"{number}a.txt\npkg\nrun.sh\n".encode() for number in range(4)]


async def test_writes_keep_or_set_the_mode_and_commands_see_them(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        await workspace.write("run.sh", b"#!/bin/sh\necho new\n")
        await workspace.write("deep/down/tool", b"#!/bin/sh\necho tool\n", executable=True)
        await workspace.remove("a.txt")
        await workspace.remove("never/was/there")
        ended = await sh(workspace, "./run.sh; deep/down/tool; ls")
        assert ended.stdout == b"new\ntool\ndeep\npkg\nrun.sh\n"
        modes = {entry.path: entry.executable for entry in await workspace.files()}
        assert modes == {"run.sh": True, "deep/down/tool": True, "pkg/b.bin": False}


@pytest.mark.parametrize("path", ["../up", "/etc/passwd", "a/../../b", "", ".", "nul\0"])
async def test_paths_that_leave_are_refused(sandbox: Sandbox, path: str) -> None:
    with pytest.raises(ValueError, match="inside the workspace"):
        await sandbox.base.read(path)
    with pytest.raises(ValueError, match="inside the workspace"):
        await sandbox.base.write(path, b"")


async def test_links_pipes_and_second_names_are_not_followed(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("host")
    async with sandbox.candidate() as workspace:
        script = f"ln -s {secret} link; ln -s {tmp_path} dir; mkfifo pipe; ln run.sh second; ln -s .. up; mkdir folder"
        assert (await sh(workspace, script)).exit_code == 0
        # Where files are read through an engine, a second name can only be of a file that is inside as well.
        second_names = () if sandbox.isolation.name == "docker" else ("second", "run.sh")
        for path in ("link", "dir/secret", "pipe", *second_names, "up/a.txt", "folder"):
            with pytest.raises(ValueError, match=r".+"):
                await workspace.read(path)
        for path in ("link", "dir/secret", "dir/new", "up/new", "pipe"):
            with pytest.raises(ValueError, match=r".+"):
                await workspace.write(path, b"mine")
        await workspace.remove("link")
        with pytest.raises(FileNotFoundError):
            await workspace.read("missing")
        listed = {entry.path: entry.link for entry in await workspace.files()}
    assert secret.read_text() == "host"
    assert "pipe" not in listed
    assert listed["dir"] is True


async def test_a_file_larger_than_asked_for_is_refused(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        await workspace.write("big", b"x" * 5_000_000)
        assert len(await workspace.read("big")) == 5_000_000
        with pytest.raises(LimitExceeded):
            await workspace.read("big", limit=4_999_999)


async def test_a_deadline_kills_the_tree_and_keeps_the_output(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        with pytest.raises(DeadlinePassed) as late:
            await sh(workspace, "echo so far; sleep 314159 & setsid sleep 314159 & sleep 314159", timeout=0.5)
        assert late.value.stdout == b"so far\n"
        assert (await sh(workspace, "echo alive")).stdout == b"alive\n"
    assert not running("314159")


async def test_a_daemon_dies_with_its_command(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        ended = await sh(workspace, "setsid sleep 271828 >/dev/null 2>&1 & setsid sleep 271828 & echo started")
        assert ended.stdout == b"started\n"
    assert ended.seconds < 15  # it did not wait for the one that holds its output
    assert not running("271828")


async def test_the_tree_dies_without_control_groups_too(sandboxes: Sandboxes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "make", lambda name, limits: None)
    async with sandboxes.open("no groups") as sandbox, sandbox.candidate() as workspace:
        await sh(workspace, "setsid sleep 577215 >/dev/null 2>&1 & sleep 577215 &")
        assert not running("577215")
        with pytest.raises(DeadlinePassed):
            await sh(workspace, "setsid sleep 577215 & sleep 577215 & wait", timeout=0.5)
        assert not running("577215")


async def test_cancelling_kills_the_tree(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        task = asyncio.create_task(sh(workspace, "sleep 161803 & touch there; sleep 161803"))
        await until(lambda: there(workspace))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not running("161803")


async def test_a_workspace_that_closes_ends_its_commands_as_lost(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        task = asyncio.create_task(sh(workspace, "touch there; sleep 141421"))
        await until(lambda: there(workspace))
    with pytest.raises(SandboxLost):
        await task
    with pytest.raises(SandboxLost):
        await sh(workspace, "echo late")
    assert not running("141421")


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


async def test_archives_are_unpacked_without_git_and_with_harmless_links(sandboxes: Sandboxes) -> None:
    async with sandboxes.open("unpack") as sandbox:
        await sandbox.unpack(tarball({"a.txt": b"1", ".git/config": b"[core]\n", "sub/.GIT/hooks/x": b"", "x.sh": b""}))
        assert [entry.path for entry in await sandbox.base.files()] == ["a.txt", "x.sh"]
        assert [entry.executable for entry in await sandbox.base.files()] == [False, True]


async def test_an_unsafe_archive_is_refused(sandboxes: Sandboxes) -> None:
    async with sandboxes.open("unsafe") as sandbox:
        with pytest.raises(UnsafeArchive):
            await sandbox.unpack(tarball({"../../x": b""}))
        with pytest.raises(UnsafeArchive):
            await sandbox.unpack(chunks(b"<html>not found</html>"))


async def test_a_tool_is_at_the_same_path_everywhere_and_cannot_be_changed(sandbox: Sandbox) -> None:
    path = await sandbox.provide("tool.py", b"print('tool')")
    with pytest.raises(ValueError, match="plain name"):
        await sandbox.provide("sub/tool.py", b"")
    async with sandbox.candidate() as one, sandbox.candidate() as other:
        for workspace in (one, other):
            assert (await workspace.run(Command(("cat", path), 10.0))).stdout == b"print('tool')"
        if sandbox.isolation.untrusted:
            assert (await sh(one, f"echo x > {path} || rm {path}")).exit_code != 0


async def test_a_candidate_may_have_an_environment_of_its_own(sandbox: Sandbox) -> None:
    await sandbox.install(Packages())
    program = "import sys; print(sys.prefix)"
    async with sandbox.candidate() as one, sandbox.candidate() as other:
        assert (await one.install(Packages())).python.startswith("3.")
        for workspace in (one, other, sandbox.base):
            by_path = await workspace.run(Command(("python", "-c", program), 20.0))
            assert by_path.stdout == (await workspace.run(Command((workspace.python, "-c", program), 20.0))).stdout
            assert by_path.stdout.strip() == str(Path(workspace.python).parents[1]).encode()
        with pytest.raises(InstallFailed):
            await one.install(Packages(requirements=("no-such-thing==1.0",)))
        assert (await one.run(Command(("python", "-c", program), 20.0))).exit_code == 0, "it keeps what it had"


async def test_nothing_is_left_when_it_closes(sandboxes: Sandboxes, tmp_path: Path) -> None:
    mounts = Path("/proc/self/mounts").read_text()
    async with sandboxes.open("left over", LIMITS) as sandbox:
        await sandbox.unpack(tarball(FILES))
        async with sandbox.candidate() as workspace:
            await sh(workspace, "mkdir -p a/b/c; chmod 000 a; echo x > b; setsid sleep 112358 &")
        assert list((tmp_path / "open").iterdir())
        assert Path("/proc/self/mounts").read_text() == mounts
    assert not list((tmp_path / "open").iterdir())
    assert not running("112358")
    assert not groups("left-over")


async def test_an_error_inside_still_leaves_nothing(sandboxes: Sandboxes, tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        async with sandboxes.open("broken") as sandbox, sandbox.candidate():
            raise KeyError
    assert not list((tmp_path / "open").iterdir())


async def test_what_a_killed_worker_left_is_swept_by_the_next(
    sandboxes: Sandboxes, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kind, address = request.node.callspec.params["sandboxes"], engine_of(request.node.callspec.params["sandboxes"], request)
    program = f"""
import asyncio, os
from pathlib import Path
from tests.sandbox.conftest import FILES, make, tarball, there, until
from sandbox.base import Command
sandboxes = make({kind!r}, Path({str(tmp_path)!r}), address={address!r})
async def main():
    async with sandboxes.open("killed") as sandbox:
        await sandbox.unpack(tarball(FILES))
        async with sandbox.candidate() as workspace:
            task = asyncio.create_task(workspace.run(Command(("/bin/sh", "-c", "touch there; exec sleep 173205"), 60.0)))
            await until(lambda: there(workspace))
            print("running", flush=True)
            await task
asyncio.run(main())
"""
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert worker.stdout is not None
    assert await asyncio.wait_for(worker.stdout.readline(), 30) == b"running\n"
    await until(lambda: bool(running("173205")))
    worker.kill()
    await worker.wait()
    if address is None:  # an engine's containers are nobody's children
        await until(lambda: not running("173205"))
    assert list((tmp_path / "open").iterdir())
    async with sandboxes.open("next") as sandbox:
        assert sandbox
        assert not running("173205")
    assert not list((tmp_path / "open").iterdir())
    assert not groups("killed")


def running(mark: str) -> list[str]:
    """Processes of this machine whose last argument is `mark`."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                argv = Path(entry.path, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if mark.encode() in argv:
                found.append(entry.name)
    return found


def groups(label: str) -> list[Path]:
    return [path for path in Path("/sys/fs/cgroup").glob(f"**/selfheal-{label}-*") if path.is_dir()]
