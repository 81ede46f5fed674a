"""Forks that run code under test and are believed in nothing but a few words; runs inside the sandbox, not on Windows.

A fork may hang, exit, crash or write nonsense: it only loses its own work.
"""

import json
import os
import select
import signal
import time

WORD_LIMIT = 1 << 24  # bytes
LOOPING = 0.02  # CPU seconds supposed of a test that never ended on the unchanged code


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

    def word(self, deadline):
        """The next word, or None when it is dead, silent until `deadline` (monotonic seconds), or talks nonsense."""
        while b"\n" not in self.pending:
            left = deadline - time.monotonic()
            if left <= 0 or len(self.pending) > WORD_LIMIT or not select.select([self.reader], [], [], left)[0]:
                return None
            chunk = os.read(self.reader, 1 << 16)
            if not chunk:
                return None
            self.pending += chunk
        line, _, rest = self.pending.partition(b"\n")
        self.pending = rest
        try:
            return json.loads(line.decode())
        except ValueError:
            return None

    def end(self):
        """Kill it with its process group; what left the group dies by `allow` or with the sandbox."""
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


def allow(cpu):
    """The kernel ends this process after so much CPU time: a busy machine does not make a test fail, a loop does."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, cpu)


def observed(tests, names, probe, seconds, each):
    """Run tests on the unchanged code, many in one fork, a new fork after each that kills it.

    Yields (name, passed or None, CPU seconds, what `probe` saw). `probe()` starts to look and returns a callable that stops and
    tells. `seconds` bounds the whole, `each` one test.
    """
    names, until = list(names), time.monotonic() + seconds

    def work(write):
        for name in names:
            allow(each)
            begin = time.process_time()
            stop = probe()
            try:
                passed = tests[name]()
            finally:
                seen = stop()
            write([bool(passed), time.process_time() - begin, seen])

    while names and time.monotonic() < until:
        fork = Forked(work)
        try:
            while names:
                word = fork.word(min(until, time.monotonic() + each + 1.0))
                if not isinstance(word, list) or len(word) != 3:
                    break
                yield (names.pop(0), word[0], word[1], word[2])
        finally:
            fork.end()
        if names and time.monotonic() < until:
            yield (names.pop(0), None, LOOPING, None)
