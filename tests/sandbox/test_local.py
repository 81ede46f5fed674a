"""What only a sandbox for untrusted code promises: hostile programs, run for real."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from pathlib import Path

import pytest

from sandbox import folders, local
from sandbox.base import Command, Completed, DeadlinePassed, Sandbox, SandboxLost, SandboxUnavailable, Workspace
from sandbox.install.python import interpreters
from sandbox.jail import bubblewrap, cgroup, stage
from sandbox.local import LocalSandboxes
from tests.sandbox import unprivileged
from tests.sandbox.conftest import FILES, make, sh, tarball, there, until
from tests.sandbox.contract.backends import gone


async def py(workspace: Workspace, program: str, timeout: float = 20.0) -> Completed:
    return await workspace.run(Command((interpreters.own().path, "-I", "-c", program), timeout))


async def test_there_is_no_network_but_its_own_loopback(jail: Sandbox) -> None:
    with socket.socket() as listener, socket.socket(socket.AF_UNIX) as abstract:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        abstract.bind(f"\0selfheal-test-{os.getpid()}")
        abstract.listen()
        program = f"""
import socket
for family, address in ((socket.AF_INET, ("127.0.0.1", {listener.getsockname()[1]})), (socket.AF_INET, ("192.0.2.1", 80)),
                        (socket.AF_UNIX, "\\0selfheal-test-{os.getpid()}")):
    with socket.socket(family) as one:
        one.settimeout(2)
        print(type(one.connect_ex(address)).__name__, one.connect_ex(address) != 0)
with socket.socket() as own:
    own.bind(("127.0.0.1", 0)); own.listen()
    with socket.create_connection(own.getsockname()): print("own loopback")
for family in (socket.AF_NETLINK, socket.AF_PACKET, 38, 40):
    try: socket.socket(family, socket.SOCK_RAW); print("opened", family)
    except OSError: print("refused")
"""
        async with jail.candidate() as workspace:
            ended = await py(workspace, program)
    assert ended.stdout.decode().splitlines() == ["int True"] * 3 + ["own loopback"] + ["refused"] * 4, ended.stderr


async def test_names_are_resolved_as_on_a_runner(jail: Sandbox) -> None:
    program = """
import socket
print(sorted({each[4][0] for each in socket.getaddrinfo("localhost", 80)}), socket.getservbyname("http"))
with socket.socket(socket.AF_INET6) as own:
    own.bind(("::1", 0)); own.listen()
    with socket.create_connection(own.getsockname()[:2]): print("own loopback")
try: socket.getaddrinfo("example.com", 80)
except socket.gaierror as error: print(error.errno == socket.EAI_AGAIN)
"""
    async with jail.candidate() as workspace:
        ended = await py(workspace, program)
    assert ended.stdout.decode().splitlines() == ["['127.0.0.1', '::1'] 80", "own loopback", "True"], ended.stderr


async def test_nothing_of_the_worker_is_visible(jail: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFHEAL_TEST_SECRET", "s3cr3t-value")
    script = "ls /proc | grep -c '^[0-9]'; cat /etc/shadow; ls /home /sys; "
    script += "cat /proc/*/environ; tr '\\0' ' ' < /proc/1/cmdline; env"
    async with jail.candidate() as workspace:
        ended = await sh(workspace, script)
        assert b"s3cr3t" not in ended.stdout
        assert os.fsencode(Path.cwd()) not in ended.stdout
        assert b"selfheal" not in ended.stdout.lower()
        first = await py(workspace, "print(open('/proc/1/environ','rb').read())")
        assert b"PermissionError" in first.stderr
        open_files = await py(workspace, "import os; print(sorted(os.listdir('/proc/self/fd')))")
        assert open_files.stdout == b"['0', '1', '2', '3']\n"  # the last is the listing itself


async def test_the_system_is_read_only_and_nobody_is_root(jail: Sandbox) -> None:
    async with jail.candidate() as workspace:
        for path in ("/usr/x", "/etc/x", "/x", "/env/x", "/tools/x", "/dev/x", "/proc/sys/kernel/core_pattern"):
            assert (await sh(workspace, f"echo x > {path}")).exit_code != 0, path
        status = (await sh(workspace, "cat /proc/self/status; id -u")).stdout.decode()
        assert "CapEff:\t0000000000000000" in status
        assert "CapBnd:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        assert "Seccomp:\t2" in status
        assert status.endswith("1000\n")
        for program in ("unshare -U true", "unshare -r mount -t tmpfs x /tmp", "chroot / true"):
            assert (await sh(workspace, program)).exit_code != 0, program


async def test_the_kernel_filter_refuses_what_nobody_needs(jail: Sandbox) -> None:
    program = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for number in (250, 425, 101, 323, 321, 298, 272, 165):  # keyctl, io_uring, ptrace, userfaultfd, bpf, perf, unshare, mount
    assert libc.syscall(number, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM, number
assert libc.syscall(435, 0, 0) == -1 and ctypes.get_errno() == errno.ENOSYS
try: __import__("fcntl").ioctl(0, 0x5412, b"x")
except OSError as error: assert error.errno == errno.EPERM
import threading, multiprocessing, asyncio, sqlite3
threading.Thread(target=print, args=("thread",)).start()
asyncio.run(asyncio.sleep(0)); sqlite3.connect("x.db").execute("create table t (a)")
multiprocessing.get_context("fork").Pool(2).map(abs, [1, 2]); print("works")
"""
    async with jail.candidate() as workspace:
        ended = await py(workspace, program)
        assert ended.exit_code == 0, ended.stderr.decode()
        assert ended.stdout.split() == [b"thread", b"works"]


