"""`python guest.pyz run`: runs one shell command and tells what its tests did; never imports code of the repository.

Reads a JSON request from stdin, writes one line `NONCE JSON` to stdout. The command cannot write there: it gets pipes of its
own, and this process is closed to its peers of the same user. What tests do arrives over the private channel as it happens,
so that a timeout or a crash keeps what was seen before; what of it is believed is for `hearing.py` to say.
"""

import json
import os
import selectors
import signal
import socket
import sys
import threading
import time

from . import channel, hearing, peers, starting
from .text import Tail, clean

DRAIN = 1.0  # seconds to wait for output after the command has ended


def main():
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    request["root"] = os.path.realpath(request["root"])  # as tracebacks will name it
    closed = _close_to_peers()
    out = os.fdopen(os.dup(1), "wb")  # a new descriptor is not inherited
    os.dup2(2, 1)
    report = Supervisor(request).run()
    if not closed:  # what runs beside us could have written the answer
        report.update(ending="crashed", verdicts={}, failures={})
        report["notes"].append("this Python cannot close the supervisor to its peers (ctypes is missing)")
    out.write(request["nonce"].encode("ascii") + b" " + json.dumps(report).encode("ascii") + b"\n")
    out.flush()
    return 0


def _close_to_peers():
    """Not dumpable: /proc/PID/fd and /proc/PID/mem of this process are closed to other processes of the same user."""
    if not sys.platform.startswith("linux"):
        return True  # no such files; nothing untrusted runs there
    try:
        import ctypes

        return ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0  # PR_SET_DUMPABLE
    except (ImportError, OSError, AttributeError):
        return False


