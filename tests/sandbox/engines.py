"""Real container engines for the tests: one that is installed here is started for the session, over a folder of its own.

Docker's and Podman's daemons themselves, and an image made of this machine's own files (no registry is asked). Where one
cannot run, the tests that need it are skipped, with the reason.
"""

from __future__ import annotations

import asyncio
import atexit
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiodocker

from sandbox.containers import resources
from sandbox.install.python.interpreters import own

T = TypeVar("T")
IMAGE = "localhost/selfheal-test:latest"
PROGRAMS = (
    *("sh", "cat", "head", "sleep", "mkfifo", "ln", "mkdir", "ls", "rm", "touch", "cp", "chmod", "echo", "env", "id", "kill"),
    *(
        "setsid",
        "true",
        "false",
        "du",
        "dd",
        "grep",
        "yes",
        "seq",
        "stat",
        "df",
        "nproc",
        "wc",
        "tail",
        "sort",
        "readlink",
        "printf",
        "sha256sum",
    ),
)
STARTING_SECONDS = 30.0
# The daemons want either version of control groups, and this machine may have both: they get a view with one of them.
ONE_VERSION = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"'
ULIMITS = '[containers]\ndefault_ulimits = ["nofile=1024:1024"]\n[engine]\nevents_logger = "file"\n'


class NoEngine(Exception):
    """Why there is none."""


def shared(kind: str) -> str:
    """The address of the one engine of its kind that these tests have, which ends with them. Raises `NoEngine`."""
    if kind not in _shared:
        opened = ExitStack()
        try:
            _shared[kind] = opened.enter_context(engine(kind))
            atexit.register(opened.close)
        except NoEngine as why:
            _shared[kind] = why
    found = _shared[kind]
    if isinstance(found, NoEngine):
        raise found
    return found


_shared: dict[str, str | NoEngine] = {}


@contextmanager
def engine(kind: str) -> Iterator[str]:
    """The address of a fresh engine that has `IMAGE`. Raises `NoEngine`."""
    program = {"docker": "dockerd", "podman": "podman"}[kind]
    if shutil.which(program) is None:
        raise NoEngine(f"{program} is not installed")
    if os.geteuid():
        raise NoEngine(f"{program} is started by root only")
    folder = Path(tempfile.mkdtemp(prefix="selfheal-engine-", dir="/tmp"))
    address = f"unix://{folder}/engine.sock"
    (folder / "containers.conf").write_text(ULIMITS)
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", ONE_VERSION, "sh", *_argv(kind, folder, address)],
        stdout=log,
        stderr=log,
        stdin=subprocess.DEVNULL,
        cwd=folder,  # Podman's monitor leaves a file there where a container ran out of memory
        env=os.environ | {"CONTAINERS_CONF": str(folder / "containers.conf")},
    )
    try:
        _wait(process, folder)
        apart(_prepare(address))
        yield address
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def left_in(address: str, folder: Path) -> list[str]:
    """Containers and volumes of the installation whose sandboxes are in `folder`."""
    wanted = json.dumps({"label": [f"{resources.INSTALLATION}={resources.installation(folder)}"]})

    async def ask() -> list[str]:
        async with aiodocker.Docker(url=address) as client:
            containers = await client.containers.list(all=1, filters=wanted)
            volumes = await client._query_json("volumes", params={"filters": wanted})
        return [container.id for container in containers] + [volume["Name"] for volume in volumes["Volumes"] or ()]

    return apart(ask())


