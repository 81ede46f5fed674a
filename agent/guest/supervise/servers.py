"""The servers that a check may need: where their programs are, how each is made ready in a folder of its own, when it answers.

Each knows the variables of its official image (hub.docker.com/_/postgres, /mysql, /mariadb, /redis) and gives them the meaning
that they have there. Nothing of a server outlives its run, so none of them waits for a disk.
"""

import glob
import locale
import os
import re
import shlex
import shutil
import socket
import struct
import subprocess

FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec", "/usr/local/bin", "/usr/bin")


class Unavailable(Exception):
    """A server cannot be had; the message says why, as a sentence."""


class Server(object):
    """One server of a request `{kind, port, name, image, env}`. `folder` is its own, on a disk that may be lost."""

    stop_signal = 15

    def __init__(self, service, folder=""):
        self.port, self.name, self.image = int(service["port"]), str(service["name"] or service["kind"]), str(service["image"])
        self.env = {name: str(value) for name, value in service["env"].items()}
        self.folder = folder
        for name, value in self.env.items():
            if any(ord(letter) < 32 for letter in value):
                raise Unavailable("The value of %s has control characters." % name)

    def wanted(self):
        """The major version that the tag of the image names, or ""."""
        found = re.match(r"\D{0,3}(\d+)", self.image.rpartition("/")[2].partition(":")[2])
        return found.group(1) if found else ""

    def setting(self, *names):
        """The first of these variables that is set, or ""."""
        return next((self.env[name] for name in names if self.env.get(name)), "")

    def version(self):
        """What the program calls itself: "PostgreSQL 15.8". Raises Unavailable."""
        raise NotImplementedError

    def prepare(self, run):
        """Make the folder ready; `run(argv, stdin=b"")` runs a program to its end and returns its output."""

    def argv(self):
        raise NotImplementedError

    def is_ready(self, connection):
        """Does it answer as it will answer its clients? `connection` is a socket with a time limit."""
        raise NotImplementedError


class PostgreSQL(Server):
    """Connections over TCP need the password, as they do from a job to its service container."""

    stop_signal = 3  # at once, without writing what is in memory

    def __init__(self, service, folder=""):
        Server.__init__(self, service, folder)
        self.user = self.setting("POSTGRES_USER") or "postgres"
        self.database = self.setting("POSTGRES_DB") or self.user
        self.data = os.path.join(folder, "data")
        self._bin = None

    def programs(self):
        """The folder that has `initdb` and `postgres`: of the wanted version, else of the newest."""
        if self._bin is None:
            known = [os.path.dirname(os.path.realpath(shutil.which("postgres") or "/"))]
            known += glob.glob("/usr/lib/postgresql/*/bin") + glob.glob("/usr/pgsql-*/bin") + ["/usr/local/pgsql/bin"]
            found = {}
            for folder in known:
                if all(os.access(os.path.join(folder, name), os.X_OK) for name in ("initdb", "postgres")):
                    found.setdefault(_numbers(_said(os.path.join(folder, "postgres"))), folder)
            if not found:
                raise Unavailable("There is no PostgreSQL in the sandbox.")
            matching = [version for version in found if version and str(version[0]) == self.wanted()]
            self._bin = found[max(matching or found)]
        return self._bin

    def version(self):
        return "PostgreSQL " + _dotted(_said(os.path.join(self.programs(), "postgres")))

    def prepare(self, run):
        password = self.setting("POSTGRES_PASSWORD")
        method = self.setting("POSTGRES_HOST_AUTH_METHOD") or "scram-sha-256"
        if not password and method != "trust":
            raise Unavailable("Its image does not start without POSTGRES_PASSWORD (or POSTGRES_HOST_AUTH_METHOD=trust) either.")
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
            raise Unavailable("POSTGRES_INITDB_ARGS cannot be split into words.") from None
        if self.database != "postgres":
            statement = 'CREATE DATABASE "%s"\n' % self.database.replace('"', '""')
            single = [os.path.join(self.programs(), "postgres"), "--single", "-F", "-D", self.data]
            said = run(single + ["-c", "log_checkpoints=off", "postgres"], statement.encode("utf-8"))
            if b"ERROR:" in said:
                raise Unavailable("Its database could not be made.")

    def argv(self):
        settings = ("listen_addresses=127.0.0.1,::1", "fsync=off", "synchronous_commit=off", "full_page_writes=off")
        argv = [os.path.join(self.programs(), "postgres"), "-D", self.data, "-p", str(self.port), "-k", self.folder]
        return argv + [word for setting in settings for word in ("-c", setting)]

    def is_ready(self, connection):
        fields = b"user\0" + self.user.encode("utf-8") + b"\0database\0" + self.database.encode("utf-8") + b"\0\0"
        connection.sendall(struct.pack("!II", len(fields) + 8, 196608) + fields)  # protocol 3.0
        return connection.recv(1) == b"R"  # while it starts it answers with an error


