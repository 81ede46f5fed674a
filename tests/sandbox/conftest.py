"""Real sandboxes for the tests: bubblewrap and plain processes, no imitation."""

from __future__ import annotations

import asyncio
import io
import subprocess
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox import docker
from sandbox.base import Command, Completed, Limits, Sandbox, Sandboxes, Workspace
from sandbox.install.package_index import IndexAccess
from sandbox.install.packages import PackageStore
from sandbox.jail import bubblewrap
from sandbox.local import LocalSandboxes
from sandbox.process import ProcessSandboxes
from tests.sandbox import engines

MIB = 1024 * 1024
LIMITS = Limits(memory=256 * MIB, processes=64, file_size=32 * MIB, open_files=256, disk=64 * MIB, cpu_seconds=20)
FILES = {"a.txt": b"first\n", "pkg/b.bin": b"\x00\xff\xfe", "run.sh": b"#!/bin/sh\necho ran\n"}


def no_bubblewrap() -> None:
    if not bubblewrap.is_installed():
        pytest.skip("bubblewrap is not installed (apt-get install bubblewrap)")


def make(kind: str, folder: Path, index: IndexAccess | None = None, address: str | None = None) -> Sandboxes:
    """`address` is that of the engine for the kinds that have one."""
    if kind == "local":
        no_bubblewrap()
    store = PackageStore(folder / "packages", index or IndexAccess((), frozenset()))
    if address is not None:
        return engines.apart(docker.connect(folder / "open", store, docker.ImagePolicy(engines.IMAGE), address))
    return (LocalSandboxes if kind == "local" else ProcessSandboxes)(folder / "open", store)


def tarball(files: dict[str, bytes], top: str = "owner-repo-abc") -> AsyncIterator[bytes]:
    members = []
    for name, content in files.items():
        header = tarfile.TarInfo(f"{top}/{name}")
        header.size, header.mode = len(content), 0o755 if name.endswith(".sh") else 0o644
        members.append((header, content))
    return packed(members)


def packed(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> AsyncIterator[bytes]:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for header, content in members:
            tar.addfile(header, io.BytesIO(content))
    return chunks(buffer.getvalue())


async def until(holds: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait, for at most some seconds, until something happened in another process."""
    for _ in range(1000):
        now = holds()
        if now if isinstance(now, bool) else await now:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen")


async def there(workspace: Workspace) -> bool:
    """Whether the command has made its file `there`."""
    return "there" in [entry.path for entry in await workspace.files()]


async def chunks(content: bytes, size: int = 65536) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


ENGINES = [pytest.param(kind, marks=pytest.mark.optional(reason="needs a container engine")) for kind in ("docker", "podman")]


def engine_of(kind: str) -> str | None:
    """The address of the engine that a kind of sandbox needs; skips the test where it cannot be had."""
    try:
        return engines.shared(kind) if kind in ("docker", "podman") else None
    except engines.NoEngine as error:
        pytest.skip(f"no {kind} engine: {error}")


async def sh(workspace: Workspace, script: str, timeout: float = 20.0, **more: Any) -> Completed:
    return await workspace.run(Command(("/bin/sh", "-c", script), timeout, **more))


@pytest.fixture
async def jail(tmp_path: Path) -> AsyncIterator[Sandbox]:
    """A sandbox that must hold hostile code."""
    async with make("local", tmp_path).open("jail", LIMITS) as opened:
        await opened.unpack(tarball(FILES))
        yield opened


@pytest.fixture
def hostile_path(tmp_path: Path) -> Iterator[Path]:
    """A folder for trees that pytest itself could not remove, if the product does not."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    yield folder
    subprocess.run(["/bin/sh", "-c", 'chmod -R u+rwX "$1"; rm -rf "$1"', "sh", str(folder)], check=False, capture_output=True)
