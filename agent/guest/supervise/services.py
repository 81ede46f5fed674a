"""Starts the servers that a check needs, anew for its run, and ends them with it.

`python guest.pyz services` tells what is there: stdin {services: [{kind, port, name, image, env}]}, stdout one JSON line
[{version, problem}], in the same order.

Servers run beside hostile tests and do what these ask of them. They get a folder and an environment of their own, no descriptor
of ours, and no word about where tests are observed.
"""

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

from .servers import KINDS, Unavailable, is_free

PATIENCE = 60.0  # seconds that one server may take until it answers
GOODBYE = 3.0  # seconds that one may take to end
LOG = 4000  # bytes of its log that are told
KEPT = ("PATH", "HOME", "TERM", "TMPDIR", "SELFHEAL_COMMAND")  # the last marks what belongs to a command of the sandbox


def main():
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    sys.stdout.write(json.dumps([_told(service) for service in request["services"]]) + "\n")
    return 0


def _told(service):
    try:
        server = _server(service, "")
        version = server.version()
        subprocess.check_call(["true"], preexec_fn=_as_user(_user()), env=_environment())
    except Unavailable as why:
        return {"version": "", "problem": str(why)}
    except (OSError, subprocess.SubprocessError):
        return {"version": "", "problem": "It does not run as root, and there is no way to another user in the sandbox."}
    return {"version": version, "problem": ""}


class Services(object):
    """The servers of one run."""

    def __init__(self):
        self.running = []
        self.folder = None

    def start(self, services, deadline):
        """Returns when all answer. `deadline` is in monotonic seconds. Raises Failed."""
        for service in services:
            started = _Start(service, min(deadline, time.monotonic() + PATIENCE))
            try:
                if self.folder is None:
                    self.folder = tempfile.mkdtemp(prefix="services-")
                    os.chmod(self.folder, 0o711)
                self.running.append(started.process(tempfile.mkdtemp(dir=self.folder)))
                started.wait(self.running[-1][0])
            except Unavailable as why:
                raise Failed(started.name, str(why), started.log()) from None
            except (OSError, subprocess.SubprocessError) as error:
                raise Failed(started.name, "It could not be started: %s." % error, started.log()) from None

    def pids(self):
        return [process.pid for process, _ in self.running]

    def stop(self):
        for process, stop_signal in self.running:
            process.send_signal(stop_signal)
        for process, _ in self.running:
            try:
                process.wait(GOODBYE)
            except subprocess.TimeoutExpired:
                _kill(process)
        self.running = []
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


class Failed(Exception):
    """`service` could not be started; `log` is the end of what it said."""

    def __init__(self, service, why, log):
        Exception.__init__(self, why)
        self.service, self.log = service, log


class _Start(object):
    """The start of one server."""

    def __init__(self, service, deadline):
        self.service, self.deadline = service, deadline
        self.name = str(service["name"] or service["kind"])
        self.server, self.log_path = None, None
        self.user = _user()

    def process(self, folder):
        """Its process, and the signal that ends it well."""
        self.log_path = os.path.join(folder, "log")
        server = self.server = _server(self.service, os.path.join(folder, "own"))
        os.mkdir(server.folder, 0o700)
        os.chmod(folder, 0o711)
        server.version()
        if not is_free(server.port):
            raise Unavailable("Port %d is in use in the sandbox." % server.port)
        server.prepare(self.run)
        self._hand_over()
        with open(self.log_path, "ab") as log:
            return self._popen(server.argv(), stdout=log), server.stop_signal

    def run(self, argv, stdin=b""):
        self._hand_over()
        process = self._popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            said = process.communicate(stdin, max(0.1, self.deadline - time.monotonic()))[0]
        except subprocess.TimeoutExpired:
            _kill(process)
            raise Unavailable("It was not ready in time.") from None
        with open(self.log_path, "ab") as log:
            log.write(said)
        if process.returncode:
            raise Unavailable("%s ended with %d." % (os.path.basename(argv[0]), process.returncode))
        return said

    def wait(self, process):
        while time.monotonic() < self.deadline:
            if process.poll() is not None:
                raise Unavailable("It ended with %d before it answered." % process.returncode)
            try:
                with socket.create_connection(("127.0.0.1", self.server.port), 1.0) as connection:
                    if self.server.is_ready(connection):
                        return
            except OSError:
                pass
            time.sleep(0.02)
        raise Unavailable("It did not answer in time.")

    def log(self):
        try:
            with open(self.log_path, "rb") as file:
                file.seek(max(0, os.path.getsize(self.log_path) - LOG))
                return file.read()
        except (OSError, TypeError):
            return b""

    def _hand_over(self):
        """What was written into its folder belongs to its user."""
        if self.user is not None:
            for folder, _, files in os.walk(self.server.folder):
                for path in [folder] + [os.path.join(folder, name) for name in files]:
                    os.lchown(path, *self.user)

    def _popen(self, argv, stdin=subprocess.DEVNULL, stdout=None):
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


def _server(service, folder):
    if service["kind"] not in KINDS:
        raise Unavailable("There is no %s in the sandbox." % service["kind"])
    return KINDS[service["kind"]](service, folder)


def _environment():
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment.update(LANG="C.UTF-8", TZ="UTC")
    return environment


def _user():
    """Whom a server runs as where we are root, which PostgreSQL refuses to be: (user id, group id), else None."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
        except KeyError:
            continue
    return 65534, 65534


def _as_user(user):
    """What a child does before its program starts: become that user, and die with us."""
    prctl = _prctl()

    def prepare():
        if user is not None:
            os.setgroups([])
            os.setgid(user[1])
            os.setuid(user[0])
        if prctl is not None:
            prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG; a change of the user would undo it

    return prepare


def _prctl():
    try:
        import ctypes

        return ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None


def _kill(process):
    """The server and its group."""
    for kill in (os.killpg, os.kill):
        try:
            kill(process.pid, signal.SIGKILL)
        except OSError:
            pass
    process.wait()
