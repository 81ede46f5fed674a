"""Opens an ordinary sandbox, runs the attacks in it, and yields findings as they come.

Knows only the sandbox protocol, so the same code proves every kind. It also tests what only the worker's side can see: that a
deadline ends a command with everything it started, that output is limited, and whether anything reached the canaries.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import socket
import tarfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from sandbox.base import (
    MIB,
    Command,
    Completed,
    DeadlinePassed,
    InstallFailed,
    Limits,
    Packages,
    Sandbox,
    SandboxError,
    Sandboxes,
    SandboxUnavailable,
    Workspace,
)
from sandbox.host.bundle import bundle
from sandbox.host.job import LOCKED_MEMORY
from sandbox.jail.bubblewrap import scratch_bytes
from sandbox.proof import canaries
from sandbox.proof.canaries import Canaries
from sandbox.proof.findings import ATTACKS, DECISIVE, Finding, Part, broken, finding

LIMITS = Limits(memory=192 * MIB, processes=48, file_size=16 * MIB, open_files=64, disk=24 * MIB, cpu_seconds=20)
"""Small, so that reaching each limit takes little time."""
PACKAGE = "selfheal_proof"  # the attacks' package name in the sandbox; no module of a repository has this name
SECONDS = 30.0
DEADLINES = (0.3, 2.0, 8.0)
"""Timeouts of the test command, in seconds. The longer ones are for sandboxes that take that long to start it."""
GONE_SECONDS = 3.0
_BEAT, _QUIET = 0.05, 0.5  # seconds between two signs of life, and without any until the process counts as dead
_BACKGROUND_PROGRAM = """
import os, sys, time
name, seconds, beat = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    until = time.monotonic() + seconds  # so that it ends even if nothing kills it
    while time.monotonic() < until:
        with open(name, "a") as file:
            file.write(".")
        time.sleep(beat)
    os._exit(0)
time.sleep(seconds)
"""
OUTPUT = 4096
SHARED_MEMORY = 64 * MIB  # bytes of /dev/shm, in each of our sandboxes
CALLS = (
    "keyctl", "add_key", "request_key", "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "ptrace",
    "perf_event_open", "bpf", "mount", "umount2", "setns", "open_tree", "fsconfig",
)  # fmt: skip
"""Refused by every sandbox for untrusted code. The local sandbox also refuses `MORE_CALLS`; container engines allow some."""
IN_MEMORY = ("/run", "/var/tmp", "/sys/fs/cgroup")  # noqa: S108 - the container's own, as engines mount them
MORE_CALLS = ("process_vm_readv", "process_vm_writev", "name_to_handle_at", "vmsplice", "move_pages", "mbind")
INSTALLING: frozenset[Part] = frozenset({"environment", "files", "network", "uid", "processes", "kernel"})
"""What the install step must withstand too: it runs the code of a repository and of its dependencies."""
INSTALL_LIMITS = Limits()
_NOT_INSTALLING = ("owner",)  # the attacks come as files of the repository, so their owner says nothing
_BUILD_BACKEND = """
import os, subprocess, sys

def build_editable(folder, config_settings=None, metadata_directory=None):
    number = sum(name.startswith("found-") for name in os.listdir("."))
    with open("request.json") as request, open("found-%d" % number, "wb") as found:
        subprocess.call([sys.executable, "-I", "-S", os.path.abspath("proof.pyz")], stdin=request, stdout=found)
    sys.exit("the attacks are done")

build_wheel = build_sdist = prepare_metadata_for_build_editable = build_editable
"""
"""Builds nothing. It runs without a network, and then once more with the installer's proxy."""
_PYPROJECT = """
[build-system]
requires = []
build-backend = "proof_backend"
backend-path = ["."]
[project]
name = "selfheal-proof"
version = "1"
"""
_CONCURRENT = ("wall time", "output", "another sandbox")  # run commands of their own, at the same time as the others
_ON_THIS_MACHINE = ("local", "process")  # kinds of sandboxes whose files are on this machine
_SEVERITY = {"ok": 0, "skipped": 1, "warning": 2, "failed": 3}
_ALONE = ("processes", "memory")  # use up what every other command needs; the kernel may kill anything to free memory


