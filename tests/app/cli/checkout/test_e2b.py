"""`selfheal fix` as a person runs it, with a key of E2B: from a red checkout to a repair that was proven in a machine there."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.sandbox.contract.backends import need_machines
from tests.standins.e2b import E2B

ROOT = Path(__file__).resolve().parents[4]
CALCULATOR = "def add(a, b):\n    return a - b\n"
TESTS = """\
import unittest
from calculator import add

class Tests(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)
"""


@pytest.mark.long
@pytest.mark.optional(reason="the machines of the local E2B need root")
async def test_the_calculator_is_healed_in_a_machine_at_e2b(tmp_path: Path) -> None:
    need_machines()
    checkout, cache = tmp_path / "checkout", tmp_path / "cache"
    checkout.mkdir()
    cache.mkdir()
    (checkout / "calculator.py").write_text(CALCULATOR)
    (checkout / "test_calculator.py").write_text(TESTS)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SELFHEAL_", "E2B_"))}
    environment |= {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT), "SELFHEAL_MODEL": "none"}
    async with E2B.serve() as e2b:
        environment |= {"E2B_API_KEY": e2b.account.api_key, "E2B_API_URL": e2b.url, "E2B_SANDBOX_URL": e2b.url}
        fixing = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app", "fix", str(checkout), "--test", "python -m unittest", "--json"),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=environment, cwd=cache,
        )  # fmt: skip
        out, said = await asyncio.wait_for(fixing.communicate(), 240)
        assert fixing.returncode == 0, said.decode()
        assert e2b.requests.count("POST /v2/sandboxes") == 1
        assert not e2b.machines.all, "the machine is gone"
        created = next(iter(e2b.machines.made_by_key))
        assert "checkout" in created
    told = json.loads(out)
    assert "sandbox e2b, no network" in json.dumps(told)
    assert "a + b" in json.dumps(told)
