"""Forks that run code under test and are believed in nothing but a few words; runs inside the sandbox, not on Windows.

A fork may hang, exit, crash or write nonsense: it only loses its own work.
"""

import json
import os
import select
import signal
import time

from .limits import Limit

WORD_LIMIT = 1 << 24  # bytes
LOOPING = 0.005  # CPU seconds supposed of a test that never ended on the unchanged code
UNKNOWN = 0.5  # CPU seconds that a test may take which did not come to an end before
PROBED = 10  # times what it takes else, for a test that is looked at


class Forked(object):
    """A fork that runs `work(write)`; what it writes comes back as words, until it ends or is killed."""

    def __init__(self, work, close=()):
        self.reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                os.close(self.reader)
                for fd in close:
                    os.close(fd)
                work(lambda word: _write(writer, word))
            except BaseException:
                pass
            finally:
                os._exit(0)
        os.close(writer)
        self.pending = bytearray()
        self.is_silent = False  # it has closed its end, or talks nonsense

    def word(self, deadline):
        """The next word, or None when it is dead, silent until `deadline` (monotonic seconds), or talks nonsense."""
        while b"\n" not in self.pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.reader], [], [], left)[0]:
                return None
            chunk = os.read(self.reader, 1 << 16)
            if not chunk or len(self.pending) > WORD_LIMIT:
                self.is_silent = True
                return None
            self.pending += chunk
        line, _, rest = self.pending.partition(b"\n")
        self.pending = rest
        try:
            return json.loads(line.decode())
        except ValueError:
            self.is_silent = True
            return None

    def end(self):
        """Kill it with its process group; what left the group dies by its limit or with the sandbox."""
        for kill in (os.killpg, os.kill):
            try:
                kill(self.pid, signal.SIGKILL)
            except OSError:
                pass
        os.waitpid(self.pid, 0)
        os.close(self.reader)


def _write(fd, word):
    data = (json.dumps(word) + "\n").encode()
    while data:
        data = data[os.write(fd, data) :]


def observed(tests, names, probe, seconds, durations):
    """Run tests on the unchanged code, many in one fork, a new fork after each that kills it.

    Yields (name, passed or None, CPU seconds, wall seconds, what `probe` saw). `probe()` starts to look and returns a callable
    that stops and tells. `seconds` bounds the whole; `durations` (seconds) says how long tests took that were run before.
    """
    names, until = list(names), time.monotonic() + seconds

    def patience(name):
        return 0.5 + PROBED * durations[name] if name in durations else UNKNOWN

    def work(write):
        limit = Limit()
        for name in names:
            cpu, wall = time.process_time(), time.monotonic()
            stop = probe()
            try:
                passed = limit.run(tests[name], patience(name), patience(name) + 2.0)
            finally:
                seen = stop()
            passed = None if limit.expired else bool(passed)
            write([passed, time.process_time() - cpu, time.monotonic() - wall, seen])

    while names and time.monotonic() < until:
        fork = Forked(work)
        try:
            while names:
                word = fork.word(min(until, time.monotonic() + 4 * patience(names[0]) + 3.0))
                if not isinstance(word, list) or len(word) != 4:
                    break
                cost = (LOOPING, LOOPING) if word[0] is None else (word[1], word[2])
                yield (names.pop(0), word[0], cost[0], cost[1], word[3])
        finally:
            fork.end()
        if names and time.monotonic() < until:
            yield (names.pop(0), None, LOOPING, LOOPING, None)
