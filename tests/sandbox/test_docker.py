"""What sandboxes in a container engine promise, tried with real daemons; the contract itself is in `test_contract`."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import aiodocker
import pytest

from sandbox import docker
from sandbox.base import Command, Completed, LimitExceeded, Packages, Sandbox, SandboxLost, SandboxUnavailable, Workspace
from sandbox.containers import images, resources
from sandbox.containers.command import USER
from sandbox.containers.engine import EngineInfo, address
from sandbox.docker import DockerSandboxes
from sandbox.install.package_index import IndexAccess
from sandbox.install.packages import PackageStore
from tests.sandbox import engines
from tests.sandbox.conftest import ENGINES, FILES, LIMITS, MIB, engine_of, tarball
from tests.sandbox.engines import left_in

Reach = Callable[[docker.ImagePolicy], Awaitable[DockerSandboxes]]
FACTS = EngineInfo(
    "Docker 1", podman=False, rootless=False, filters=True, bounds_memory=True, bounds_processes=True, processors=2
)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    found = engine_of(request.param)
    assert found is not None
    return found


@pytest.fixture
def reach(engine: str, tmp_path: Path) -> Reach:
    async def reach(choice: docker.ImagePolicy) -> DockerSandboxes:
        store = PackageStore(tmp_path / "packages", IndexAccess((), frozenset()))
        return await docker.connect(tmp_path / "open", store, choice, engine)

    return reach


@pytest.fixture
async def contained(reach: Reach) -> DockerSandboxes:
    return await reach(docker.ImagePolicy(engines.IMAGE))


@pytest.fixture
async def sandbox(contained: DockerSandboxes) -> AsyncIterator[Sandbox]:
    async with contained.open("docker test", LIMITS) as opened:
        await opened.unpack(tarball(FILES))
        yield opened


async def sh(workspace: Workspace, script: str, timeout: float = 30.0) -> Completed:
    return await workspace.run(Command(("/bin/sh", "-c", script), timeout))


async def py(workspace: Workspace, program: str) -> Completed:
    return await workspace.run(Command((workspace.python, "-I", "-c", program), 30.0))


async def test_there_is_no_network_but_its_own_loopback(sandbox: Sandbox) -> None:
    with socket.socket() as listener, socket.socket(socket.AF_UNIX) as abstract:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        abstract.bind(f"\0selfheal-test-{os.getpid()}")
        abstract.listen()
        program = f"""
import os, socket
for family, address in ((socket.AF_INET, ("127.0.0.1", {listener.getsockname()[1]})), (socket.AF_INET, ("192.0.2.1", 80)),
                        (socket.AF_UNIX, "\\0selfheal-test-{os.getpid()}")):
    with socket.socket(family) as one:
        one.settimeout(2)
        print(one.connect_ex(address) != 0)
with socket.socket() as own:
    own.bind(("127.0.0.1", 0)); own.listen()
    with socket.create_connection(own.getsockname()): print("own loopback")
