"""Machines: folders with bubblewraps in them, that end when their time is over."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

from protobuf import Oneof

from e2b.envd.process import process_pb
from sandbox import folders
from tests.standins.e2b.network import Network

ENVD_VERSION = "0.6.13"
CHUNK = 32 * 1024
FOLDERS = ("home/user", "tmp", "var/lib", "run", "mnt", "opt", "root", "code", "proc")
Event = process_pb.ProcessEvent


class Gone(Exception):
    """The machine has vanished under a stream."""


@dataclass(slots=True)
class Process:
    """One command; it outlives the streams that listen to it."""

    pid: int
    process: asyncio.subprocess.Process
    config: process_pb.ProcessConfig
    listeners: list[asyncio.Queue[Event | Exception | None]] = field(default_factory=list)
    end: Event | None = None

    def tell(self, event: Event | Exception | None) -> None:
        for queue in self.listeners:
            queue.put_nowait(event)

    def kill(self, number: int = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)


@dataclass(slots=True)
class Machine:
    id: str
    template: str
    root: Path
    ends: float  # seconds since 1970
    metadata: dict[str, str]
    network: Network
    rules: dict[str, Any]  # of the network, as they were last set
    envs: dict[str, str] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    started: float = field(default_factory=time.time)
    token: str = field(default_factory=lambda: f"tok_{token_hex(16)}")
    processes: dict[int, Process] = field(default_factory=dict)
    pumps: set[asyncio.Task[None]] = field(default_factory=set)

    async def rule(self, rules: dict[str, Any], ports: Sequence[int]) -> None:
        """Replace all rules of the network. Open to everything, as the default is, cannot be had here."""
        self.rules = rules
        await self.network.allow(rules.get("allowOut") or (), ports)

    def host(self, path: str) -> Path:
        """Where a path of the machine is on this side; relative ones are the user's."""
        absolute = path if path.startswith("/") else f"/home/user/{path.removeprefix('~/')}"
        return self.root / os.path.normpath(absolute).lstrip("/")

    async def start(self, config: process_pb.ProcessConfig, timeout: float | None) -> Process:
        cwd = config.cwd if config.has_field("cwd") else "/home/user"
        if not self.host(cwd).is_dir():
            raise LookupError("invalid_argument", f"cwd '{cwd}' does not exist")
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/root", "USER": "root", "E2B_SANDBOX": "true"}
        process = await asyncio.create_subprocess_exec(
            *self._bubblewrap(config.cmd, list(config.args), cwd),
            env={**env, **self.envs, **config.envs},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        running = Process(process.pid, process, config)
        self.processes[process.pid] = running
        self.pumps.add(pump := asyncio.create_task(self._pump(running, timeout)))
        pump.add_done_callback(self.pumps.discard)
        return running

    async def end(self) -> None:
        for running in list(self.processes.values()):
            running.tell(Gone())
            running.listeners.clear()
            running.kill()
        if self.pumps:
            await asyncio.wait(tuple(self.pumps), timeout=10)
        # The control groups that were made in it go with a real one.
        await asyncio.to_thread(folders.sweep, self.root / "var/lib/selfheal/open")
        self.network.close()
        Path(f"{self.root}.hosts").unlink()
        await asyncio.to_thread(subprocess.run, ["rm", "-rf", "--one-file-system", str(self.root)], check=False)

    def _bubblewrap(self, program: str, arguments: list[str], cwd: str) -> list[str]:
        argv = ["bwrap", "--bind", str(self.root), "/", "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]
        for path in self.lacks:
            argv += ["--ro-bind", "/dev/null", path]
        for path in (Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve()):
            if not path.is_relative_to("/usr"):
                argv += ["--ro-bind", str(path), str(path)]
        argv += ["--ro-bind", f"{self.root}.hosts", "/etc/hosts", "--dev", "/dev", "--bind", "/sys", "/sys"]
        argv += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--cap-add", "ALL", "--chdir", cwd]
        # bubblewrap hides parts of its /proc, and then no other can be mounted in a namespace below.
        mounted = ("/bin/sh", "-c", 'mount -t proc proc /proc && exec "$@"', "sh")
        return [*self.network.enter, *argv, "--", *mounted, program, *arguments]

    async def _pump(self, running: Process, timeout: float | None) -> None:
        async def drain(name: str, stream: asyncio.StreamReader | None) -> None:
            assert stream is not None
            while chunk := await stream.read(CHUNK):
                data = Event.DataEvent(output=Oneof(name, chunk))  # type: ignore[arg-type]
                running.tell(Event(event=Oneof("data", data)))

        both = asyncio.gather(drain("stdout", running.process.stdout), drain("stderr", running.process.stderr))
        late = False
        try:
            await asyncio.wait_for(both, timeout)
        except TimeoutError:
            late = True
            running.kill()
        code = await running.process.wait()
        status = f"exit status {code}" if code >= 0 else f"signal: {signal.Signals(-code).name.lower()}"
        end = Event.EndEvent(exit_code=max(code, -1), exited=code >= 0, status=status)
        if code:
            end.error = status
        running.end = Event(event=Oneof("end", end))
        self.processes.pop(running.pid, None)
        if late:
            running.tell(LookupError("deadline_exceeded", "context deadline exceeded"))
        running.tell(running.end)
        running.tell(None)


class Machines:
    """All there are. `templates` are the names that can be asked for; only `selfheal` has something of ours in it."""

    templates: tuple[str, ...] = ("selfheal", "bare")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.all: dict[str, Machine] = {}
        self.made_by_key: dict[str, str] = {}
        self.most = 20
        self.ports = [80, 443]  # that hosts outside have
        self.environment: dict[str, str] = {}  # that of every template
        self.lacks: tuple[str, ...] = ()  # programs of this machine that no template has

    async def make(self, template: str, timeout: float, metadata: dict[str, str], rules: dict[str, Any]) -> Machine:
        name = f"i{token_hex(10)}"
        root = self._folder / name
        for folder in FOLDERS:
            (root / folder).mkdir(parents=True)
        for link in ("bin", "lib", "lib64", "sbin"):
            if Path("/", link).is_symlink():
                (root / link).symlink_to(Path("/", link).readlink())
        if template == "selfheal":
            (root / "opt/selfheal").symlink_to(Path(sys.prefix).resolve())
        network = Network(Path(f"{root}.hosts"))
        machine = Machine(
            name, template, root, time.time() + timeout, metadata, network, {}, dict(self.environment), self.lacks
        )
        await machine.rule(rules, self.ports)
        self.all[name] = machine
        return machine

    async def alive(self, name: str) -> Machine | None:
        machine = self.all.get(name)
        if machine is not None and time.time() > machine.ends:
            await self.end(machine)
            return None
        return machine

    async def end(self, machine: Machine) -> None:
        if self.all.pop(machine.id, None) is not None:
            await machine.end()

    async def close(self) -> None:
        for machine in list(self.all.values()):
            await self.end(machine)
        shutil.rmtree(self._folder, ignore_errors=True)
