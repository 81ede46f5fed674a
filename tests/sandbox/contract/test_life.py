"""What every sandbox promises of candidates, and of its end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from sandbox.base import Command, InstallFailed, Packages, Sandbox
from tests.sandbox.conftest import FILES, LIMITS, sh, tarball, until
from tests.sandbox.contract.backends import Backend, gone, running

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.long
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


@pytest.mark.long
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


async def test_nothing_is_left_when_it_closes(backend: Backend) -> None:
    before = sorted(backend.left())
    mounts = Path("/proc/self/mounts").read_text()
    async with backend.sandboxes.open("leaves nothing", LIMITS) as sandbox:
        await sandbox.unpack(tarball(FILES))
        async with sandbox.candidate() as workspace:
            await sh(workspace, "mkdir -p a/b/c; chmod 000 a; echo x > b; setsid sleep 112358 &")
        assert sorted(backend.left()) != before
        assert Path("/proc/self/mounts").read_text() == mounts
    await until(lambda: sorted(backend.left()) == before)
    assert await gone("112358")


async def test_an_error_inside_still_leaves_nothing(backend: Backend) -> None:
    before = sorted(backend.left())
    with pytest.raises(KeyError):
        async with backend.sandboxes.open("leaves too") as sandbox, sandbox.candidate():
            raise KeyError
    await until(lambda: sorted(backend.left()) == before)


@pytest.mark.long
async def test_what_a_killed_worker_left_is_swept_by_the_next(fresh: Backend) -> None:
    imports, expression = fresh.elsewhere
    program = f"""
import asyncio
from pathlib import Path
from sandbox.base import Command
from tests.sandbox.conftest import FILES, tarball, there, until
{imports}
async def main():
    async with {expression}.open("leaves much") as sandbox:
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
    assert fresh.left()
    if fresh.sandboxes.isolation.name in ("local", "process"):
        assert await gone("173205"), "what runs on this machine dies with its worker"
    async with fresh.sandboxes.open("leaves none") as sandbox:
        assert sandbox
    await until(lambda: not fresh.left())
    assert await gone("173205")


async def test_what_amends_the_base_is_in_every_candidate(fresh: Backend) -> None:
    async with fresh.sandboxes.open("amended", LIMITS) as sandbox:
        await sandbox.unpack(tarball(FILES))
        ended = await sandbox.amend(Command(("/bin/sh", "-c", "mkdir .git; echo kept > .git/seen; exit 3"), 20.0))
        assert ended.exit_code == 3
        for _ in range(2):
            async with sandbox.candidate() as workspace:
                assert (await sh(workspace, "cat .git/seen; echo changed > .git/seen")).stdout == b"kept\n"
                assert {entry.path for entry in await workspace.files()} == FILES.keys()
