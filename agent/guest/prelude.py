"""Runs the servers and steps before a check's tests, for subcommands that run the tests themselves. Discards their output."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from .observe.conditions import set_clock
from .supervise import peers, services
from .supervise.steps import ProgramStarter
from .trial.collection import NotCollected, collect, reserve_output
from .trial.forks import Fork, Write

SHARE = 0.5  # of the total time


class PreludeFailed(Exception):
    """A server or a step that the tests need failed; the message says which."""


def answer_from_tests(work: Callable[[dict[str, Any], str, dict[str, Any]], Any], nothing: str) -> int:
    """The body of a subcommand that needs the tests: one JSON request from stdin, one JSON line to stdout.

    `work(request, root, tests)` gives the answer, in a fork that has collected the tests; it has until `request["until"]`
    (monotonic seconds). If that fails, the answer is {unavailable: why}; if nothing comes in time, `nothing` is the reason.
    """
    request = json.loads(sys.stdin.buffer.read().decode())
    output, root = reserve_output()

    def in_fork(write: Write) -> None:
        try:
            collect(request, root, request["red"] + request["green"], lambda tests: write(work(request, root, tests)))
        except NotCollected as why:
            write({"unavailable": str(why)})

    try:
        with running(request, root):
            request["until"] = time.monotonic() + request["seconds"]
            fork = Fork(in_fork, close=(output,))
            answer = fork.receive(request["until"])
            fork.end()
    except PreludeFailed as why:
        answer = {"unavailable": str(why)}
    os.write(output, (json.dumps(answer or {"unavailable": nothing}) + "\n").encode())
    return 0


@contextlib.contextmanager
def running(request: dict[str, Any], root: str) -> Iterator[None]:
    """Start the servers, run the steps, and give this process the environment of the tests.

    `request` has the keys from `prelude_of`, and `seconds` for everything, from which the time spent here is subtracted. Raises
    PreludeFailed.
    """
    conditions = request["conditions"]
    if conditions["clock"] is not None:
        set_clock(conditions["clock"])
    if conditions["seed"] is not None:
        random.seed(conditions["seed"])
    if not (request["before"] or request["services"] or request["path"]):
        yield
        return
    started = time.monotonic()
    deadline = started + SHARE * request["seconds"]
    starter, servers = ProgramStarter(dict(request, root=root, guest=sys.path[0])), services.Services()
    try:
        servers.start(request["services"], deadline)
        for step in request["before"]:
            _run(step, starter, servers, deadline)
            starter.apply_outputs()
        environment = starter.test_environment()
        os.environ.clear()
        os.environ.update(environment)
        for path in reversed(environment.get("PYTHONPATH", "").split(os.pathsep)):
            if path and path not in sys.path:
                sys.path.insert(1, path)
        request["seconds"] -= time.monotonic() - started
        yield
    except services.ServiceFailed as failed:
        raise PreludeFailed("the service %s could not be started: %s" % (failed.service, failed)) from None
    finally:
        servers.stop()
        starter.close()


def _run(step: dict[str, Any], starter: ProgramStarter, servers: services.Services, deadline: float) -> None:
    peers.set_subreaper(True)
    process = starter.start_step(step, output=subprocess.DEVNULL)
    try:
        process.wait(max(0.1, min(step["timeout"], deadline - time.monotonic())))
    except subprocess.TimeoutExpired:
        if not step["may_fail"]:
            raise PreludeFailed("the step %s before the tests timed out" % step["name"]) from None
    finally:
        process.kill()
        process.wait()
        peers.kill_descendants(servers.pids())  # and processes that it left running
        peers.set_subreaper(False)
    if process.returncode and not step["may_fail"]:
        raise PreludeFailed("the step %s before the tests failed" % step["name"])
