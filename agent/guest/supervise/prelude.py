"""Runs what comes before a check's tests, for subcommands that run the tests in their own way. Output is discarded."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import time

from ..observe import clock
from . import peers, programs, services

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

SHARE = 0.5  # of the total time


class PreludeFailed(Exception):
    """A server or a step that the tests need failed; the message says which."""


@contextlib.contextmanager
def running(request: dict[str, Any], root: str) -> Iterator[None]:
    """Start the servers, run the steps, and give this process the environment of the tests.

    `request` has what `prelude_of` returns, and `seconds` for everything, from which the time spent here is subtracted.
    Raises PreludeFailed.
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
    starter, servers = programs.ProgramStarter(dict(request, root=root, guest=sys.path[0])), services.Services()
    try:
        servers.start(request["services"], deadline)
        for step in request["before"]:
            _run(step, starter, servers, deadline)
            starter.apply_outputs()
        _replace_environment(starter.test_environment())
        request["seconds"] -= time.monotonic() - started
        yield
    except services.ServiceFailed as failed:
        raise PreludeFailed("the service %s could not be started: %s" % (failed.service, failed)) from None
    finally:
        servers.stop()
        starter.close()


def _run(step: dict[str, Any], starter: programs.ProgramStarter, servers: services.Services, deadline: float) -> None:
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
        peers.kill_descendants(servers.pids())  # and what it left running
        peers.set_subreaper(False)
    if process.returncode and not step["may_fail"]:
        raise PreludeFailed("the step %s before the tests failed" % step["name"])


def _replace_environment(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for path in reversed(environment.get("PYTHONPATH", "").split(os.pathsep)):
        if path and path not in sys.path:
            sys.path.insert(1, path)