def apart(work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns, from a loop of its own: a test's may be running."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _argv(kind: str, folder: Path, address: str) -> tuple[str, ...]:
    if kind == "podman":
        places = ("--root", f"{folder}/root", "--runroot", f"{folder}/run", "--cgroup-manager", "cgroupfs")
        return ("podman", *places, "system", "service", "--time=0", address)
    return (
        *("dockerd", "--data-root", f"{folder}/root", "--exec-root", f"{folder}/run", "--pidfile", f"{folder}/pid"),
        *("--host", address, "--iptables=false", "--ip6tables=false", "--bridge=none", "--default-ulimit", "nofile=1024:1024"),
    )


def _wait(process: subprocess.Popen[bytes], folder: Path) -> None:
    for _ in range(int(STARTING_SECONDS / 0.1)):
        if (folder / "engine.sock").is_socket():
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    said = (folder / "log").read_text(errors="replace").strip().splitlines()
    raise NoEngine(f"{process.args[-1]!s:.80} cannot be started: {said[-1] if said else 'no word'}")


async def _prepare(address: str) -> None:
    try:
        async with aiodocker.Docker(url=address) as client:
            info = await client.version()
            url = f"{client.docker_host}/v{info['ApiVersion']}/images/create"
            name, _, tag = IMAGE.rpartition(":")
            asked = {"fromSrc": "-", "repo": name, "tag": tag}
            headers = {"Content-Type": "application/x-tar"}
            async with client.session.post(url, params=asked, data=_image(), headers=headers) as reply:
                if reply.status != 200:
                    raise NoEngine(f"an image cannot be imported: {await reply.text()}")
                await reply.read()
            ulimits = [{"Name": name, "Soft": 1024, "Hard": 1024} for name in ("nofile", "nproc")]
            host = {"NetworkMode": "none", "Ulimits": ulimits}
            made = await client.containers.create({"Image": IMAGE, "Cmd": ["true"], "HostConfig": host})
            try:
                await made.start()
                if (ended := await made.wait())["StatusCode"]:
                    raise NoEngine(f"its containers do not run here: {ended}")
            finally:
                await made.delete(force=True)
    except (aiodocker.DockerError, OSError) as error:
        raise NoEngine(f"its containers do not run here: {error}") from error


def _image() -> bytes:
    """A root file system: a shell, the programs that tests use, this worker's own Python, and the libraries of them all."""
    interpreter = own()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for folder in ("tmp", "proc", "sys", "dev", "etc", "run", "usr/bin", "usr/lib", "open"):
            header = tarfile.TarInfo(folder)
            header.type, header.mode = tarfile.DIRTYPE, 0o1777 if folder in ("tmp", "open") else 0o755
            tar.addfile(header)
        for name in ("bin", "lib", "lib64", "sbin"):
            if Path("/", name).is_symlink():
                tar.add(f"/{name}", name, recursive=False)
        binaries = {Path("/usr/bin", name): _real(name) for name in PROGRAMS if shutil.which(name)}
        binaries[Path("/usr/local/bin/python3")] = binaries[Path(interpreter.path)] = Path(interpreter.path)
        library = Path(interpreter.prefix, "lib", f"python{interpreter.version.rpartition('.')[0]}")
        for place, source in binaries.items():
            tar.add(source, _inside(place))
        tar.add(library, _inside(library), filter=_needed)
        needing = {*binaries.values(), *library.glob("lib-dynload/*.so"), *map(Path, _LIBRARIES)}
        for needed in sorted(_libraries(needing)):
            tar.add(Path(needed).resolve(), _inside(Path(needed)))
    return packed.getvalue()


_LIBRARIES = tuple(str(path) for path in Path("/usr/lib").glob("*/libgcc_s.so.1"))  # what the installer's program needs


def _libraries(binaries: set[Path]) -> set[str]:
    told = subprocess.run(["ldd", *map(str, sorted(binaries))], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(/\S+) \(0x", told)) | set(_LIBRARIES)


def _real(name: str) -> Path:
    return Path(shutil.which(name) or name).resolve()


def _inside(path: Path) -> str:
    """Its name in the image; where a folder is a link on this machine, below what it leads to."""
    return str(path.parent.resolve() / path.name).lstrip("/")


def _needed(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    unneeded = {"test", "tests", "site-packages", "dist-packages", "idlelib", "__pycache__", "ensurepip", "tkinter"}
    return None if unneeded & set(member.name.split("/")) else member
