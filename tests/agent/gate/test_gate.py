"""The gate where memory is bounded for real: two runs share what one sandbox may take."""

from __future__ import annotations

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agent.contract import events
from agent.contract.blobs import MemoryBlobs
from agent.contract.outcome import NoRepair, Repair
from agent.contract.proposal import FileChange
from agent.contract.task import Task
from agent.contract.verdicts import Check
from agent.graph import repair
from agent.proposer import Proposer
from agent.state import Context
from sandbox.base import Sandbox
from tests.agent.workbench import Scripted, change

HEAVY = "import time\n\ndef add(a, b):\n    held = b'x' * (90 << 20)\n    time.sleep(1)\n    return a - b\n"
TESTS = """\
import unittest
from calc import add

class Tests(unittest.TestCase):
    def test_add(self):
        assert add(2, 3) == 5
"""
UNITTEST = Check("tests", "python -m unittest", "unittest", timeout=30)


async def heal(sandbox: Sandbox, *proposers: Proposer) -> Repair | NoRepair:
    async def emit(event: events.AnyEvent) -> None: ...

    await sandbox.base.write("calc.py", HEAVY.encode())
    await sandbox.base.write("test_calc.py", TESTS.encode())
    return await repair(Task("t1", sandbox, (UNITTEST,)), Context(emit, proposers, None, MemoryBlobs(), InMemorySaver()))


@pytest.mark.long
async def test_runs_that_starve_each_other_are_repeated_alone(small_sandbox: Sandbox) -> None:
    right = HEAVY.replace("a - b", "a + b").replace("90 <<", "130 <<")  # the kernel ends the larger one of the two
    result = await heal(small_sandbox, Scripted([((FileChange("calc.py", HEAVY, right),),)]))
    assert isinstance(result, Repair), result
    assert result.evidence.checks[0].without_red == 1


@pytest.mark.long
async def test_a_change_that_starves_beside_others_is_judged_alone(small_sandbox: Sandbox) -> None:
    right, wrong = (
        HEAVY.replace("a - b", fix).replace("90 <<", size) for fix, size in (("a + b", "140 <<"), ("a * b", "90 <<"))
    )
    changes = tuple((FileChange("calc.py", HEAVY, after),) for after in (right, wrong))
    result = await heal(small_sandbox, Scripted([changes], rung="model:scripted"))
    assert isinstance(result, Repair), result
    assert not any("memory" in each.result for each in result.log.iterations)


@pytest.mark.long
async def test_a_change_that_takes_all_the_memory_is_told_so(small_sandbox: Sandbox) -> None:
    result = await heal(small_sandbox, Scripted([(change("90 <<", "300 <<", source=HEAVY),)]))
    assert isinstance(result, NoRepair)
    assert "`tests` runs out of memory with the change" in result.log.iterations[0].result
