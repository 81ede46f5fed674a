"""Time for one call inside this process: CPU and wall clock, asked for again and again; inside the sandbox, not on Windows.

A call that takes too long gets an exception. Code under test may swallow it, so the timer fires again; what never gets back to
Python is ended by the kernel, together with this process.
"""

import signal

AGAIN = 0.02  # CPU seconds after which a swallowed exception is raised again


class Expired(BaseException):
    """Raised in a call that took too long."""


class Limit(object):
    """The timers of this process; one at a time, in its main thread."""

    def __init__(self):
        self.expired = False  # whether the last call ran out of its time, also where it hid that
        signal.signal(signal.SIGPROF, self._fire)
        signal.signal(signal.SIGALRM, self._fire)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)

    def _fire(self, signum, frame):
        self.expired = True
        raise Expired

    def run(self, call, cpu, wall):
        """What `call()` returns, or None when it raised anything or had no time left."""
        self.expired = False
        try:
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, 4 * cpu + 0.5)
                signal.setitimer(signal.ITIMER_REAL, wall, 0.1)
                signal.setitimer(signal.ITIMER_PROF, cpu, AGAIN)
                return call()
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        except BaseException:
            return None
