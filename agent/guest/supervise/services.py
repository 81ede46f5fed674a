"""Starts the servers that a check needs, fresh for each run, and stops them at its end.

`python guest.zip services` reports what is available: stdin {services: [{kind, port, name, image, env}]}, stdout one JSON line
[{version, problem}], in the same order.

Hostile tests can send commands to servers. So a server gets its own folder and environment, none of our descriptors, and
nothing that shows where tests are observed.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import peers
from .servers import KINDS, ServerProgram, ServiceUnavailable, is_free

START_SECONDS = 60.0  # seconds for one server until it answers
STOP_SECONDS = 3.0
LOG = 4000  # bytes of a server's log that are reported
KEPT = ("PATH", "HOME", "TERM", "TMPDIR", "SELFHEAL_COMMAND")  # the last marks processes of a command of the sandbox


def main() -> int:
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    sys.stdout.write(json.dumps([_availability(service) for service in request["services"]]) + "\n")
    return 0


def _availability(service: dict[str, Any]) -> dict[str, str]:
    try:
        server = _server(service, "")
        version = server.version()
        subprocess.check_call(["true"], preexec_fn=_as_user(_user()), env=_environment())
    except ServiceUnavailable as why:
        return {"version": "", "problem": str(why)}
    except (OSError, subprocess.SubprocessError):
        return {"version": "", "problem": "It does not run as root, and the sandbox cannot switch to another user."}
    return {"version": version, "problem": ""}


class Services:
    """The servers of one run."""

    def __init__(self) -> None:
        self.running: list[tuple[subprocess.Popen[bytes], int]] = []
        self.folder: str | None = None

    def start(self, services: Sequence[dict[str, Any]], deadline: float) -> None:
        """Start the servers; returns when all answer. `deadline` is in monotonic seconds. Raises ServiceFailed."""
        for service in services:
            started = _Start(service, min(deadline, time.monotonic() + START_SECONDS))
            try:
                if self.folder is None:
                    self.folder = tempfile.mkdtemp(prefix="services-")
                    os.chmod(self.folder, 0o711)
                self.running.append(started.process(tempfile.mkdtemp(dir=self.folder)))
                started.wait(self.running[-1][0])
            except ServiceUnavailable as why:
                raise ServiceFailed(started.name, str(why), started.log()) from None
            except (OSError, subprocess.SubprocessError) as error:
                raise ServiceFailed(started.name, "It could not be started: %s." % error, started.log()) from None

    def pids(self) -> list[int]:
        return [process.pid for process, _ in self.running]

    def stop(self) -> None:
        for process, stop_signal in self.running:
            process.send_signal(stop_signal)
        for process, _ in self.running:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                _kill(process)
        self.running = []
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


class ServiceFailed(Exception):
    """The server `service` could not be started; `log` is the end of its log."""

    def __init__(self, service: str, why: str, log: bytes) -> None:
        Exception.__init__(self, why)
        self.service, self.log = service, log


class _Start:
    """The start of one server."""

    def __init__(self, service: dict[str, Any], deadline: float) -> None:
        self.service, self.deadline = service, deadline
        self.name = str(service["name"] or service["kind"])
        self.folder = self.log_path = ""
        self.user = _user()

    def process(self, folder: str) -> tuple[subprocess.Popen[bytes], int]:
        """Start its process; returns it and the signal that stops it."""
        self.log_path = os.path.join(folder, "log")
        self.folder = os.path.join(folder, "own")
        server = self.server = _server(self.service, self.folder)
        os.mkdir(server.folder, 0o700)
        os.chmod(folder, 0o711)
        server.version()
        if not is_free(server.port):
            raise ServiceUnavailable("Port %d is in use in the sandbox." % server.port)
        server.prepare(self.run)
        self._hand_over()
        with open(self.log_path, "ab") as log:
            return self._popen(server.argv(), stdout=log), server.stop_signal

    def run(self, argv: list[str], stdin: bytes = b"") -> bytes:
        self._hand_over()
        process = self._popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            output: bytes = process.communicate(stdin, max(0.1, self.deadline - time.monotonic()))[0]
        except subprocess.TimeoutExpired:
            _kill(process)
            raise ServiceUnavailable("It was not ready in time.") from None
        with open(self.log_path, "ab") as log:
            log.write(output)
        if process.returncode:
            raise ServiceUnavailable("%s exited with code %d." % (os.path.basename(argv[0]), process.returncode))
        return output

    def wait(self, process: subprocess.Popen[bytes]) -> None:
        while time.monotonic() < self.deadline:
            if process.poll() is not None:
                raise ServiceUnavailable("It exited with code %d before it answered." % process.returncode)
            try:
                with socket.create_connection(("127.0.0.1", self.server.port), 1.0) as connection:
                    if self.server.is_ready(connection):
                        return
            except OSError:
                pass
            time.sleep(0.02)
        raise ServiceUnavailable("It did not answer in time.")

    def log(self) -> bytes:
        try:
            with open(self.log_path, "rb") as file:
                file.seek(max(0, os.path.getsize(self.log_path) - LOG))
                return file.read()
        except OSError:
            return b""

    def _hand_over(self) -> None:
        """Make its user the owner of what was written into its folder."""
        if self.user is not None:
            for folder, _, files in os.walk(self.server.folder):
                for path in [folder] + [os.path.join(folder, name) for name in files]:
                    os.lchown(path, *self.user)

    def _popen(self, argv: list[str], stdin: int = subprocess.DEVNULL, stdout: Any = None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            cwd=self.server.folder,
            env=_environment(),
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_as_user(self.user),
        )


def _server(service: dict[str, Any], folder: str) -> ServerProgram:
    if service["kind"] not in KINDS:
        raise ServiceUnavailable("There is no %s in the sandbox." % service["kind"])
    return KINDS[service["kind"]](service, folder)


def _environment() -> dict[str, str]:
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment.update(LANG="C.UTF-8", TZ="UTC")
    return environment


def _user() -> tuple[int, int] | None:
    """The (user id, group id) for servers if we are root, as which PostgreSQL refuses to run; else None."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
        except KeyError:
            continue
    return 65534, 65534


def _as_user(user: tuple[int, int] | None) -> Callable[[], None]:
    """What a child does before its program starts: switch to that user, and arrange to be killed when we end."""
    prctl = peers.prctl()

    def prepare() -> None:
        if user is not None:
            os.setgroups([])
            os.setgid(user[1])
            os.setuid(user[0])
        if prctl is not None:
            prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG; changing the user afterwards would reset it

    return prepare


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the server and its process group."""
    for kill in (os.killpg, os.kill):
        try:
            kill(process.pid, signal.SIGKILL)
        except OSError:
            pass
    process.wait()