async def test_tmp_is_private_to_a_command(jail: Sandbox) -> None:
    async with jail.candidate() as workspace:
        assert (await sh(workspace, "ls -A /tmp; echo x > /tmp/x")).stdout == b""
        assert (await sh(workspace, "ls -A /tmp")).stdout == b""


@pytest.mark.parametrize("kind", ["local", "process"])
async def test_the_tree_dies_without_control_groups_too(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "make", lambda name, limits: None)
    async with make(kind, tmp_path).open("no groups") as sandbox, sandbox.candidate() as workspace:
        await sh(workspace, "setsid sleep 577215 >/dev/null 2>&1 & sleep 577215 &")
        assert await gone("577215")
        with pytest.raises(DeadlinePassed):
            await sh(workspace, "setsid sleep 577215 & sleep 577215 & wait", timeout=0.5)
        assert await gone("577215")


async def test_hostile_code_cannot_forge_its_exit_code(jail: Sandbox) -> None:
    program = (
        "import os\nfor n in range(3, 256):\n  try: os.write(n, b'{\"exit-code\": 0}\\n')\n  except OSError: pass\nos._exit(7)"
    )
    async with jail.candidate() as workspace:
        assert (await py(workspace, program)).exit_code == 7


async def test_a_sandbox_killed_from_outside_is_lost_and_no_result(jail: Sandbox) -> None:
    async with jail.candidate() as workspace:
        task = asyncio.create_task(sh(workspace, "touch there; sleep 60"))
        await until(lambda: there(workspace))
        for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
            if Path(f"/proc/{pid}/comm").read_text() == "bwrap\n":
                os.kill(int(pid), 9)
        with pytest.raises(SandboxLost, match="killed from outside"):
            await task


async def test_the_base_cannot_be_changed_by_a_command(jail: Sandbox) -> None:
    assert (await sh(jail.base, "echo x > a.txt")).exit_code != 0
    assert await jail.base.read("a.txt") == FILES["a.txt"]


async def test_a_missing_or_broken_bubblewrap_is_unavailable_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandboxes = make("local", tmp_path)
    monkeypatch.setattr(bubblewrap, "BWRAP", "/nowhere/bwrap")
    with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap"):
        async with sandboxes.open("missing"):
            pass
    broken = tmp_path / "bwrap"
    broken.write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo bubblewrap 0.9.0 && exit\n"
        "echo 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
    )
    broken.chmod(0o755)
    tmp_path.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "BWRAP", shutil.copy(broken, "/tmp/selfheal-broken-bwrap"))
    try:
        with pytest.raises(SandboxUnavailable, match="may not create namespaces"):
            async with sandboxes.open("forbidden"):
                pass
    finally:
        os.unlink("/tmp/selfheal-broken-bwrap")
    assert not list((tmp_path / "open").iterdir())


async def test_an_old_bubblewrap_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "bwrap"
    old.write_text("#!/bin/sh\necho bubblewrap 0.6.1\n")
    old.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "BWRAP", str(old))
    with pytest.raises(SandboxUnavailable, match=r"0\.6\.1 is too old"):
        async with make("local", tmp_path).open("old"):
            pass


