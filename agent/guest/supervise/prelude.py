"""What comes before the tests of a check, for those who run them otherwise than by its command.

Knows servers and steps, whose output nobody reads here; nothing of tests.
"""

import contextlib
import os
import random
import subprocess
import sys
import time

from . import clock, peers, services, starting

SHARE = 0.5  # of the time for everything


class Failed(Exception):
    """The tests would not find what they need; the message says why."""


@contextlib.contextmanager
def played(request, root):
    """Servers run and steps have run inside of this; the environment of this process is then that of the tests.

    `request` has what `prelude_of` gives, and `seconds` for everything, from which the time that this took is taken off.
    Raises Failed.
    """
    conditions = request["conditions"]
    if conditions["clock"] is not None:
        clock.install(conditions["clock"])
    if conditions["seed"] is not None:
        random.seed(conditions["seed"])
    if not (request["before"] or request["services"] or request["path"]):
        yield
        return
    started = time.monotonic()
    deadline = started + SHARE * request["seconds"]
    starter, servers = starting.Starter(dict(request, root=root, guest=sys.path[0])), services.Services()
    try:
        servers.start(request["services"], deadline)
        for step in request["before"]:
            _run(step, starter, servers, deadline)
            starter.take_over()
        _enter(starter.surroundings())
        request["seconds"] -= time.monotonic() - started
        yield
    except services.Failed as failed:
        raise Failed("the service %s could not be started: %s" % (failed.service, failed)) from None
    finally:
        servers.stop()
        starter.close()


def _run(step, starter, servers, deadline):
    peers.adopt(True)
    process = starter.step(step, output=subprocess.DEVNULL)
    try:
        process.wait(max(0.1, min(step["timeout"], deadline - time.monotonic())))
    except subprocess.TimeoutExpired:
        if not step["may_fail"]:
            raise Failed("the step %s before the tests took too long" % step["name"]) from None
    finally:
        process.kill()
        process.wait()
        peers.end_all(servers.pids())  # and what it left running
        peers.adopt(False)
    if process.returncode and not step["may_fail"]:
        raise Failed("the step %s before the tests did not pass" % step["name"])


def _enter(environment):
    os.environ.clear()
    os.environ.update(environment)
    for path in reversed(environment.get("PYTHONPATH", "").split(os.pathsep)):
        if path and path not in sys.path:
            sys.path.insert(1, path)
