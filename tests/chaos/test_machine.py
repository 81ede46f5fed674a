"""What is left on the machine is seen wherever the data folder lies."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.install import folder_cache
from tests.chaos import machine


@pytest.fixture(params=["beside", "apart"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A stage's folder: on the file system of the tests, or its data on a small one of its own."""
    data = tmp_path / "data"
    data.mkdir()
    if request.param == "apart":
        if os.geteuid() != 0:
            pytest.skip("only root mounts a file system")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", data], check=True)
    yield tmp_path
    if request.param == "apart":
        subprocess.run(["umount", "-l", data], check=True)


def test_a_process_that_sees_a_sandbox_s_folder_is_found(folder: Path) -> None:
    box = folder / "data" / "sandboxes" / "open" / "box"
    box.mkdir(parents=True)
    assert machine.sandboxes(folder, "an-owner-of-nothing") == ["folder box"]
    seen = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "lib", "lib64"):
        seen += ["--symlink", f"usr/{name}", f"/{name}"]
    jail = subprocess.Popen(["bwrap", *seen, "--bind", box, "/work", "--die-with-parent", "sleep", "60"])
    try:
        deadline = time.monotonic() + 20
        while not any("in a sandbox" in line for line in machine.sandboxes(folder, "an-owner-of-nothing")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        jail.kill()
        jail.wait()


def test_half_an_installation_is_found(tmp_path: Path) -> None:
    (tmp_path / "data/sandboxes/packages/environments/kept-1-a").mkdir(parents=True)
    assert machine.sandboxes(tmp_path, "an-owner-of-nothing") == []
    held = folder_cache.create(tmp_path / "data/sandboxes/packages/environments", "q")
    assert machine.sandboxes(tmp_path, "an-owner-of-nothing") == [f"half an installation {held.folder.name}"]
    folder_cache.release(held)


def test_a_process_that_none_of_the_service_has_is_found(tmp_path: Path) -> None:
    strayed = subprocess.Popen(["sleep", "60"], env={**os.environ, "SELFHEAL_DATA_DIR": f"{tmp_path}/data"})
    try:
        assert machine.orphans(tmp_path, {strayed.pid}) == []
        assert machine.orphans(tmp_path, {1}) == [f"process {strayed.pid}: sleep 60"]
    finally:
        strayed.kill()
        strayed.wait()
    assert machine.orphans(tmp_path, set()) == []


def test_who_holds_a_connection_is_told_by_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]})).recv(1)"
        caller, other = subprocess.Popen([sys.executable, "-c", code]), subprocess.Popen(["sleep", "60"])
        try:
            connection, (_, port) = server.accept()
            with connection:
                assert machine.holder(port, [other.pid, os.getpid(), caller.pid]) == caller.pid
                assert machine.holder(port, [other.pid, os.getpid()]) is None
        finally:
            for process in (caller, other):
                process.kill()
                process.wait()
