"""What the processes that run a check's tests have told: verdicts, why they are red, meddling, and who of them is believed.

Knows no program and no socket: it is given what came over each connection, and at last how the command has ended.
"""

import json
import secrets

from .text import clean, identity

TESTS = 100000  # verdicts kept
MARKS = 300  # of meddling, kept
FAILURES = 300  # failures kept with their details
MESSAGE_BYTES = 262144  # of one message


class Session:
    """What one process that runs tests has told."""

    def __init__(self, pid=0, speaks=True):
        self.pid, self.speaks = pid, speaks  # one that may not speak of tests can still tell of meddling
        self.buffer = bytearray()
        self.greeted = self.ended = self.left = self.green = self.told = False
        self.ready = self.idle = False  # of Node: its reporter was made; it was not asked to run tests
        self.running = {}  # ids; several where the runner does several things at once
        self.sentinel = None  # what was told of the test that must fail
        self.key, self.is_foreign = None, False  # the first message's, and whether a later one came without it

    def is_forged(self, is_whole):
        """Whether failing tests are told as passed. Who tells of green tests to the end tells of the one that must fail too."""
        return self.is_foreign or self.sentinel == "passed" or (is_whole and self.green and self.sentinel is None)

    def has_told_all(self, has_sentinel):
        """Whether it told of tests, or at least of the one that there always is, to the end."""
        believable = self.sentinel in ("failed", "error") if has_sentinel else self.told
        return self.greeted and self.ended and believable and not self.is_foreign


class Hearing:
    """All that was told in one run; `timeout` in seconds."""

    def __init__(self, is_node, timeout):
        self.is_node, self.timeout = is_node, timeout
        self.has_sentinel = not is_node  # a runner of Node's cannot be given one more test without its exit code
        self.sentinel = "test_" + secrets.token_hex(4)
        self.sessions = []
        self.verdicts = {}  # id -> [verdict, seconds]
        self.failures = {}  # id -> {message, details, frames}
        self.notes = []
        self.marks = set()

    def begin(self, pid=0, speaks=True):
        """Somebody has connected."""
        session = Session(pid, speaks)
        self.sessions.append(session)
        return session

    def take(self, session, data):
        """More bytes of its connection. A line that is no message of ours shows that somebody else writes there too."""
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

    def close(self, exit_code, timed_out):
        """The command has ended, or its time was up: judge who told of it. Returns whether anyone died or lied."""
        undone = forged = False
        for session in self.sessions:
            # An orderly exit without an end is a wrong use that pytest itself has told about, before any test.
            is_orderly = session.left and not session.running and not session.green
            if self.is_node:  # any code could leave so; only with a code that means failure it turns nothing green
                is_orderly = session.idle or (is_orderly and exit_code)
            died = session.greeted and not session.ended and not is_orderly
            lied = session.is_forged(is_whole=self.has_sentinel and not timed_out and not died)
            forged = forged or lied
            undone = undone or died or lied
            why = "the process died while this ran (exit code %s)" % exit_code
            if timed_out:
                why = "did not finish in %g s" % self.timeout
            for running in () if session.ended else session.running:
                self._verdict(running, "error", 0.0, {"message": why, "details": "", "frames": []})
        if forged:
            self.notes.append("a test that must fail was not told as failed by its runner: nothing of this run is believed")
            self.verdicts, self.failures = {}, {}
        return undone

    def is_observed(self):
        """Whether anybody who runs tests was heard at all."""
        return any(session.ready if self.is_node else session.greeted for session in self.sessions)

    def has_told_all(self):
        return any(session.has_told_all(self.has_sentinel) for session in self.sessions)

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
            session.told, session.green = True, session.green or message["verdict"] == "passed"
            seconds = min(max(0.0, float(message["seconds"])), self.timeout)
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
