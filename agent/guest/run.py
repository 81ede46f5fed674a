"""`python guest.pyz run`: runs one shell command and tells what its tests did; never imports code of the repository.

Reads a JSON request from stdin, writes one line `NONCE JSON` to stdout. The command cannot write there: it gets pipes of its
own, and this process is closed to its peers of the same user. What tests do arrives over the private channel as it happens,
so that a timeout or a crash keeps what was seen before.
"""

import json
import os
import secrets
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time

from . import channel, peers, starting
from .text import Tail, clean, identity

TESTS = 100000  # verdicts kept
MARKS = 300  # of meddling, kept
FAILURES = 300  # failures kept with their details
MESSAGE_BYTES = 262144  # of one message
DRAIN = 1.0  # seconds to wait for output after the command has ended


def main():
    request = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    request["root"] = os.path.realpath(request["root"])  # as tracebacks will name it
    closed = _close_to_peers()
    out = os.fdopen(os.dup(1), "wb")  # a new descriptor is not inherited
    os.dup2(2, 1)
    folder = tempfile.mkdtemp(prefix="selfheal-")
    try:
        report = Supervisor(request, folder).run()
        if not closed:  # what runs beside us could have written the answer
            report.update(ending="crashed", verdicts={}, failures={})
            report["notes"].append("this Python cannot close the supervisor to its peers (ctypes is missing)")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
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


class Session:
    """What one process that runs tests has told."""

    def __init__(self, pid=0, speaks=True):
        self.pid, self.speaks = pid, speaks  # one that may not speak of tests can still tell of meddling
        self.buffer = bytearray()
        self.greeted = self.ended = self.left = self.green = False
        self.ready = self.idle = False  # of Node: its reporter was made; it was not asked to run tests
        self.running = {}  # ids; several where the runner does several things at once
        self.sentinel = None  # what was told of the test that must fail
        self.key, self.is_foreign = None, False  # the first message's, and whether a later one came without it

    def is_forged(self, is_whole):
        """Whether failing tests are told as passed. Who tells of green tests to the end tells of the one that must fail too."""
        return self.is_foreign or self.sentinel == "passed" or (is_whole and self.green and self.sentinel is None)


