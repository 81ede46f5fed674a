"""The command line in processes of its own, forked from one that has loaded its modules: a start takes no second."""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from app import cli

COMMANDS = [each.name for each in pkgutil.walk_packages(cli.__path__, "app.cli.")]
# What commands import only when they need it.
LOADED = [*COMMANDS, "app.store.store", "app.service.run", "agent.graph", "agent.proposers.ladder", "sandbox.local"]


def run(
    argv: Sequence[str], cwd: Path, environment: Mapping[str, str], seconds: float = 60.0
) -> subprocess.CompletedProcess[str]:
    """Raises `subprocess.TimeoutExpired`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        out.touch()  # they are there even if the process ends before it opens them
        err.touch()
        process = context.Process(target=_run, args=(tuple(argv), str(cwd), dict(environment), str(out), str(err)))
        process.start()
        process.join(seconds)
        said, complained = out.read_bytes().decode(), err.read_bytes().decode()
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired([*argv], seconds, said, complained)
        return subprocess.CompletedProcess([*argv], process.exitcode, said, complained)


def _run(argv: tuple[str, ...], cwd: str, environment: dict[str, str], out: str, err: str) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, out, os.O_WRONLY | os.O_CREAT),
        (2, err, os.O_WRONLY | os.O_CREAT),
    ):
        os.dup2(os.open(path, flags, 0o600), descriptor)
    sys.argv = ["selfheal", *argv]
    runpy.run_module("app", run_name="__main__", alter_sys=True)
