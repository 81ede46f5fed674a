"""A sandbox of plain folders and subprocesses for our own small samples: quick, real runs, no isolation at all."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from sandbox.base import Command, Completed, DeadlinePassed, Entry, Installed, Isolation, LimitExceeded, Packages


class Folder:
    """A workspace."""

    python = sys.executable

    def __init__(self, path: Path) -> None:
        self.root = str(path)

    async def run(self, command: Command) -> Completed:
        started = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            cwd=os.path.join(self.root, command.cwd),
            env={"PATH": os.defpath, "HOME": self.root, "PYTHONDONTWRITEBYTECODE": "1", **command.env},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(command.stdin), command.timeout)
        except TimeoutError:
            raise DeadlinePassed(command.timeout) from None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return Completed(process.returncode or 0, out, err, time.monotonic() - started)

    async def read(self, path: str, limit: int = 1 << 24) -> bytes:
        content = self._inside(path).read_bytes()
        if len(content) > limit:
            raise LimitExceeded("output", limit)
        return content

    async def write(self, path: str, content: bytes, *, executable: bool | None = None) -> None:
        self._inside(path).parent.mkdir(parents=True, exist_ok=True)
        self._inside(path).write_bytes(content)

    async def remove(self, path: str) -> None:
        self._inside(path).unlink(missing_ok=True)

    async def files(self) -> tuple[Entry, ...]:
        root = Path(self.root)
        found = [p for p in sorted(root.rglob("*")) if p.is_file() and ".git" not in p.parts]
        return tuple(Entry(p.relative_to(root).as_posix(), p.stat().st_size) for p in found)

    def _inside(self, path: str) -> Path:
        full = Path(self.root, path)
        if ".." in full.parts or Path(path).is_absolute():
            raise ValueError(f"{path} leads outside")
        return full


class Copies:
    """A sandbox whose candidates are copies of the base."""

    isolation = Isolation("copies", untrusted=False)

    def __init__(self, folder: Path, files: Mapping[str, str | bytes]) -> None:
        self._folder = folder
        self.candidates = 0
        base = folder / "base"
        for name, content in files.items():
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            (base / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        self.base = Folder(base)

    async def unpack(self, archive: AsyncIterator[bytes]) -> None:
        raise NotImplementedError("the files are there from the start")

    async def install(self, packages: Packages) -> Installed:
        return Installed(sys.version.split()[0], 0.0)

    async def provide(self, name: str, content: bytes) -> str:
        path = self._folder / "tools" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return str(path)

    @asynccontextmanager
    async def candidate(self) -> AsyncIterator[Folder]:
        self.candidates += 1
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            await asyncio.to_thread(shutil.copytree, self.base.root, folder, dirs_exist_ok=True)
            yield Folder(Path(folder))
