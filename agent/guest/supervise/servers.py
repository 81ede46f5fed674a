"""The servers that a check can need: how each one's program is found, set up in its own folder, and known to be ready.

Each supports the variables of its official image (hub.docker.com/_/postgres, /mysql, /mariadb, /redis). No data is kept after a
run, so no server waits for disk writes.
"""

from __future__ import annotations

import glob
import locale
import os
import re
import shlex
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from socket import socket as Socket
from typing import Any, Callable

Run = Callable[..., bytes]  # run(argv, stdin=b"")

FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/bin", "/usr/bin")


class ServiceUnavailable(Exception):
    """A server is not available; the message says why, as a sentence."""


class ServerProgram:
    """One server of a request `{kind, port, name, image, env}`, with its own `folder`."""

    stop_signal = 15

    def __init__(self, service: dict[str, Any], folder: str = "") -> None:
        self.port, self.name, self.image = int(service["port"]), str(service["name"] or service["kind"]), str(service["image"])
        self.env = {name: str(value) for name, value in service["env"].items()}
        self.folder = folder
        for name, value in self.env.items():
            if any(ord(letter) < 32 for letter in value):
                raise ServiceUnavailable("The value of %s contains control characters." % name)

    def wanted_version(self) -> str:
        """The major version in the image's tag, or ""."""
        found = re.match(r"\D{0,3}(\d+)", self.image.rpartition("/")[2].partition(":")[2])
        return found.group(1) if found else ""

    def setting(self, *names: str) -> str:
        """The first of these variables that is set, or ""."""
        return next((self.env[name] for name in names if self.env.get(name)), "")

    def first_of(self, names: list[str], mark: str, what: str) -> str:
        """Find the program by these names, the last first if the image contains `mark`. Raises ServiceUnavailable."""
        found = next(filter(None, map(_find, names[::-1] if mark in self.image else names)), None)
        if found is None:
            raise ServiceUnavailable("The sandbox has no %s." % what)
        return found

    def version(self) -> str:
        """The program's name and version: "PostgreSQL 15.8". Raises ServiceUnavailable."""
        raise NotImplementedError

    def prepare(self, run: Run) -> None:
        """Set up the folder; `run(argv, stdin=b"")` runs a program to its end and returns its output."""

    def argv(self) -> list[str]:
        raise NotImplementedError

    def is_ready(self, connection: Socket) -> bool:
        """Whether it is ready to serve clients. `connection` has a timeout."""
        raise NotImplementedError


