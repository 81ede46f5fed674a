"""What comes before a check comes before its tests also where they are run otherwise: traced, searched, played with."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agent.challenge.exercise import exercise
from agent.challenge.touched import touched
from agent.checks.runner import Runner
from agent.contract.events import AnyEvent, Degraded
from agent.contract.outcome import Repair
from agent.contract.proposal import FileChange
from agent.contract.task import Policy
from agent.contract.verdicts import Check, CheckRun, Oracle, Service, Step
from agent.proposers.patterns.proposer import PatternsProposer
from agent.reproduce.localization import localize
from sandbox.base import Sandbox
from tests.agent.workbench import PYTEST, Bench, sandbox_with

ANY = Policy(min_confidence=0)  # the few tests leave a choice
MAKE = Step("Generate", "tr a-z A-Z < words.txt > made.txt; echo EXPECTED=$(wc -l < made.txt) >> $GITHUB_ENV")
CODE = "def last(lines):\n    return lines[len(lines) - 2]\n\n\ndef count(lines):\n    return len(lines)\n"
TESTS = """\
import os
from lines import count, last

MADE = open("made.txt").read().split()

def test_last():
    assert last(MADE) == "SEA"

def test_last_of_one():
    assert last(MADE[:1]) == "TREE"

def test_count():
    assert count(MADE) == int(os.environ["EXPECTED"])
"""
FILES = {"words.txt": "tree\nhill\nsea\n", "lines.py": CODE, "test_lines.py": TESTS}


@pytest.mark.long
async def test_a_bug_is_searched_whose_tests_need_what_a_step_makes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    repair = await bench.heal(PatternsProposer(), files=FILES, checks=(replace(PYTEST, before=(MAKE,)),), policy=ANY)
    assert isinstance(repair, Repair), repair
    assert [edit.after for edit in repair.edits] == [CODE.replace("len(lines) - 2", "len(lines) - 1")]
    assert not bench.of(Degraded)


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("redis-server"), reason="needs redis-server: see deploy/setup.sh")
async def test_a_bug_is_searched_whose_tests_need_a_server(tmp_path: Path) -> None:
    tests = """\
import socket
from lines import last

def asked(*lines):
    with socket.create_connection(("localhost", 54394)) as connection:
        connection.sendall("".join(line + "\\r\\n" for line in lines).encode())
        return connection.recv(1000).decode().split()

def test_last():
    assert last(asked("ECHO sea")) == "sea"

def test_still():
    assert asked("PING") == ["+PONG"]
"""
    check = replace(PYTEST, services=(Service("redis", 54_394),))
    repair = await Bench(tmp_path).heal(
        PatternsProposer(), files={**FILES, "test_lines.py": tests}, checks=(check,), policy=ANY
    )
    assert isinstance(repair, Repair), repair


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("exit 3", "the step Generate before the tests failed"),
        ("sleep 60 & sleep 60", "the step Generate before the tests timed out"),
    ],
)
async def test_where_a_step_before_fails_nothing_is_answered(tmp_path: Path, command: str, why: str) -> None:
    events: list[AnyEvent] = []

    async def emit(event: AnyEvent) -> None:
        events.append(event)

    async with sandbox_with(tmp_path, FILES) as sandbox:
        check = replace(PYTEST, before=(MAKE,))
        oracle, run = await seen(sandbox, check)
        broken = replace(check, before=(replace(MAKE, command=command),))
        oracle = replace(oracle, checks=(broken,))
        await localize(sandbox, Runner(sandbox), oracle, (run,), emit=emit, seconds=3.0)
    assert [event.text for event in events if isinstance(event, Degraded)] == [f"Located from tracebacks only: {why}."]


@pytest.mark.long
async def test_calls_are_seen_of_tests_that_need_what_a_step_makes(tmp_path: Path) -> None:
    edits = (FileChange("lines.py", CODE, CODE.replace("len(lines) - 2", "-1")),)
    async with sandbox_with(tmp_path, FILES) as sandbox:
        oracle, run = await seen(sandbox, replace(PYTEST, before=(MAKE,)))
        played = await exercise(sandbox, Runner(sandbox), oracle, (run,), touched([edits]), [edits])
    assert "(['TREE', 'HILL', 'SEA'])" in [call.arguments for call in played.calls], played


async def seen(sandbox: Sandbox, check: Check) -> tuple[Oracle, CheckRun]:
    async with sandbox.candidate() as workspace:
        run = await Runner(sandbox).run(workspace, check)
    return Oracle((check,), {check.name: run.red}, {check.name: run.green}), run
