"""The supervisor as a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent.checks.guest_bundle import guest_bundle

WITHOUT_CTYPES = """\
import sys
sys.modules["ctypes"] = None
sys.path.insert(0, "guest.zip")
from selfheal_guest import run
run.main()
"""


def test_a_supervisor_that_cannot_be_closed_to_its_peers_believes_nothing(tmp_path: Path) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("needs Linux: elsewhere there is no /proc to close")
    guest = tmp_path / "guest.zip"
    guest.write_bytes(guest_bundle())
    where = {"guest": str(guest), "root": str(tmp_path), "cwd": ".", "env": {}, "outer": {}}
    program = {"name": "nothing", "script": "true", "shell": "bash", "before": [], "path": [], "services": []}
    program["conditions"] = {"shuffle": None, "seed": None, "clock": None}
    asked = where | program | {"nonce": "n", "reader": "exit", "only": None, "timeout": 20, "output_limit": 1000}
    start = [sys.executable, "-c", WITHOUT_CTYPES]
    told = subprocess.run(start, input=json.dumps(asked), cwd=tmp_path, capture_output=True, text=True, timeout=30)
    report = json.loads(told.stdout.removeprefix("n "))
    assert report["ending"] == "crashed"
    assert "cannot protect" in report["notes"][0]
