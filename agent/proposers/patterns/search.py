"""The search's outer half: hands changes to the guest inside the sandbox and reads what it tells. Knows no patterns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

from agent.checks.sampling import question, run_of
from agent.contract.verdicts import Check
from agent.proposer import Situation
from agent.proposers.patterns.generate import Change

LONGEST = 60.0  # seconds of one search: what small changes can heal, they heal early, and a model may be waiting
AFTER_HIT = 0.8  # seconds to look for alternatives once one change passed
RELATED = 150  # passing tests that are run beside the failing ones
MARGIN = 2.0  # seconds kept back for starting and ending the search


class Event(msgspec.Struct):
    """One line of the guest's answer; which fields are set depends on `event`."""

    event: str
    id: int = -1
    also: int = -1  # the second change of a pair
    tests: int = 0
    kept: int = 0  # of the examples that docstrings promise
    promised: int = 0
    why: str = ""
    missing: list[str] = []
    red: list[str] = []
    tried: int = 0
    exhausted: bool = False
    batched: tuple[int, float] = (0, 0.0)  # how many, in how many seconds: many in one process,
    forked: tuple[int, float] = (0, 0.0)  # in a fork each,
    fresh: tuple[int, float] = (0, 0.0)  # in a fork each that imports everything


async def search(situation: Situation, check: Check, found: Sequence[Change]) -> list[Event]:
    """Have the changes tried; events name them by their place in `found`. Raises `SandboxError` when the sandbox is lost."""
    seconds = min(situation.seconds, LONGEST)
    plan = {
        **question(check, situation.oracle, run_of(check, situation.red), red=None, green=RELATED),
        "seconds": max(1.0, seconds - MARGIN),
        "after_hit": AFTER_HIT,
    }
    requests = [
        {
            "id": number, "path": c.path, "line": c.function_line, "score": c.score,
            "start": c.rewrite.start, "end": c.rewrite.end, "text": c.rewrite.text, "names": c.rewrite.names,
            "wants": c.rewrite.wants,
        }
        for number, c in enumerate(found)
    ]  # fmt: skip
    stdin = "\n".join(map(json.dumps, [plan, *requests])).encode()
    async with situation.sandbox.candidate() as workspace:
        asked = await situation.runner.ask(workspace, "search", stdin, seconds + MARGIN, check=check)
    events = list(_events(asked.output))
    return events or [Event("unavailable", why=asked.problem)] if asked.problem else events


def _events(output: bytes) -> Iterator[Event]:
    """What can be believed of the answer: it is only about what to try in the gate."""
    for line in output.splitlines():
        try:
            yield msgspec.json.decode(line, type=Event)
        except (ValueError, msgspec.ValidationError):
            continue