async def test_without_overlayfs_candidates_are_copies(jail: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "LAYER", stage.LAYER.replace("-t overlay", "-t no-such-filesystem"))
    async with jail.candidate() as workspace:
        await sh(workspace, "echo changed > a.txt; echo x > new")
        assert await workspace.read("a.txt") == b"changed\n"
        assert [entry.path for entry in await workspace.files()] == ["a.txt", "new", "pkg/b.bin", "run.sh"]
    assert await jail.base.read("a.txt") == FILES["a.txt"]


@pytest.mark.optional(reason="only for root")
async def test_sandboxes_of_one_machine_have_their_own_uid(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only a worker that runs as root gives each sandbox a uid")
    sandboxes = make("local", tmp_path)
    async with sandboxes.open("one") as one, sandboxes.open("two") as two:
        assert isinstance(sandboxes, LocalSandboxes)
        uids = {one.confinement.uid, two.confinement.uid}
        assert len(uids) == 2
        assert 0 not in uids


@pytest.mark.long
@pytest.mark.optional(reason="only for root")
async def test_it_works_for_a_worker_that_is_not_root(tmp_path: Path) -> None:
    """The same sandbox under an ordinary uid, with this Python's tree shown to it in a private mount namespace."""
    if os.geteuid() != 0:
        pytest.skip("the other tests run unprivileged already")
    folder = Path("/tmp") / f"selfheal-unprivileged-{os.getpid()}"
    folder.mkdir(mode=0o755)
    program = f"""
import asyncio
from pathlib import Path
from tests.sandbox.conftest import FILES, LIMITS, make, tarball
from sandbox.base import Command, Packages
async def main():
    async with make("local", Path({str(folder / "own")!r})).open("unprivileged", LIMITS) as sandbox:
        await sandbox.unpack(tarball(FILES | {{"options.txt": b"--pre"}}))
        assert (await sandbox.install(Packages())).python
        # With something left for the installer inside: a layer over the shared environment.
        assert (await sandbox.install(Packages(requirement_files=("options.txt",)))).python
        async with sandbox.candidate() as workspace:
            script = "id -u; echo new > a.txt; rm run.sh; python -c 'print(6*7)'"
            ended = await workspace.run(Command(("sh", "-c", script), 20.0))
            print(ended.stdout.decode().split(), ended.stderr, [entry.path for entry in await workspace.files()])
            print(await workspace.read("a.txt"))
        print(await sandbox.base.read("a.txt"))
asyncio.run(main())
"""
    try:
        done = await unprivileged.run(folder, ("-c", program), 60.0)
        assert done.stdout.splitlines() == [
            "['1000', '42'] b'' ['a.txt', 'options.txt', 'pkg/b.bin']",
            "b'new\\n'",
            "b'first\\n'",
        ], done.stderr
        assert not list((folder / "own" / "open").iterdir())
    finally:
        shutil.rmtree(folder)


def test_the_isolation_is_told_in_plain_words() -> None:
    told = local.isolation_here()
    assert told.untrusted
    assert all(len(text) > 20 for text in told.shortcomings)


async def test_unpacked_files_belong_to_the_slot(jail: Sandbox) -> None:
    async with jail.candidate() as workspace:
        owners = (await sh(workspace, "stat -c %u a.txt pkg pkg/b.bin .")).stdout.split()
        assert owners == [b"1000"] * 4
        await workspace.write("pkg/b.bin", b"mine")
        assert (await sh(workspace, "echo more >> pkg/b.bin && stat -c %u pkg/b.bin")).stdout == b"1000\n"


async def test_two_sandboxes_at_once(tmp_path: Path) -> None:
    sandboxes = make("local", tmp_path)

    async def one(text: bytes) -> bytes:
        async with sandboxes.open("same label") as sandbox:
            await sandbox.unpack(tarball({"a.txt": text}))
            async with sandbox.candidate() as workspace:
                return (await sh(workspace, "cat a.txt")).stdout

    assert await asyncio.gather(one(b"one"), one(b"two")) == [b"one", b"two"]


async def test_every_opening_sweeps_what_dead_workers_left(tmp_path: Path) -> None:
    sandboxes = make("local", tmp_path)
    for _ in range(2):
        folder = folders.make(sandboxes._folder, "left")
        os.close(folder.lock)
        async with sandboxes.open("another"):
            assert not folder.path.exists()
