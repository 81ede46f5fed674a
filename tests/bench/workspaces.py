"""A candidate's workspace on a repository of 5,000 files: made, used, thrown away, in the sandbox that `auto` means here."""

from __future__ import annotations

import io
import os
import statistics
import tarfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from sandbox.backends import open_sandboxes
from sandbox.base import Command, Packages
from tests.bench.table import Figure, Say, spread

FILES = 5_000
BYTES = 12_000  # of each: 60 MB in all
TURNS = 30


async def measure(folder: Path, say: Say) -> list[Figure]:
    """Raises `sandbox.base.SandboxError`."""
    sandboxes = await open_sandboxes("auto", folder)
    archive = _archive()
    made, ran = [], []
    async with sandboxes.open("bench") as sandbox:
        await sandbox.unpack(_chunks(archive))
        await sandbox.install(Packages())
        say(f"{FILES} files are unpacked")
        for _ in range(TURNS):
            began = time.perf_counter()
            async with sandbox.candidate() as workspace:
                made.append((time.perf_counter() - began) * 1000)
                await workspace.write("package/module_7.py", b"x = 1\n")
                began = time.perf_counter()
                await workspace.run(Command(("true",), 20))
                ran.append((time.perf_counter() - began) * 1000)
    name = sandboxes.isolation.name
    return [
        Figure("workspace on 5,000 files", spread(made, "ms", 1), "≤ 15 ms", statistics.median(made) <= 15, name),
        Figure("  and one program in it", spread(ran, "ms", 1), note=name),
    ]


def _archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
        for number in range(FILES):
            content = f"# {number}\n".encode() + os.urandom(BYTES // 2).hex().encode()
            member = tarfile.TarInfo(f"top/package/module_{number}.py")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


async def _chunks(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1 << 16):
        yield content[start : start + (1 << 16)]