class PostgreSQL(ServerProgram):
    """TCP connections need the password, like those from a job to its service container."""

    stop_signal = 3  # stops at once, without writing memory to disk

    def __init__(self, service: dict[str, Any], folder: str = "") -> None:
        super().__init__(service, folder)
        self.user = self.setting("POSTGRES_USER") or "postgres"
        self.database = self.setting("POSTGRES_DB") or self.user
        self.data = os.path.join(folder, "data")
        self._bin: str | None = None

    def programs(self) -> str:
        """The folder with `initdb` and `postgres`: those of the wanted version, else of the newest."""
        if self._bin is None:
            known = [os.path.dirname(os.path.realpath(shutil.which("postgres") or "/"))]
            known += glob.glob("/usr/lib/postgresql/*/bin") + glob.glob("/usr/pgsql-*/bin") + ["/usr/local/pgsql/bin"]
            found: dict[tuple[int, ...], str] = {}
            for folder in known:
                if all(os.access(os.path.join(folder, name), os.X_OK) for name in ("initdb", "postgres")):
                    found.setdefault(_numbers(_version_text(os.path.join(folder, "postgres"))), folder)
            if not found:
                raise ServiceUnavailable("The sandbox has no PostgreSQL.")
            matching = [version for version in found if version and str(version[0]) == self.wanted_version()]
            self._bin = found[max(matching or found)]
        return self._bin

    def version(self) -> str:
        return "PostgreSQL " + _dotted(_version_text(os.path.join(self.programs(), "postgres")))

    def prepare(self, run: Run) -> None:
        password = self.setting("POSTGRES_PASSWORD")
        method = self.setting("POSTGRES_HOST_AUTH_METHOD") or "scram-sha-256"
        if not password and method != "trust":
            raise ServiceUnavailable("It requires POSTGRES_PASSWORD (or POSTGRES_HOST_AUTH_METHOD=trust), like its image.")
        argv = [os.path.join(self.programs(), "initdb"), "-D", self.data, "-U", self.user, "--no-sync", "-E", "UTF8"]
        argv += ["--wal-segsize=1", "--locale=" + _locale(), "--auth-local=trust", "--auth-host=" + method]
        if password:
            path = os.path.join(self.folder, "password")
            with open(path, "w", encoding="utf-8") as file:
                file.write(password)
            argv.append("--pwfile=" + path)
        try:
            run(argv + shlex.split(self.setting("POSTGRES_INITDB_ARGS")))
        except ValueError:
            raise ServiceUnavailable("POSTGRES_INITDB_ARGS cannot be split into words.") from None
        if self.database != "postgres":
            statement = 'CREATE DATABASE "%s"\n' % self.database.replace('"', '""')
            single = [os.path.join(self.programs(), "postgres"), "--single", "-F", "-D", self.data]
            output = run(single + ["-c", "log_checkpoints=off", "postgres"], statement.encode("utf-8"))
            if b"ERROR:" in output:
                raise ServiceUnavailable("Its database could not be created.")

    def argv(self) -> list[str]:
        settings = ("listen_addresses=127.0.0.1,::1", "fsync=off", "synchronous_commit=off", "full_page_writes=off")
        argv = [os.path.join(self.programs(), "postgres"), "-D", self.data, "-p", str(self.port), "-k", self.folder]
        return argv + [word for setting in settings for word in ("-c", setting)]

    def is_ready(self, connection: Socket) -> bool:
        fields = b"user\0" + self.user.encode("utf-8") + b"\0database\0" + self.database.encode("utf-8") + b"\0\0"
        connection.sendall(struct.pack("!II", len(fields) + 8, 196608) + fields)  # protocol 3.0
        return connection.recv(1) == b"R"  # while it starts, it answers with an error