print(os.listdir("/sys/class/net"))
"""
        async with sandbox.candidate() as workspace:
            ended = await py(workspace, program)
    assert ended.stdout.decode().splitlines() == ["True"] * 3 + ["own loopback", "['lo']"], ended.stderr


async def test_the_system_is_read_only_and_nobody_is_root(sandbox: Sandbox) -> None:
    await sandbox.provide("tool", b"x")
    async with sandbox.candidate() as workspace:
        places = ("/usr/x", "/etc/x", "/x", "/open/x", "/tools/x", "/dev/x", "/proc/sys/kernel/core_pattern")
        # Where there is one: else Podman shows a folder in memory in its place.
        groups = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/cgroup.procs")
        script = "".join(f"(echo x > {path}) 2>/dev/null && echo {path};" for path in places)
        script += "".join(f"[ -e {path} ] && (echo 1 > {path}) 2>/dev/null && echo {path};" for path in groups)
        tried = await sh(workspace, script)
        assert tried.stdout == b""
        status = (await sh(workspace, "cat /proc/self/status; id -u; id -G")).stdout.decode()
        for line in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
            assert line in status
        assert status.endswith(f"{USER}\n{USER}\n")
        base = await sandbox.base.run(Command(("/bin/sh", "-c", "echo x > a.txt"), 20.0))
        assert base.exit_code != 0, "the base is what every candidate starts as"


async def test_nothing_of_the_worker_and_of_the_engine_is_visible(
    sandbox: Sandbox, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELFHEAL_TEST_SECRET", "s3cr3t-value")
    async with sandbox.candidate() as workspace:
        seen = await sh(workspace, "tr '\\0' '\\n' < /proc/1/environ; env; cat /proc/mounts; ls -a / /run /var/run 2>/dev/null")
    assert b"s3cr3t" not in seen.stdout
    assert b".sock" not in seen.stdout
    assert os.fsencode(tmp_path) not in seen.stdout
    assert b"engine.sock" not in seen.stdout


async def test_memory_disk_and_processes_are_bounded(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        starved = await py(
            workspace,
            "import subprocess, sys\n"
            "print(subprocess.run([sys.executable, '-c', 'x = bytearray(400 << 20)']).returncode, 'PASSED')",
        )
        assert (starved.exit_code, starved.stdout, starved.out_of_memory) == (0, b"-9 PASSED\n", True)
        assert starved.stderr == b"", "what we tell ourselves is not the command's output"
        forked = await py(
            workspace,
            "import os, time\ncount = 0\n"
            "try:\n    while count < 1000:\n        if os.fork() == 0: time.sleep(60); os._exit(0)\n        count += 1\n"
            "except OSError: pass\nprint(count)",
        )
        assert 10 < int(forked.stdout) < LIMITS.processes
        filler = "for i in 1 2 3 4 5 6; do head -c 16000000 /dev/zero > {}/$i || exit 9; done"
        assert (await sh(workspace, "ls -A /tmp; echo x > /tmp/x")).stdout == b""
        assert (await sh(workspace, "ls -A /tmp")).stdout == b"", "each command has one of its own"
        for folder in ("/tmp", "/dev/shm", workspace.root):
            assert (await sh(workspace, filler.format(folder))).exit_code == 9, folder
        with pytest.raises(LimitExceeded) as full:
            await workspace.write("more", b"x" * 8 * MIB)
        assert full.value.which == "disk"


async def test_a_command_may_ask_for_a_folder_that_is_a_trap(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        await sh(workspace, "ln -s /etc way; rm -rf pkg")
        assert (await workspace.run(Command(("true",), 20.0, cwd="pkg"))).exit_code == 126
        assert [entry.path for entry in await workspace.files()] == ["a.txt", "run.sh", "way"], "nobody made it"


async def test_a_workspace_whose_own_folder_became_a_link_is_not_followed(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        moved = await sh(workspace, "cd ..; mv repo away && ln -s /etc repo")
        if moved.exit_code == 0:
            with pytest.raises(ValueError, match="not a folder"):
                await workspace.read("passwd")
            with pytest.raises(ValueError, match="not a folder"):
                await workspace.write("passwd", b"mine")


async def test_what_is_fed_is_read_to_its_end(sandbox: Sandbox) -> None:
    content = os.urandom(3 * MIB)
    async with sandbox.candidate() as workspace:
        fed = await workspace.run(Command(("/bin/sh", "-c", "wc -c; cat >&2"), 30.0, stdin=content))
        assert int(fed.stdout) == len(content)
        assert (await workspace.run(Command(("true",), 30.0, stdin=content))).exit_code == 0, (
            "who does not read is not waited for"
        )


async def test_nothing_is_left_in_the_engine(contained: DockerSandboxes, engine: str, tmp_path: Path) -> None:
    async with contained.open("left over", LIMITS) as sandbox:
        await sandbox.unpack(tarball(FILES))
        await sandbox.install(Packages())
        async with sandbox.candidate() as workspace:
            before = len(left_in(engine, tmp_path / "open"))
            await workspace.install(Packages())
            await sh(workspace, "setsid sleep 30 &")
        assert len(left_in(engine, tmp_path / "open")) < before
    assert left_in(engine, tmp_path / "open") == []


async def test_the_sweeper_takes_what_the_dead_left_and_nothing_else(
    contained: DockerSandboxes, engine: str, tmp_path: Path
) -> None:
    mine, other = resources.installation(tmp_path / "open"), resources.installation(tmp_path / "elsewhere")
    async with contained.open("alive", LIMITS) as alive, aiodocker.Docker(url=engine) as client:
        await alive.unpack(tarball(FILES))
        left = {}
        for owner in (mine, other):
            labels = {resources.INSTALLATION: owner, resources.SANDBOX: "dead-0123"}
            volume = await client.volumes.create({"Labels": labels})
            left[owner] = (
                await client.containers.create(
                    {"Image": engines.IMAGE, "Cmd": ["true"], "Labels": labels, "HostConfig": {"NetworkMode": "none"}}
                ),
                volume,
            )
        try:
            async with contained.open("sweeps", LIMITS):
                there = left_in(engine, tmp_path / "open")
                assert left[mine][0].id not in there
                assert left[mine][1].name not in there
                assert len(left_in(engine, tmp_path / "elsewhere")) == 2
            assert [entry.path for entry in await alive.base.files()] == sorted(FILES)
        finally:
            await left[other][0].delete(force=True)
            await left[other][1].delete()


async def test_an_image_that_cannot_be_had_is_named(reach: Reach) -> None:
    with pytest.raises(SandboxUnavailable, match="selfheal-no-such-image"):
        async with (await reach(docker.ImagePolicy("localhost/selfheal-no-such-image:1"))).open("no image"):
            raise AssertionError("unreachable")


@pytest.mark.parametrize("name", ["", "UPPER", "a b", "../up", "image:tag:tag", "-v/:/host", "a" * 600, "i@sha256:1", "x\n"])
def test_what_is_no_name_of_an_image_is_refused_unasked(name: str, tmp_path: Path) -> None:
    sandboxes = DockerSandboxes(
        tmp_path,
        PackageStore(tmp_path, IndexAccess((), frozenset())),
        docker.ImagePolicy("python:3.12"),
        "unix:///nowhere",
        FACTS,
    )
    with pytest.raises(SandboxUnavailable, match="not the name of an image"):
        sandboxes.with_image(name)


@pytest.mark.parametrize(
    "name", ["python", "python:3.12-slim", "registry.example:5000/team/app__x:1.0", "a/b/c", f"node@sha256:{'0' * 64}"]
)
def test_names_of_images_as_workflows_write_them(name: str) -> None:
    assert images.is_reference(name)


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("python", "docker.io/library/python:latest"),
        ("team/app:1", "docker.io/team/app:1"),
        ("index.docker.io/python:3", "docker.io/library/python:3"),
        ("localhost/a", "localhost/a:latest"),
        ("host:5000/a/b", "host:5000/a/b:latest"),
        ("ghcr.io/a@sha256:0", "ghcr.io/a@sha256:0"),
    ],
)
def test_a_short_name_stands_for_a_full_one(name: str, full: str) -> None:
    assert images.full_name(name) == full


@pytest.mark.parametrize(
    ("name", "patterns", "allowed"),
    [
        ("python:3.12", (), False),
        ("python:3.12", ("python:*",), True),
        ("docker.io/library/python:3.12", ("python:*",), True),
        ("python:3.12", ("docker.io/library/*",), True),
        ("python:3.12", ("node:*", "python:3.12"), True),
        ("python:3.12", ("python",), False),
        ("evil/python:3.12", ("python:*",), False),
        ("localhost/python:3.12", ("python:*", "*"), False),
        ("registry.example/library/python:3.12", ("docker.io/library/*",), False),
        ("registry.example/team/a/b:1", ("registry.example/team/*",), False),
        ("registryxexample/team/a:1", ("registry.example/team/*",), False),
    ],
)
def test_a_repository_chooses_among_what_the_operator_allows(name: str, patterns: tuple[str, ...], allowed: bool) -> None:
    assert images.is_allowed(name, patterns) is allowed


def test_an_image_that_is_not_allowed_is_not_asked_for(tmp_path: Path) -> None:
    store = PackageStore(tmp_path, IndexAccess((), frozenset()))
    sandboxes = DockerSandboxes(tmp_path, store, docker.ImagePolicy("python:3.12", ("node:*",)), "unix:///nowhere", FACTS)
    assert sandboxes.with_image("localhost/private:1") is None
    assert sandboxes.with_image("node:22") is not None
    assert sandboxes.with_image("docker.io/library/python:3.12") is sandboxes, "the operator's own"


async def test_what_the_engine_has_of_its_own_is_not_what_a_repository_gets(reach: Reach) -> None:
    """Its registry is out of reach here: were the local image taken, the sandbox would open."""
    sandboxes = await reach(docker.ImagePolicy("python:3.12", ("localhost/*",)))
    wished = sandboxes.with_image(engines.IMAGE)
    assert wished is not None
    with pytest.raises(SandboxUnavailable, match="cannot be pulled"):
        async with wished.open("private"):
            raise AssertionError("unreachable")


async def test_a_pattern_that_no_name_can_have_is_refused_at_the_start(tmp_path: Path) -> None:
    store = PackageStore(tmp_path, IndexAccess((), frozenset()))
    with pytest.raises(SandboxUnavailable, match="not a pattern"):
        await docker.connect(tmp_path, store, docker.ImagePolicy("python:3.12", ("UPPER *",)), "unix:///nowhere")


@pytest.fixture
async def with_volumes(engine: str) -> AsyncIterator[str]:
    """An image that declares volumes."""
    name = "localhost/selfheal-volumes"
    async with aiodocker.Docker(url=engine) as client:
        made = await client.containers.create({"Image": engines.IMAGE, "Cmd": ["true"], "HostConfig": {"NetworkMode": "none"}})
        try:
            await made.commit(
                repository=name, tag="1", config={"Labels": {"made": "here"}}, changes=["VOLUME /data", "VOLUME /var/cache/it"]
            )
        finally:
            await made.delete(force=True)
        yield f"{name}:1"
        await client.images.delete(f"{name}:1", force=True)


async def test_the_volumes_of_an_image_are_bounded(reach: Reach, with_volumes: str, engine: str) -> None:
    filler = "for i in 1 2 3 4 5 6; do head -c 16000000 /dev/zero > {}/$i || exit 9; done"
    async with aiodocker.Docker(url=engine) as client:
        before = {volume["Name"] for volume in (await client.volumes.list())["Volumes"] or ()}
        async with (
            (await reach(docker.ImagePolicy(with_volumes))).open("volumes", LIMITS) as sandbox,
            sandbox.candidate() as workspace,
        ):
            for folder in ("/data", "/var/cache/it"):
                assert (await sh(workspace, filler.format(folder))).exit_code == 9, folder
            made = [volume for volume in (await client.volumes.list())["Volumes"] or () if volume["Name"] not in before]
            assert all(resources.SANDBOX in (volume["Labels"] or {}) for volume in made), "none but our own"


@pytest.mark.parametrize(
    "place", ["/", "/work", "/work/repo", "/tmp", "tmp/", "/env/python/bin", "/dev/shm", "/x/../proc", "//work"]
)
def test_an_image_with_a_volume_over_the_sandboxs_own_folders_is_refused(place: str) -> None:
    with pytest.raises(SandboxUnavailable, match="own folders"):
        images.volumes_of("odd", {"Volumes": {place: {}}})
    with pytest.raises(SandboxUnavailable, match="17 volumes"):
        images.volumes_of("odd", {"Volumes": {f"/{number}": {} for number in range(17)}})
    assert images.volumes_of("plain", {"Volumes": None}) == ()


async def test_what_a_place_began_goes_when_its_helper_cannot_be_made(
    contained: DockerSandboxes, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with contained.open("keeper", LIMITS) as sandbox:
        await sandbox.unpack(tarball(FILES))
        before = left_in(engine, tmp_path / "open")

        async def fails(*_: object) -> None:
            raise SandboxLost("no keeper today")

        with monkeypatch.context() as patched:
            patched.setattr(resources.EngineResources, "helper", fails)
            with pytest.raises(SandboxLost, match="no keeper"):
                await sandbox.install(Packages())
        assert sorted(left_in(engine, tmp_path / "open")) == sorted(before)


async def test_without_an_engine_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PackageStore(tmp_path, IndexAccess((), frozenset()))
    with pytest.raises(SandboxUnavailable, match=r"none\.sock"):
        await docker.connect(tmp_path, store, docker.ImagePolicy("python:3.12"), f"unix://{tmp_path}/none.sock")
    with pytest.raises(SandboxUnavailable, match="not a valid engine address"):
        await docker.connect(tmp_path, store, docker.ImagePolicy("python:3.12"), "nonsense")
    monkeypatch.setenv("DOCKER_HOST", "unix:///told")
    assert address() == "unix:///told"
    assert address("unix:///given") == "unix:///given"
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with socket.socket(socket.AF_UNIX) as listener:
        (tmp_path / "podman").mkdir()
        listener.bind(str(tmp_path / "podman/podman.sock"))
        assert address() == f"unix://{tmp_path}/podman/podman.sock"


def test_what_an_engine_does_not_bound_is_said() -> None:
    assert docker.isolation_of(FACTS).untrusted
    told = docker.isolation_of(replace(FACTS, name="Podman 5", podman=True, rootless=True, filters=False, bounds_memory=False))
    assert not told.untrusted, "without a filter it is not for code that nobody vouches for"
    assert any("seccomp" in one for one in told.shortcomings)
    assert told.promises == {"files", "network", "processes"}
    assert any("disk" in one for one in told.shortcomings)
    assert not any("root:" in one for one in told.shortcomings)
