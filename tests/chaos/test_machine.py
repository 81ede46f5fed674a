"""What is left on the machine is seen wherever the data folder lies."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

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