@dataclass(frozen=True, slots=True)
class HostAssets:
    """What to protect on the worker's side: `folders` get a canary file, `files` are existing secrets.

    `sandboxes`: the folder of `open_sandboxes`, where sandboxes on this machine keep their files.
    """

    folders: Sequence[Path] = ()
    files: Sequence[Path] = ()
    sandboxes: Path | None = None


def attacks_bundle() -> bytes:
    """The attacks as a zipapp."""
    return bundle("sandbox.proof.attacks", PACKAGE, f"from {PACKAGE} import __main__\n\n__main__.main()\n")


async def prove(
    sandboxes: Sandboxes, assets: HostAssets, parts: frozenset[Part] | None = None, *, limits: Limits = LIMITS
) -> AsyncIterator[Finding]:
    """A finding for each attack of `parts` (default: all, and most of them once more from the install step).

    Raises `SandboxUnavailable` if no sandbox can be opened.
    """
    wanted = [name for name, attack in ATTACKS.items() if parts is None or attack.part in parts]
    async with AsyncExitStack() as opened:
        caches = [] if assets.sandboxes is None else sorted(assets.sandboxes.glob("packages/*/"))
        planted = await opened.enter_async_context(canaries.planted([*assets.folders, *caches], assets.files))
        try:
            sandbox = await opened.enter_async_context(sandboxes.open("proof", limits))
            tool = await sandbox.provide("proof.pyz", attacks_bundle())
            proof = _Proof(sandbox, tool, planted, limits, assets)
            concurrent = [asyncio.create_task(proof.concurrent(sandboxes, name)) for name in wanted if name in _CONCURRENT]
            opened.push_async_callback(_end, concurrent)
            for found in await proof.inside([name for name in wanted if name not in (*_CONCURRENT, *_ALONE)]):
                yield found
            for task in concurrent:
                yield await task
            for name in _ALONE:
                if name in wanted:
                    yield (await proof.inside([name]))[0]
            if parts is None and sandboxes.isolation.untrusted:
                async with sandboxes.open("proof of the install step", INSTALL_LIMITS) as other:
                    for found in await proof.installing(other, [name for name in wanted if ATTACKS[name].part in INSTALLING]):
                        yield found
        except SandboxUnavailable:
            raise
        except SandboxError as error:
            raise SandboxUnavailable(f"the sandbox's isolation could not be proven: {error}") from error


async def prove_decisive(sandboxes: Sandboxes, assets: HostAssets) -> tuple[Finding, ...]:
    """Run the decisive attacks, as before any attempt: what hostile code must not reach. Raises `SandboxUnavailable`."""
    return tuple([found async for found in prove(sandboxes, assets, DECISIVE)])


