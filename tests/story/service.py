"""The real service as its own processes, pointed at stand-ins: what the story tests and the demo run.

Web and worker are started by the product's own command line, share a data folder (and so an embedded Redis), and can be killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests.standins.github import GitHub

READY_SECONDS = 120.0  # on a machine where everything else starts too


class NotStarted(Exception):
    """A process of the service did not come up; the message ends with what it said."""


class Died(Exception):
    """A process of the service ended by itself."""


class Service:
    """Web and workers in `folder`. Variables of the surrounding environment that configure Selfheal are left out."""

    def __init__(self, github: GitHub, folder: Path, variables: Mapping[str, str] | None = None, program: str = "app") -> None:
        self.program = program  # the module that is run; the product's own, unless a test means to break it
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.pages_port = free_port()
        self.pages = f"http://127.0.0.1:{self.pages_port}"
        self.folder = folder
        self.workers: list[Process] = []
        self._web: Process | None = None
        self._key = folder / "app.pem"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
        self.variables = {
            "SELFHEAL_DATA_DIR": str(folder / "data"),
            "SELFHEAL_GITHUB_APP_ID": str(github.app_id),
            "SELFHEAL_GITHUB_PRIVATE_KEY_FILE": str(self._key),
            "SELFHEAL_GITHUB_API_URL": github.url,
            "SELFHEAL_GITHUB_WRITE_SECONDS": "0",
            "SELFHEAL_GITHUB_WEBHOOK_SECRET": github.webhook_secret,
            "SELFHEAL_PORT": str(self.port),
            "SELFHEAL_PAGES_PORT": str(self.pages_port),
            **(variables or {}),
        }
        self._environment = {**inherited, **self.variables}
        folder.mkdir(parents=True, exist_ok=True)
        self._key.write_text(github.private_key)
        self._key.chmod(0o600)
        github.deliver_to(f"{self.url}/webhooks/github")

    @property
    def web(self) -> Process:
        assert self._web is not None, "not started"
        return self._web

    async def start(self, workers: int = 1) -> None:
        """Start the processes and wait until the web answers; workers may still be getting ready. Raises `NotStarted`."""
        self._web = await self._run("serve")
        for _ in range(workers):
            await self.start_worker()
        await self._answers()

    async def start_worker(self) -> Process:
        worker = await self._run("worker")
        self.workers.append(worker)
        return worker

    async def kill_web(self) -> None:
        assert self._web is not None
        self._web.kill()
        await self._web.wait()

    async def stop_web(self) -> None:
        """In good order."""
        assert self._web is not None
        self._web.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            await self._web.wait()

    async def start_web(self) -> None:
        """Raises `NotStarted`."""
        self._web = await self._run("serve")
        await self._answers()

    async def stop(self) -> None:
        """Ask all processes to end, and kill those that do not."""
        processes = [process for process in (*self.workers, self._web) if process is not None and process.returncode is None]
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                async with asyncio.timeout(30):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()

    def check(self) -> None:
        """Raises `Died` when a process has ended."""
        for name, process in (("web", self._web), *(("worker", worker) for worker in self.workers)):
            if process is not None and process.returncode is not None:
                raise Died(f"the {name} process ended by itself with {process.returncode}")

    def log(self, name: str) -> str:
        """What `serve` or the workers wrote so far."""
        file = self.folder / f"{name}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    async def _run(self, command: str) -> Process:
        with (self.folder / f"{command}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                sys.executable, "-m", self.program, command,
                env=self._environment, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=Path(__file__).resolve().parents[2],
            )  # fmt: skip

    async def _answers(self) -> None:
        assert self._web is not None
        async with httpx.AsyncClient() as client:
            for _ in range(int(READY_SECONDS / 0.05)):
                if self._web.returncode is not None:
                    raise NotStarted(f"the web process ended with {self._web.returncode}:\n{self.log('serve')[-2000:]}")
                try:
                    if (await client.get(f"{self.url}/healthz")).is_success:
                        return
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.05)
        raise NotStarted(f"the web process did not answer within {READY_SECONDS:.0f} s:\n{self.log('serve')[-2000:]}")


@asynccontextmanager
async def running(
    github: GitHub, folder: Path, variables: Mapping[str, str] | None = None, *, workers: int = 1
) -> AsyncIterator[Service]:
    """The service for the length of a block."""
    service = Service(github, folder, variables)
    try:
        await service.start(workers)
        yield service
    finally:
        stopping = asyncio.ensure_future(service.stop())
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:  # by Ctrl-C in this very moment: no process may be left running
            await stopping
            raise


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
