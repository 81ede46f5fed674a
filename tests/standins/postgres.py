"""A PostgreSQL server of the tests' own: real, on loopback, with nothing of what this machine's own may hold.

It can be stopped, killed and started again on the same port. Root starts it as another user: PostgreSQL refuses root.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
from psycopg import sql

PASSWORD = "p@ss/w:rd"
_QUOTED = "p%40ss%2Fw%3Ard"
_START_SECONDS = 30.0
_TEMPLATE = "selfheal_template"
# `read` answers when the last writer of our pipe is gone, however that one ended.
_WATCHED = '"$0" "$@" </dev/null & server=$!; read -r _; kill -QUIT "$server"; wait "$server"'
_SETTINGS = (
    "listen_addresses=127.0.0.1", "fsync=off", "full_page_writes=off", "shared_buffers=16MB",
    "max_connections=100", "autovacuum=off",
)  # fmt: skip


class PostgresMissing(Exception):
    """There is none on this machine; the message says what to do."""


class Postgres:
    """One server; made by `serving`."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.port = _free_port()
        self._programs, self._folder = programs, folder
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str) -> str:
        """As hosted PostgreSQL hands it out."""
        return f"postgres://selfheal:{_QUOTED}@127.0.0.1:{self.port}/{database}?sslmode=prefer"

    def create(self, *, migrated: bool = True) -> str:
        """A fresh database at the newest migration, or an empty one; its name. `drop` it."""
        name = f"test_{uuid.uuid4().hex[:12]}"
        template = _TEMPLATE if migrated else "template0"
        self._administer(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def drop(self, name: str) -> None:
        self._administer(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def start(self) -> None:
        """Return when it answers."""
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "sh", "-c", _WATCHED, self._programs / "postgres",
                    "-D", self._folder / "data", "-p", str(self.port), "-k", self._folder, *settings,
                ],
                stdin=subprocess.PIPE, stdout=log, stderr=log, **_as_other(),
            )  # fmt: skip
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self._administer(sql.SQL("SELECT 1"))
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """As `systemctl stop` does: every connection is cut."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As a crash: it recovers when it starts again."""
        self._end(signal.SIGQUIT)

    def _end(self, how: int) -> None:
        if self._process is None:
            return
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended already
            os.kill(int((self._folder / "data" / "postmaster.pid").read_text().split()[0]), how)
        deadline = time.monotonic() + _START_SECONDS
        while (self._folder / "data" / "postmaster.pid").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_START_SECONDS)
        self._process = None

    def initialise(self) -> None:
        password = self._folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        subprocess.run(
            [
                self._programs / "initdb", "-D", self._folder / "data", "-U", "selfheal", f"--pwfile={password}", "-E", "UTF8",
                "--locale=C.UTF-8", "--no-sync", "--wal-segsize=1", "--auth=scram-sha-256",
            ],
            check=True, capture_output=True, **_as_other(),
        )  # fmt: skip
        self.start()
        self._administer(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_TEMPLATE)))
        with ThreadPoolExecutor(1) as beside:  # whoever asks may be in an event loop
            beside.submit(asyncio.run, _migrate(self.url(_TEMPLATE))).result()

    def _administer(self, statement: sql.Composable) -> None:
        with psycopg.connect(
            host="127.0.0.1", port=self.port, user="selfheal", password=PASSWORD, dbname="postgres", autocommit=True,
            connect_timeout=5,
        ) as connection:  # fmt: skip
            connection.execute(statement)


async def _migrate(url: str) -> None:
    from app.settings import load
    from app.store.checkpoints.checkpoints import open_checkpoints
    from app.store.database.database import Database

    await (await Database.open(url)).close()
    async with open_checkpoints(load(database_url=url)):
        pass


@contextlib.contextmanager
def serving() -> Iterator[Postgres]:
    """A server for the length of a block. Raises `PostgresMissing`."""
    programs = _programs()
    # Not in pytest's folder, whose parents only its own user may enter.
    folder = Path(tempfile.mkdtemp(prefix="selfheal-postgres-"))
    try:
        if (user := _other()) is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        server = Postgres(programs, folder)
        try:
            server.initialise()
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    known = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    known += [Path(folder) for folder in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)]
    for folder in known:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise PostgresMissing("there is no PostgreSQL on this machine: apt-get install postgresql, or `deploy/setup.sh tests`")


def _other() -> pwd.struct_passwd | None:
    """Whom to be instead of root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise PostgresMissing("PostgreSQL refuses root, and there is neither a user `postgres` nor `nobody`")


def _as_other() -> dict[str, object]:
    user = _other()
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