class Supervisor:
    def __init__(self, request, folder):
        self.request, self.folder = request, folder
        self.output = Tail(int(request["output_limit"]))
        self.sessions = []
        self.verdicts = {}  # id -> [verdict, seconds]
        self.failures = {}  # id -> {message, details, frames}
        self.notes = []
        self.marks = set()
        self.sentinel = "test_" + secrets.token_hex(4)
        self.forged = False
        self.is_node = request["reader"] == "javascript"
        self.has_sentinel = not self.is_node  # a runner of Node's cannot be given one more test without its exit code
        self.starter = starting.Starter(request, folder)
        self.services = None

    def run(self):
        started = time.monotonic()
        deadline = started + float(self.request["timeout"])
        try:
            process, timed_out, stopped_at = self._programs(deadline)
        finally:
            if self.services is not None:
                self.services.stop()
        # A server that does not start says nothing of the code.
        ending = "timeout" if timed_out else "crashed" if process is None else "finished"
        for session in self.sessions:
            # An orderly exit without an end is a wrong use that pytest itself has told about, before any test.
            is_orderly = session.left and not session.running and not session.green
            if self.is_node:  # any code could leave so; only with a code that means failure it turns nothing green
                is_orderly = session.idle or (is_orderly and process is not None and process.returncode)
            died = session.greeted and not session.ended and not is_orderly
            forged = session.is_forged(is_whole=self.has_sentinel and not timed_out and not died)
            if forged:
                self.forged = True
            if ending == "finished" and (died or forged):
                ending = "crashed"
            why = "the process died while this ran (exit code %s)" % process.returncode
            if timed_out:
                why = "did not finish in %g s" % float(self.request["timeout"])
            for running in () if session.ended else session.running:
                self._verdict(running, "error", 0.0, {"message": why, "details": "", "frames": []})
        if self.forged:
            self.notes.append("a test that must fail was not told as failed by its runner: nothing of this run is believed")
            self.verdicts, self.failures = {}, {}
        return {
            "ending": ending,
            "exit_code": None if process is None else process.returncode,
            "seconds": time.monotonic() - started,
            "observed": any(session.ready if self.is_node else session.greeted for session in self.sessions),
            "verdicts": self.verdicts,
            "failures": self.failures,
            "output": clean(self.output.text(), self.output.limit),
            "truncated": self.output.dropped,
            "notes": self.notes,
            "marks": sorted(self.marks),
            "told_all": any(session.ended for session in self.sessions),
            "stopped_at": stopped_at,
            "left": {} if stopped_at else self.starter.left(),
        }

    def _programs(self, deadline):
        """Servers, steps, check, in this order: the last process (None: a server failed), is it late, what stopped it."""
        failed = self._serve(deadline) if self.request["services"] else ""
        if failed:
            return None, time.monotonic() >= deadline, "service " + failed
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(os.path.join(self.folder, channel.SOCKET))
            listener.listen(16)
            for step in self.request["before"]:
                process = self.starter.step(step)
                timed_out = self._listen(listener, process, min(deadline, time.monotonic() + step["timeout"]))
                if timed_out or process.returncode:
                    name = str(step["name"])
                    self.notes.append("the step %s before the check did not pass" % json.dumps(name))
                    return process, timed_out, name
                self.starter.take_over()
            process = self.starter.check(self.sentinel)
            return process, self._listen(listener, process, deadline), ""

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
                        session = self._session(connection, process)
                        self.sessions.append(session)
                        selector.register(connection, selectors.EVENT_READ, session)
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
                            self._take(key.data, data)
                waiting = [key for key in selector.get_map().values() if key.data != "listener"]
                if over and not waiting:
                    break
        os.close(ended)
        return timed_out

    def _session(self, connection, process):
        if not self.is_node:
            return Session()
        pid = peers.pid_of(connection)
        # Whoever connected before, as its first words may still be on their way.
        return Session(pid, peers.may_speak(pid, process.pid, [other.pid for other in self.sessions]))

    def _take(self, session, data):
        session.buffer += data
        if len(session.buffer) > 16 * MESSAGE_BYTES and b"\n" not in session.buffer:
            session.buffer.clear()
            session.is_foreign = True
        while True:
            line, newline, rest = session.buffer.partition(b"\n")
            if not newline:
                return
            session.buffer = rest
            try:
                message = json.loads(line.decode("ascii")) if len(line) <= MESSAGE_BYTES else None
                if session.key is None and message["kind"] == "hello":
                    session.key = str(message["key"])
                if session.key is None or message["key"] != session.key:
                    raise ValueError("not one of ours")
                self._message(session, message)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                session.is_foreign = True

    def _message(self, session, message):
        kind = message["kind"]
        if kind == "hello":
            session.greeted = session.speaks
            session.idle = bool(message.get("idle"))
        elif kind == "mark":
            self._mark([message["mark"]])
        elif not session.speaks:
            raise ValueError("not one that runs tests")
        elif kind in ("start", "verdict") and str(message["id"]).endswith(("::" + self.sentinel, "." + self.sentinel)):
            if kind == "verdict" and session.sentinel != "passed":
                session.sentinel = str(message["verdict"])
        elif kind == "start":
            if not self.is_node:
                session.running.clear()
            session.running[identity(str(message["id"]))] = True
        elif kind == "over":
            session.running.pop(identity(str(message["id"])), None)
        elif kind == "verdict":
            if self.is_node:
                session.running.pop(identity(str(message["id"])), None)
            else:
                session.running.clear()
            session.green = session.green or message["verdict"] == "passed"
            seconds = min(max(0.0, float(message["seconds"])), float(self.request["timeout"]))
            self._verdict(str(message["id"]), message["verdict"], seconds, message["failure"])
        elif kind == "ready":
            session.ready = True
        elif kind == "end":
            session.ended = True
            self._mark(message["marks"])
        elif kind == "bye":
            session.left = True
        elif kind == "note":
            self.notes.append(clean(str(message["text"]), 500))

    def _mark(self, marks):
        for mark in marks[:MARKS]:
            if len(self.marks) < MARKS:
                self.marks.add(identity(str(mark)))

    def _verdict(self, name, verdict, seconds, failure):
        name = identity(name)
        rank = ("skipped", "passed", "failed", "error")
        known = self.verdicts.get(name)
        if known is None:
            if len(self.verdicts) >= TESTS:
                return
        elif rank.index(verdict) <= rank.index(known[0]):
            return  # the same test run twice by one command: the worse counts
        self.verdicts[name] = [rank[rank.index(verdict)], seconds]
        if verdict in ("failed", "error"):
            failure = dict(failure or {"message": "", "details": "", "frames": []})
            if len(self.failures) >= FAILURES:
                failure["details"], failure["frames"] = "", failure["frames"][-3:]
            self.failures[name] = failure


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