class _Proof:
    def __init__(self, sandbox: Sandbox, tool: str, planted: Canaries, limits: Limits, assets: HostAssets) -> None:
        self._sandbox, self._tool, self._planted, self._limits = sandbox, tool, planted, limits
        self._grounds, self._isolation = assets, sandbox.isolation

    async def inside(self, names: Sequence[str], neighbour: dict[str, Any] | None = None) -> list[Finding]:
        async with self._sandbox.candidate() as workspace:
            request = json.dumps(self._request(names, workspace.root, neighbour)).encode()
            argv = (workspace.python, "-I", "-S", self._tool)
            try:
                ended = await workspace.run(Command(argv, SECONDS, stdin=request, output_limit=MIB))
            except DeadlinePassed as late:
                ended = Completed(-1, late.stdout, late.stderr, late.seconds)
        found = {str(line["attack"]): line for line in _lines(ended.stdout)}
        return [self._finding(name, found.get(name), ended) for name in names]

    async def installing(self, sandbox: Sandbox, names: Sequence[str]) -> list[Finding]:
        """Findings of the same attacks as the build of a package; `sandbox` is an empty one."""
        names = [name for name in names if name not in _NOT_INSTALLING]
        request = self._request(names, sandbox.base.root, None)
        request |= {"writable": [*request["writable"], "/env"], "other_uid": False}
        files = {
            "pyproject.toml": _PYPROJECT.encode(),
            "proof_backend.py": _BUILD_BACKEND.encode(),
            "proof.pyz": attacks_bundle(),
            "request.json": json.dumps(request).encode(),
        }
        await sandbox.unpack(_archive(files))
        with suppress(InstallFailed):  # as planned
            await sandbox.install(Packages(projects=(".",)))
        found: list[list[Finding]] = []
        with suppress(FileNotFoundError):
            while True:
                output = await sandbox.base.read(f"found-{len(found)}")
                by_name = {str(line["attack"]): line for line in _lines(output)}
                found.append([self._finding(name, by_name.get(name), Completed(0, output, b"", 0.0)) for name in names])
        worst = [max(reversed(each), key=lambda one: _SEVERITY[one.status]) for each in zip(*found, strict=True)]
        worst = worst or [broken(name, "no build could be started") for name in names]
        return [replace(one, name=f"{one.name} (install step)") for one in worst]

    async def concurrent(self, sandboxes: Sandboxes, name: str) -> Finding:
        match name:
            case "wall time":
                async with self._sandbox.candidate() as workspace:
                    return await _wall_time(workspace)
            case "output":
                async with self._sandbox.candidate() as workspace:
                    return await _output(workspace)
        return await self._another_sandbox(sandboxes)

    async def _another_sandbox(self, sandboxes: Sandboxes) -> Finding:
        token = token_hex(12)
        async with sandboxes.open("proof neighbour", self._limits) as other:
            tool = await other.provide("proof.pyz", attacks_bundle())
            note = await other.provide(token, token.encode())
            async with other.candidate() as workspace:
                argv = (workspace.python, "-I", "-S", tool, token, str(SECONDS))
                staying = asyncio.create_task(workspace.run(Command(argv, SECONDS)))
                try:
                    await _until_there(workspace, token, staying)
                    inside = (note, f"{workspace.root}/{token}", f"/tmp/{token}", f"/dev/shm/{token}")  # noqa: S108 - inside
                    kept = await self._files_here(token)
                    if kept is None:
                        return finding(
                            "another sandbox", held=None, saw="the second sandbox's files were not found on this machine"
                        )
                    paths = [*kept, *inside]
                    return (await self.inside(["another sandbox"], {"token": token, "paths": paths}))[0]
                finally:
                    await _end([staying])

    async def _files_here(self, name: str) -> list[str] | None:
        """Paths of the neighbour's files on this machine; None if they should be on it but are not."""
        folder, is_here = self._grounds.sandboxes, self._isolation.name in _ON_THIS_MACHINE
        found = await asyncio.to_thread(lambda: [*folder.glob(f"open/*/*/{name}")]) if folder is not None else []
        return [str(path.resolve()) for path in found] if found or folder is None or not is_here else None

    def _request(self, names: Sequence[str], root: str, neighbour: dict[str, Any] | None) -> dict[str, Any]:
        planted, kind, disk = self._planted, self._isolation.name, scratch_bytes(self._limits)
        return {
            "attacks": list(names),
            "token": planted.token,
            "files": planted.files,
            "ports": planted.ports,
            "abstract": planted.abstract,
            "segment": planted.segment,
            "resolvers": canaries.resolvers(),
            "cgroup_namespace": canaries.cgroup_namespace(),
            "hostname": socket.gethostname(),
            "limits": asdict(self._limits),
            "locked_memory": LOCKED_MEMORY,
            "root": root,
            "writable": [root, "/tmp", "/dev/shm", "/dev", *(IN_MEMORY if kind == "docker" else ())],  # noqa: S108 - inside
            "sizes": {"/tmp": disk, "/dev/shm": SHARED_MEMORY, root: disk},  # noqa: S108 - inside
            # If the worker is not root, it has no other uid for the code.
            "other_uid": kind in ("process", "e2b") or (kind == "local" and os.geteuid() == 0),
            "calls": [*CALLS, *(() if kind == "docker" else MORE_CALLS)],
            "neighbour": neighbour,
        }

    def _finding(self, name: str, line: dict[str, Any] | None, ended: Completed) -> Finding:
        if name == "loopback of the machine" and self._planted.reached_by:
            reached_by = ", ".join(sorted(set(self._planted.reached_by)))
            found = finding(name, held=False, saw=f"a connection came from the sandbox ({reached_by})")
        elif line is None and name == "memory" and ended.out_of_memory:
            found = finding(name, held=True, saw="the kernel killed the processes that used too much memory")
        elif line is None:
            why = ended.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {ended.exit_code}"]
            found = broken(name, why[0][:200])
        elif "broken" in line:
            found = broken(name, str(line["broken"])[:200])
        else:
            held = line.get("held")
            found = finding(name, held if held is None else bool(held), str(line.get("saw"))[:300])
        return replace(found, status="warning") if found.status == "failed" and self._is_not_promised(found) else found

    def _is_not_promised(self, found: Finding) -> bool:
        """Whether this kind of sandbox does not promise what was attacked, or leaves it to the engine's own filter."""
        if not self._isolation.untrusted:
            return False
        if found.name == "disk":
            return "disk" not in self._isolation.promises
        return self._isolation.name == "docker" and found.part == "kernel" and found.name != "kernel filter"


