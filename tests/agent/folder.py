"""A workspace over a temporary folder and plain subprocesses, only until the `process` sandbox is merged."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

from sandbox.base import MIB, Command, Completed, DeadlinePassed, Entry


class Folder:
    def __init__(self, path: Path) -> None:
        self.root = str(path)
        self.python = sys.executable

    async def run(self, command: Command) -> Completed:
        started = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            cwd=os.path.join(self.root, command.cwd),
            env={"PATH": os.defpath, "HOME": "/tmp", **command.env},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(command.stdin), command.timeout)
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise DeadlinePassed(command.timeout) from None
        return Completed(process.returncode or 0, out, err, time.monotonic() - started)

    async def files(self) -> tuple[Entry, ...]:
        root = Path(self.root)
        paths = sorted(path for path in root.rglob("*") if path.is_file())
        return tuple(Entry(path.relative_to(root).as_posix(), path.stat().st_size) for path in paths)

    async def read(self, path: str, limit: int = 16 * MIB) -> bytes:
        return (Path(self.root) / path).read_bytes()

    def write_files(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = Path(self.root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


class FolderSandbox:
    def __init__(self, tools: Path) -> None:
        self.tools = tools

    async def provide(self, name: str, content: bytes) -> str:
        path = self.tools / name
        path.write_bytes(content)
        return str(path)
