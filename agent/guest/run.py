"""`python guest.zip run`: runs one shell command and reports its tests' results; never imports the repository's code.

Reads a JSON request from stdin, writes one line `NONCE JSON` to stdout. The command cannot write there: it gets its own pipes,
and other processes of the same user cannot access this one. Test results arrive over the private channel at once, so a timeout
or a crash does not lose earlier ones; `supervise/results.py` decides which to believe.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import threading
import time
from functools import partial
from queue import SimpleQueue
from socket import socket as Socket
from subprocess import Popen
from typing import TYPE_CHECKING, Any

from .supervise import peers, results
from .supervise.results import RunnerSession
from .supervise.steps import ProgramStarter
from .text import RUNNING, clean
from .wire import channel

if TYPE_CHECKING:
    from collections.abc import Callable

    from .supervise.decisive_files import DecisiveFiles
    from .supervise.services import Services

SLOW = 2.0  # seconds after which a running test is named
DRAIN = 1.0  # seconds to wait for output after the command has ended


def main() -> int:
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    request["root"] = os.path.realpath(request["root"])  # the form that tracebacks use
    closed = _close_to_peers()
    out = os.fdopen(os.dup(1), "wb")  # a new descriptor is not inherited
    os.dup2(2, 1)
    report = Supervisor(request).run()
    if not closed:  # another process could have forged the answer
        report.update(ending="crashed", verdicts={}, failures={})
        report["notes"].append("this Python cannot protect the supervisor from other processes (ctypes is missing)")
    out.write(request["nonce"].encode("ascii") + b" " + json.dumps(report).encode("ascii") + b"\n")
    out.flush()
    return 0


def _close_to_peers() -> bool:
    """Make this process not dumpable: others of the same user cannot open its /proc/PID/fd and /proc/PID/mem."""
    if not sys.platform.startswith("linux"):
        return True  # no such files, and nothing untrusted runs on such a system
    prctl = peers.prctl()
    return prctl is not None and prctl(4, 0, 0, 0, 0) == 0  # PR_SET_DUMPABLE


class Supervisor:
    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.limit = int(request["output_limit"])
        self.output = bytearray()  # the end of the output
        self.is_node = request["reader"] == "javascript"
        self.results = results.ResultCollector(self.is_node, float(request["timeout"]))
        self.notes: list[str] = []
        self.starter = ProgramStarter(request)
        self.services: Services | None = None
        self.decisive_files: DecisiveFiles | None = None
        self.prepared: list[str] = []
        self.named = ""  # the test that was named last
        self.hung = 0.0  # seconds that the longest test had run at the timeout

    def run(self) -> dict[str, Any]:
        started = time.monotonic()
        deadline = started + float(self.request["timeout"])
        try:
            process, timed_out, stopped_at = self._run_all(deadline)
        finally:
            if self.services is not None:
                self.services.stop()
            left = self.starter.outputs()
            self.starter.close()
        exit_code = None if process is None else process.returncode
        is_invalid = self.results.close(exit_code, timed_out)
        # A server that does not start says nothing about the code.
        ending = "timeout" if timed_out else "crashed" if process is None or is_invalid else "finished"
        return {
            "ending": ending,
            "exit_code": exit_code,
            "seconds": time.monotonic() - started,
            "observed": self.results.is_observed(),
            "verdicts": self.results.verdicts,
            "failures": self.results.failures,
            "output": clean(bytes(self.output[-self.limit :]).decode("utf-8", "replace"), self.limit),
            "notes": self.notes + self.results.notes,
            "marks": sorted(self._marks()),
            "prepared": self.prepared,
            "told_all": self.results.is_complete(),
            "stopped_at": stopped_at,
            "left": {} if stopped_at else left,
            "hung": self.hung,
        }

    def _run_all(self, deadline: float) -> tuple[Popen[bytes] | None, bool, str]:
        """Run servers, steps and check. Returns the last process (None: a server failed), if it timed out, and what failed."""
        failed = self._start_services(deadline) if self.request["services"] else ""
        if failed:
            return None, time.monotonic() >= deadline, "service " + failed
        if self.request["before"]:
            last, timed_out, stopped_at = self._run_steps(deadline)
            if stopped_at:
                return last, timed_out, stopped_at
        folder = self.starter.new_folder()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(os.path.join(folder, channel.SOCKET))
            listener.listen(16)
            process, timed_out = self._listen(listener, partial(self.starter.start_check, self.results.canary), deadline)
            return process, timed_out, ""

    def _run_steps(self, deadline: float) -> tuple[Popen[bytes] | None, bool, str]:
        """Run the steps; kill what each leaves running before the next starts. Record their changes to decisive files."""
        from .supervise import decisive_files  # few runs need it

        starter, request = self.starter, self.request
        programs = request["path"] + [os.path.dirname(sys.executable)] + os.environ.get("PATH", os.defpath).split(os.pathsep)
        home = os.environ.get("HOME", os.sep)
        self.decisive_files = decisive_files.DecisiveFiles(request["root"], home, programs, request["deciding"])
        process = None
        for step in request["before"]:
            is_subreaper = peers.set_subreaper(True)
            until = min(deadline, time.monotonic() + step["timeout"])
            process, timed_out = self._listen(None, partial(starter.start_step, step), until)
            alone = is_subreaper and peers.kill_descendants(self.services.pids() if self.services is not None else ())
            peers.set_subreaper(False)  # otherwise orphans of the tests would become our children
            failed = (timed_out or process.returncode) and not step["may_fail"]
            late = time.monotonic() >= deadline
            if failed or late or not alone:
                stopped_at = str(step["name"])
                why = "failed" if alone else "left processes running that could not be killed"
                self.notes.append("Step %s, which runs before the check, %s." % (json.dumps(stopped_at), why))
                return process, timed_out or late or not alone, stopped_at
            starter.apply_outputs()
        self.prepared = self.decisive_files.changes(starter.variables, starter.added_path, str(request["script"]))
        return process, False, ""

    def _marks(self) -> set[str]:
        """The marks. Steps can generate files from changed code, so marks of such files are added without the file's name."""
        marks, files = self.results.marks, self.decisive_files
        if files is None:
            return marks
        return marks | {": " + mark for mark in marks if files.is_made_by_steps(mark.partition(":")[0])}

    def _start_services(self, deadline: float) -> str:
        """Start the servers; returns the name of the one that could not be started, or ""."""
        from .supervise import services  # few runs need services, and the import takes time

        self.services = services.Services()
        try:
            self.services.start(self.request["services"], deadline)
        except services.ServiceFailed as failed:
            self.output += failed.log
            self.notes.append("The service %s could not be started: %s" % (json.dumps(failed.service), failed))
            return failed.service
        return ""

    def _listen(self, listener: Socket | None, start: Callable[[], Popen[bytes]], deadline: float) -> tuple[Popen[bytes], bool]:
        """Read a command's output and messages until it has ended or the deadline has passed (then True)."""
        ended, end = os.pipe()
        started: SimpleQueue[Popen[bytes]] = SimpleQueue()
        # Before the command, which may at once start so many processes that there is no room for a thread.
        threading.Thread(target=_close_at_exit, args=(started, end), daemon=True).start()
        process = start()
        started.put(process)
        with selectors.DefaultSelector() as selector:
            if listener is not None:  # steps have no channel
                selector.register(listener, selectors.EVENT_READ, "listener")
            if process.stdout is not None:
                selector.register(process.stdout, selectors.EVENT_READ, "output")
            selector.register(ended, selectors.EVENT_READ, "ended")
            timed_out = over = False
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    if not over:
                        timed_out = True
                        self.hung = self.results.longest_running()[1]
                        _kill(process)
                        process.wait()
                        over, deadline = True, time.monotonic() + DRAIN
                        continue
                    break
                for key, _ in selector.select(min(left, 1.0)):
                    file: Any = key.fileobj
                    if listener is not None and key.data == "listener":
                        connection, _ = listener.accept()
                        selector.register(connection, selectors.EVENT_READ, self._session(connection, process))
                    elif key.data == "ended":
                        selector.unregister(ended)
                        if not over:
                            _kill(process)  # and processes that it left running
                            over, deadline = True, time.monotonic() + DRAIN
                    else:
                        data = os.read(key.fd, 65536) if key.data == "output" else _receive(file)
                        if not data:
                            selector.unregister(file)
                            if key.data != "output":
                                file.close()
                        elif key.data == "output":
                            self.output += data
                            del self.output[: -2 * self.limit]
                        else:
                            self.results.receive(key.data, data)
                self._name_slow_test()
                waiting = [key for key in selector.get_map().values() if key.data != "listener"]
                if over and not waiting:
                    break
        os.close(ended)
        return process, timed_out

    def _name_slow_test(self) -> None:
        """Write the test that runs to standard error, for people who wait. Nothing else reads it."""
        name, seconds = self.results.longest_running()
        name = name if seconds >= SLOW else ""
        if name != self.named:
            self.named = name
            os.write(2, (RUNNING + name + "\n").encode("utf-8", "replace"))

    def _session(self, connection: Socket, process: Popen[bytes]) -> RunnerSession:
        if not self.is_node:
            return self.results.add_session()
        pid = peers.pid_of(connection)
        # Accept every earlier connection, as its first message can still be on its way.
        earlier = [other.pid for other in self.results.sessions]
        return self.results.add_session(pid, peers.is_runner(pid, process.pid, earlier))


def _kill(process: Popen[bytes]) -> None:
    """Kill the command and the processes that it left running in its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _receive(connection: Socket) -> bytes:
    try:
        return connection.recv(65536)
    except OSError:
        return b""


def _close_at_exit(started: SimpleQueue[Popen[bytes]], end: int) -> None:
    started.get().wait()
    os.close(end)