class MySQL(ServerProgram):
    """MySQL or MariaDB, whichever is installed; if both are, the one that the image names."""

    def program(self) -> str:
        return self.first_of(["mysqld", "mariadbd"], "maria", "MySQL or MariaDB")

    def version(self) -> str:
        text = _version_text(self.program())
        return ("MariaDB " if "MariaDB" in text else "MySQL ") + _dotted(text)

    def prepare(self, run: Run) -> None:
        root = self.setting("MARIADB_ROOT_PASSWORD", "MYSQL_ROOT_PASSWORD")
        names = ("ALLOW_EMPTY_PASSWORD", "ALLOW_EMPTY_ROOT_PASSWORD", "RANDOM_ROOT_PASSWORD")
        if not root and not self.setting(*(server + name for server in ("MYSQL_", "MARIADB_") for name in names)):
            raise ServiceUnavailable("It requires a root password (or MYSQL_ALLOW_EMPTY_PASSWORD), like its image.")
        data = os.path.join(self.folder, "data")
        if self.version().startswith("MariaDB"):
            install = _find("mariadb-install-db") or _find("mysql_install_db")
            if not install:
                raise ServiceUnavailable("The sandbox has no mariadb-install-db.")
            run([install, "--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal", "--skip-test-db",
                 "--skip-name-resolve"])  # fmt: skip
        else:
            run([self.program(), "--no-defaults", "--initialize-insecure", "--datadir=" + data])
        with open(os.path.join(self.folder, "init.sql"), "w", encoding="utf-8") as file:
            file.write("".join(statement + ";\n" for statement in self._statements(root)))

    def _statements(self, root: str) -> Iterator[str]:
        for host in ("127.0.0.1", "::1"):
            yield "DROP USER IF EXISTS 'root'@'%s'" % host
        yield "ALTER USER 'root'@'localhost' IDENTIFIED BY %s" % _quoted(root)
        yield "CREATE USER 'root'@'%%' IDENTIFIED BY %s" % _quoted(root)
        yield "GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION"
        database = self.setting("MARIADB_DATABASE", "MYSQL_DATABASE")
        if database:
            database = "`%s`" % database.replace("`", "``")
            yield "CREATE DATABASE IF NOT EXISTS " + database
        user, password = self.setting("MARIADB_USER", "MYSQL_USER"), self.setting("MARIADB_PASSWORD", "MYSQL_PASSWORD")
        if user and password:
            yield "CREATE USER %s@'%%' IDENTIFIED BY %s" % (_quoted(user), _quoted(password))
            if database:
                yield "GRANT ALL ON %s.* TO %s@'%%'" % (database, _quoted(user))

    def argv(self) -> list[str]:
        folder = self.folder + os.sep
        return [
            self.program(), "--no-defaults", "--datadir=" + folder + "data", "--port=%d" % self.port,
            "--bind-address=127.0.0.1", "--socket=" + folder + "socket", "--pid-file=" + folder + "pid",
            "--tmpdir=" + self.folder, "--init-file=" + folder + "init.sql", "--skip-name-resolve",
            "--character-set-server=utf8mb4", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M",
        ]  # fmt: skip

    def is_ready(self, connection: Socket) -> bool:
        return connection.recv(5)[4:] == b"\x0a"  # its greeting, which it sends once `init-file` is done


class Redis(ServerProgram):
    """Redis, or Valkey if only that is installed."""

    def program(self) -> str:
        return self.first_of(["redis-server", "valkey-server"], "valkey", "Redis")

    def version(self) -> str:
        text = _version_text(self.program())
        return ("Valkey " if "alkey" in text else "Redis ") + _dotted(text)

    def argv(self) -> list[str]:
        argv = [self.program(), "--port", str(self.port), "--dir", self.folder, "--save", "", "--appendonly", "no"]
        argv += ["--bind", "127.0.0.1"]
        if _numbers(_version_text(self.program())) >= (6, 2):
            argv.append("-::1")  # if the machine has IPv6
        password = self.setting("REDIS_PASSWORD", "VALKEY_PASSWORD")
        return argv + (["--requirepass", password] if password else [])

    def is_ready(self, connection: Socket) -> bool:
        connection.sendall(b"PING\r\n")
        return connection.recv(7) in (b"+PONG\r\n", b"-NOAUTH")


KINDS: dict[str, type[ServerProgram]] = {"postgresql": PostgreSQL, "mysql": MySQL, "redis": Redis}


def is_free(port: int) -> bool:
    """Whether nothing listens on the port, so that whatever answers later is our server."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _find(name: str) -> str | None:
    return shutil.which(name) or next(
        (path for path in (os.path.join(folder, name) for folder in FOLDERS) if os.access(path, os.X_OK)), None
    )


def _version_text(program: str) -> str:
    try:
        return subprocess.check_output([program, "--version"], stderr=subprocess.DEVNULL, timeout=10).decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return ""


def _dotted(text: str) -> str:
    found = re.search(r"\d+(\.\d+)+", text)
    return found.group(0) if found else "(unknown version)"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", _dotted(text)))


def _locale() -> str:
    """The locale of the official images, if this machine has it."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        for name in ("en_US.utf8", "C.UTF-8"):
            try:
                locale.setlocale(locale.LC_ALL, name)
                return name
            except locale.Error:
                continue
        return "C"
    finally:
        locale.setlocale(locale.LC_ALL, before)


def _quoted(text: str) -> str:
    return "'%s'" % text.replace("\\", "\\\\").replace("'", "''")