async def _wall_time(workspace: Workspace) -> Finding:
    """A background process writes to a file while it lives. The test must see it start before it can see it end."""
    name = token_hex(12)
    argv = (workspace.python, "-I", "-S", "-c", _BACKGROUND_PROGRAM, name, str(SECONDS), str(_BEAT))
    for deadline in DEADLINES:
        try:
            await workspace.run(Command(argv, deadline))
        except DeadlinePassed:
            pass
        else:
            return finding("wall time", held=False, saw="a command kept running after its deadline")
        if await _size(workspace, name):
            break
    else:
        return finding("wall time", held=None, saw=f"the command did not start within {DEADLINES[-1]:.0f} s")
    if await _grows(workspace, name):
        return finding("wall time", held=False, saw="a process left in the background kept running after the deadline")
    return finding("wall time", held=True, saw=f"a command and its background processes ended after {deadline:g} s")


async def _grows(workspace: Workspace, name: str) -> bool:
    """Whether the file still grows after its writer must have ended."""
    waited, before = 0.0, await _size(workspace, name)
    while waited < GONE_SECONDS:
        await asyncio.sleep(_QUIET)
        waited += _QUIET
        now = await _size(workspace, name)
        if now == before:
            return False
        before = now
    return True


async def _size(workspace: Workspace, name: str) -> int:
    """Size of a file in bytes; 0 if it does not exist."""
    try:
        return len(await workspace.read(name))
    except FileNotFoundError:
        return 0


async def _output(workspace: Workspace) -> Finding:
    ended = await workspace.run(Command(("/bin/sh", "-c", "head -c 2000000 /dev/zero"), SECONDS, output_limit=OUTPUT))
    held = ended.truncated and len(ended.stdout) < 2 * OUTPUT
    return finding("output", held=held, saw=f"{len(ended.stdout):,} of 2,000,000 bytes were kept")


async def _until_there(workspace: Workspace, token: str, staying: asyncio.Task[Completed]) -> None:
    """Wait for the file that the neighbour writes last. Raises `SandboxUnavailable` if the neighbour ended instead."""
    for _ in range(int(SECONDS / 0.05)):
        if staying.done():
            said = staying.result().stderr.decode(errors="replace").strip()
            raise SandboxUnavailable(f"a program in a second sandbox ended at once: {said[-200:]}")
        with suppress(FileNotFoundError):
            if await workspace.read(token) == token.encode():
                return
        await asyncio.sleep(0.05)
    raise SandboxUnavailable("a program in a second sandbox did not start")


async def _archive(files: Mapping[str, bytes]) -> AsyncIterator[bytes]:
    """As GitHub packs a repository: all files in one folder."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"proof/{name}")
            member.size, member.mode = len(content), 0o644
            tar.addfile(member, io.BytesIO(content))
    yield packed.getvalue()


def _lines(output: bytes) -> list[dict[str, Any]]:
    """The program's own lines. Nothing else writes to its output, so an invalid line means that the program died."""
    found = []
    for line in output.decode(errors="replace").splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return [line for line in found if isinstance(line, dict) and "attack" in line]


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
