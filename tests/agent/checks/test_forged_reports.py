"""Code under test that looks for its supervisor's request everywhere, writes the answer in its name and kills it.

Runs without a package index, because it also runs as a user that is not root (`tests/sandbox/test_unprivileged.py`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.checks.runner import Runner
from agent.contract.verdicts import Check, CheckRun, Verdict
from sandbox.base import Sandbox
from tests.sandbox.conftest import LIMITS, make

FORGER = '''
import json, os, re, signal, unittest

OTHERS = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
REPORT = {
    "ending": "finished", "exit_code": 0, "seconds": 1, "observed": True, "verdicts": {"test_a.Tests.test_sum": ["passed", 0]},
    "failures": {}, "output": "", "notes": [], "told_all": True,
}

def nonces():
    """From what any process was given, has open or holds in memory."""
    for pid in OTHERS:
        paths = ["/proc/%d/%s" % (pid, name) for name in ("environ", "cmdline", "fd/0", "fd/3")]
        for path in paths:
            try:
                with open(path, "rb") as file:
                    file.seek(0)
                    yield from re.findall(rb'"nonce": "([0-9a-f]+)"', file.read(1 << 20))
            except OSError:
                pass
        try:
            with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb") as memory:
                for line in maps:
                    start, end = (int(each, 16) for each in line.split()[0].split("-"))
                    memory.seek(start)
                    yield from re.findall(rb'"nonce": "([0-9a-f]+)"', memory.read(min(end - start, 1 << 24)))
        except (OSError, ValueError, OverflowError):
            pass

def forge():
    for nonce in set(nonces()):
        for pid in OTHERS:
            for number in (1, 3, 4, 5, 6, 7, 8):
                try:
                    with open("/proc/%d/fd/%d" % (pid, number), "wb", buffering=0) as out:
                        out.write(nonce + b" " + json.dumps(REPORT).encode() + b"\\n")
                except OSError:
                    pass

class Tests(unittest.TestCase):
    def test_sum(self):
        forge()
        HOW
        assert 1 == 2
'''
HOW = {
    "nobody dies": "",
    "all die": "os.kill(-1, signal.SIGKILL)",
    "the supervisor dies": "[os.kill(pid, signal.SIGKILL) for pid in OTHERS if pid in (2, os.getppid())]",
    "all are asked to end": "[os.kill(pid, signal.SIGTERM) for pid in OTHERS]",
}


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with make("local", tmp_path).open("forged", LIMITS) as opened:
        yield opened


async def run(sandbox: Sandbox, how: str) -> CheckRun:
    async with sandbox.candidate() as workspace:
        await workspace.write("test_a.py", FORGER.replace("HOW", how or "pass").encode())
        check = Check("tests", "python3 -m unittest test_a", "unittest")
        return await Runner(sandbox).run(workspace, check, timeout=30.0)


@pytest.mark.parametrize("how", HOW)
async def test_a_report_in_the_supervisors_name_is_no_pass(sandbox: Sandbox, how: str) -> None:
    ran = await run(sandbox, HOW[how])
    assert Verdict.PASSED not in ran.verdicts.values(), ran.output
    if how == "nobody dies":
        assert (ran.ending, list(ran.verdicts.values())) == ("finished", [Verdict.FAILED]), ran.output
    else:
        assert (ran.ending, ran.verdicts) == ("crashed", {}) or Verdict.FAILED in ran.verdicts.values(), ran.output