class MySQL(Server):
    """MySQL or MariaDB, whichever is there; the one that the image names first."""

    def wanted_first(self):
        names = ["mysqld", "mariadbd"]
        return names[::-1] if "maria" in self.image else names

    def program(self):
        for name in self.wanted_first():
            found = _find(name)
            if found:
                return found
        raise Unavailable("There is no MySQL or MariaDB in the sandbox.")

    def version(self):
        said = _said(self.program())
        return ("MariaDB " if "MariaDB" in said else "MySQL ") + _dotted(said)

    def prepare(self, run):
        root = self.setting("MARIADB_ROOT_PASSWORD", "MYSQL_ROOT_PASSWORD")
        names = ("ALLOW_EMPTY_PASSWORD", "ALLOW_EMPTY_ROOT_PASSWORD", "RANDOM_ROOT_PASSWORD")
        if not root and not self.setting(*(server + name for server in ("MYSQL_", "MARIADB_") for name in names)):
            raise Unavailable("Its image does not start without a password for root (or MYSQL_ALLOW_EMPTY_PASSWORD) either.")
        data = os.path.join(self.folder, "data")
        if self.version().startswith("MariaDB"):
            install = _find("mariadb-install-db") or _find("mysql_install_db")
            if not install:
                raise Unavailable("There is no mariadb-install-db in the sandbox.")
            run([install, "--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal", "--skip-test-db",
                 "--skip-name-resolve"])  # fmt: skip
        else:
            run([self.program(), "--no-defaults", "--initialize-insecure", "--datadir=" + data])
        with open(os.path.join(self.folder, "init.sql"), "w", encoding="utf-8") as file:
            file.write("".join(statement + ";\n" for statement in self._statements(root)))

    def _statements(self, root):
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

    def argv(self):
        inside = lambda name: os.path.join(self.folder, name)  # noqa: E731
        return [
            self.program(), "--no-defaults", "--datadir=" + inside("data"), "--port=%d" % self.port,
            "--bind-address=127.0.0.1", "--socket=" + inside("socket"), "--pid-file=" + inside("pid"),
            "--tmpdir=" + self.folder, "--init-file=" + inside("init.sql"), "--skip-name-resolve",
            "--character-set-server=utf8mb4", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M",
        ]  # fmt: skip

    def is_ready(self, connection):
        return connection.recv(5)[4:] == b"\x0a"  # its greeting, which comes when what `init-file` says is done


class Redis(Server):
    """Redis, or Valkey where that is what there is."""

    def program(self):
        names = ["redis-server", "valkey-server"]
        for name in names[::-1] if "valkey" in self.image else names:
            found = _find(name)
            if found:
                return found
        raise Unavailable("There is no Redis in the sandbox.")

    def version(self):
        said = _said(self.program())
        return ("Valkey " if "alkey" in said else "Redis ") + _dotted(said)

    def argv(self):
        argv = [self.program(), "--port", str(self.port), "--dir", self.folder, "--save", "", "--appendonly", "no"]
        argv += ["--bind", "127.0.0.1"]
        if _numbers(_said(self.program())) >= (6, 2):
            argv.append("-::1")  # where there is one
        password = self.setting("REDIS_PASSWORD", "VALKEY_PASSWORD")
        return argv + (["--requirepass", password] if password else [])

    def is_ready(self, connection):
        connection.sendall(b"PING\r\n")
        return connection.recv(7) in (b"+PONG\r\n", b"-NOAUTH")


KINDS = {"postgresql": PostgreSQL, "mysql": MySQL, "redis": Redis}


def is_free(port):
    """Whether nobody listens there, so that whoever answers later is ours."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _find(name):
    return shutil.which(name) or next(
        (path for path in (os.path.join(folder, name) for folder in FOLDERS) if os.access(path, os.X_OK)), None
    )


def _said(program):
    try:
        return subprocess.check_output([program, "--version"], stderr=subprocess.DEVNULL, timeout=10).decode("utf-8", "replace")
    except (OSError, subprocess.SubprocessError):
        return ""


def _dotted(said):
    found = re.search(r"\d+(\.\d+)+", said)
    return found.group(0) if found else "of an unknown version"


def _numbers(said):
    return tuple(int(part) for part in re.findall(r"\d+", _dotted(said)))


def _locale():
    """That of the official images where this machine has it."""
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


def _quoted(text):
    return "'%s'" % text.replace("\\", "\\\\").replace("'", "''")
