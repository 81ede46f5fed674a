"""What is on this machine: processes, mounts, folders and control groups that belong to one stage; Redis servers of its own.

A stage keeps everything it starts below one folder and names its sandboxes after one owner, so that what is left can be told
from what others run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.queue.redis import server_binary

_GROUPS = Path("/sys/fs/cgroup")
_OPEN = "data/sandboxes/open"
_KEPT = "data/sandboxes/packages"


def sandboxes(folder: Path, owner: str) -> list[str]:
    """What there is of sandboxes: their folders, the processes that see them, their control groups, half-made installations."""
    found = [f"folder {path.name}" for path in (folder / _OPEN).glob("*")]
    found += [f"process {pid} in a sandbox" for pid in _pids() if pid != os.getpid() and _sees(pid, folder / _OPEN)]
    groups = (Path(folder).name for folder, _, _ in os.walk(_GROUPS))  # unlike `glob`, it bears that groups go meanwhile
    found += [f"control group {name}" for name in groups if f"{owner}-" in name]
    return found + [f"half an installation {path.name}" for path in (folder / _KEPT).glob("*/new-*")]


def orphans(folder: Path, service: Container[int]) -> list[str]:
    """Processes that were started for the folder's service, and are neither one of these nor below one."""
    return [f"process {pid}: {_command(pid)}" for pid in processes(folder) if not any(one in service for one in _lineage(pid))]


def everything(folder: Path, owner: str) -> list[str]:
    """What there is of a service that has been stopped, sandboxes included."""
    found = sandboxes(folder, owner)
    found += [f"process {pid}: {_command(pid)}" for pid in processes(folder)]
    found += [f"mount {line.split()[4]}" for line in _read(os.getpid(), "mountinfo").splitlines() if f"{folder}/" in line]
    return found + [f"temporary {path.name}" for path in (folder / "tmp").glob("*")]


def processes(folder: Path) -> list[int]:
    """Ids of processes that were started for the folder's service: by their environment, command line or working folder."""
    return [
        pid
        for pid in _pids()
        if pid != os.getpid()
        and (
            f"SELFHEAL_DATA_DIR={folder}/" in _read(pid, "environ")
            or f"{folder}/" in _read(pid, "cmdline")
            or _cwd(pid).is_relative_to(folder)
        )
    ]


def embedded_redis(folder: Path) -> int:
    """Process id of the service's own redis-server. Raises `ValueError` where there is not exactly one."""
    # It writes its title over its command line and its environment.
    (pid,) = (pid for pid in processes(folder) if _read(pid, "comm").strip() == "redis-server")
    return pid


def holder(port: int, among: Iterable[int]) -> int | None:
    """Which of these processes has the end of a TCP connection that is called by this port; None when it is none of them."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ends = {f"socket:[{fields[9]}]" for fields in lines if int(fields[1].rpartition(":")[2], 16) == port}
    return next((pid for pid in among if ends & set(_descriptors(pid))), None)


class RedisServer:
    """A redis-server of the stage's own, on a Unix socket that survives the process."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "redis.sock"
        self.url = f"unix://{self._socket}"
        self._process: Process | None = None

    async def start(self) -> None:
        self._socket.unlink(missing_ok=True)
        options = ("--port", "0", "--unixsocket", str(self._socket), "--save", "", "--appendonly", "no")
        self._process = await asyncio.create_subprocess_exec(server_binary(), *options, stdout=DEVNULL, stderr=DEVNULL)
        async with asyncio.timeout(30):
            while True:
                if await self._answers():
                    return
                await asyncio.sleep(0.05)

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def flush(self) -> None:
        async with Redis.from_url(self.url) as redis:
            await redis.flushall()

    async def _answers(self) -> bool:
        try:
            async with Redis.from_url(self.url, socket_timeout=1, socket_connect_timeout=1) as redis:
                return bool(await redis.ping())
        except (RedisError, OSError):
            return False


def _sees(pid: int, path: Path) -> bool:
    """Whether what is below `path` is mounted for the process: by name, or as a part of the file system that it lies on."""
    device, inside = _place(path)
    for line in _read(pid, "mountinfo").splitlines():
        fields = line.split()
        if str(path) in line or (fields[2] == device and Path(fields[3]).is_relative_to(inside)):
            return True
    return False


def _place(path: Path) -> tuple[str, Path]:
    """The device (major:minor) that a path lies on, as it is mounted here, and the path on that device."""
    mounts = [line.split() for line in _read(os.getpid(), "mountinfo").splitlines()]
    over = max((each for each in mounts if path.is_relative_to(each[4])), key=lambda each: len(each[4]))
    return over[2], Path(over[3]) / path.relative_to(over[4])


def _pids() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").glob("[0-9]*"))


def _read(pid: int, name: str) -> str:
    try:
        return (Path("/proc") / str(pid) / name).read_text(errors="replace")
    except OSError:
        return ""  # it has just ended, or is not ours to see


def _lineage(pid: int) -> Iterator[int]:
    """The process, its parent, and so on."""
    while pid > 1:
        yield pid
        after_name = _read(pid, "stat").rpartition(")")[2].split()
        pid = int(after_name[1]) if after_name else 0


def _command(pid: int) -> str:
    return _read(pid, "cmdline").replace("\0", " ")[:80].strip()


def _descriptors(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    numbers: list[str] = []
    with contextlib.suppress(OSError):  # it has just ended
        numbers = os.listdir(folder)
    for number in numbers:
        with contextlib.suppress(OSError):  # just closed
            yield os.readlink(f"{folder}/{number}")


def _cwd(pid: int) -> Path:
    try:
        return Path("/proc", str(pid), "cwd").readlink()
    except OSError:
        return Path("/")