class Supervisor:
    def __init__(self, request):
        self.request = request
        self.output = Tail(int(request["output_limit"]))
        self.is_node = request["reader"] == "javascript"
        self.hearing = hearing.Hearing(self.is_node, float(request["timeout"]))
        self.notes = []
        self.starter = starting.Starter(request)
        self.services = None
        self.before, self.prepared = None, []

    def run(self):
        started = time.monotonic()
        deadline = started + float(self.request["timeout"])
        try:
            process, timed_out, stopped_at = self._programs(deadline)
        finally:
            if self.services is not None:
                self.services.stop()
            left = self.starter.left()
            self.starter.close()
        exit_code = None if process is None else process.returncode
        heard = self.hearing
        undone = heard.close(exit_code, timed_out)
        # A server that does not start says nothing of the code.
        ending = "timeout" if timed_out else "crashed" if process is None or undone else "finished"
        return {
            "ending": ending,
            "exit_code": exit_code,
            "seconds": time.monotonic() - started,
            "observed": heard.is_observed(),
            "verdicts": heard.verdicts,
            "failures": heard.failures,
            "output": clean(self.output.text(), self.output.limit),
            "truncated": self.output.dropped,
            "notes": self.notes + heard.notes,
            "marks": sorted(self._marks()),
            "prepared": self.prepared,
            "told_all": heard.has_told_all(),
            "stopped_at": stopped_at,
            "left": {} if stopped_at else left,
        }

    def _programs(self, deadline):
        """Servers, steps, check, in this order: the last process (None: a server failed), is it late, what stopped it."""
        failed = self._serve(deadline) if self.request["services"] else ""
        if failed:
            return None, time.monotonic() >= deadline, "service " + failed
        if self.request["before"]:
            process, timed_out, stopped_at = self._steps(deadline)
            if stopped_at:
                return process, timed_out, stopped_at
        self.starter.renew()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(os.path.join(self.starter.folder, channel.SOCKET))
            listener.listen(16)
            process = self.starter.check(self.hearing.sentinel)
            return process, self._listen(listener, process, deadline), ""

    def _steps(self, deadline):
        """Run them, each without what the others left running; tell what they did to what decides."""
        from . import deciding  # few runs need it

        starter, request = self.starter, self.request
        programs = request["path"] + [os.path.dirname(sys.executable)] + os.environ.get("PATH", os.defpath).split(os.pathsep)
        home = os.environ.get("HOME", os.sep)
        self.before = deciding.Before(request["root"], home, programs, request["deciding"])
        process = None
        for step in request["before"]:
            adopted = peers.adopt(True)
            process = starter.step(step)
            timed_out = self._listen(None, process, min(deadline, time.monotonic() + step["timeout"]))
            alone = adopted and peers.end_all(self.services.pids() if self.services is not None else ())
            peers.adopt(False)  # else what leaves the tests would stay with us
            red = (timed_out or process.returncode) and not step["may_fail"]
            late = time.monotonic() >= deadline
            if red or late or not alone:
                stopped_at = str(step["name"])
                why = "did not pass" if alone else "left processes running that could not be ended"
                self.notes.append("the step %s before the check %s" % (json.dumps(stopped_at), why))
                return process, timed_out or late or not alone, stopped_at
            starter.take_over()
        self.prepared = self.before.after(starter.variables, starter.led, str(request["script"]))
        return process, False, ""

    def _marks(self):
        """A file that a step made does what a change to what makes it has it do: such a mark counts without a name too."""
        marks = self.hearing.marks
        if self.before is None:
            return marks
        return marks | {": " + mark for mark in marks if self.before.is_of_the_steps(mark.partition(":")[0])}

    def _serve(self, deadline):
        """Start the servers; returns the name of the one that could not be started, or ""."""
        from . import services  # few runs need any, and all would wait for the import

        self.services = services.Services()
        try:
            self.services.start(self.request["services"], deadline)
        except services.Failed as failed:
            self.output.add(failed.log)
            self.notes.append("the service %s could not be started: %s" % (json.dumps(failed.service), failed))
            return failed.service
        return ""

    def _listen(self, listener, process, deadline):
        """Take in output and messages until the command has ended or the time is up (then True)."""
        ended, end = os.pipe()
        threading.Thread(target=_tell_end, args=(process, end), daemon=True).start()
        with selectors.DefaultSelector() as selector:
            if listener is not None:  # a step has nobody to talk to
                selector.register(listener, selectors.EVENT_READ, "listener")
            selector.register(process.stdout, selectors.EVENT_READ, "output")
            selector.register(ended, selectors.EVENT_READ, "ended")
            timed_out = over = False
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    if not over:
                        timed_out = True
                        _kill(process)
                        process.wait()
                        over, deadline = True, time.monotonic() + DRAIN
                        continue
                    break
                for key, _ in selector.select(left):
                    if key.data == "listener":
                        connection, _ = listener.accept()
                        selector.register(connection, selectors.EVENT_READ, self._session(connection, process))
                    elif key.data == "ended":
                        selector.unregister(ended)
                        if not over:
                            _kill(process)  # what it left running
                            over, deadline = True, time.monotonic() + DRAIN
                    else:
                        data = os.read(key.fd, 65536) if key.data == "output" else _receive(key.fileobj)
                        if not data:
                            selector.unregister(key.fileobj)
                            if key.data != "output":
                                key.fileobj.close()
                        elif key.data == "output":
                            self.output.add(data)
                        else:
                            self.hearing.take(key.data, data)
                waiting = [key for key in selector.get_map().values() if key.data != "listener"]
                if over and not waiting:
                    break
        os.close(ended)
        return timed_out

    def _session(self, connection, process):
        if not self.is_node:
            return self.hearing.begin()
        pid = peers.pid_of(connection)
        # Whoever connected before, as its first words may still be on their way.
        earlier = [other.pid for other in self.hearing.sessions]
        return self.hearing.begin(pid, peers.may_speak(pid, process.pid, earlier))


def _kill(process):
    """The command and what it left running in its session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _receive(connection):
    try:
        return connection.recv(65536)
    except OSError:
        return b""


def _tell_end(process, end):
    process.wait()
    os.close(end)
