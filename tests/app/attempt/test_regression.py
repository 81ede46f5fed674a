"""A push that breaks a green branch: the last good commit reaches the engine, and what broke it is shown to people."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.case import Case, without_a_run
from agent.contract.blobs import Blobs
from agent.contract.events import CulpritFound, Emit
from agent.contract.last_good import ChangedFile, Culprit, LastGood
from agent.contract.memory import Memory
from agent.contract.outcome import NoRepair, Outcome
from agent.contract.proposal import FileChange, Span
from agent.contract.question import Reply
from agent.engine import Engine
from agent.report import culprits
from app.attempt.story import heal
from tests.app.plant import NAME, TEST, Plant
from tests.app.requests import taken

WORKFLOW = """\
name: CI
on: [push]
jobs:
  tests:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - run: python -m unittest
"""
RIGHT, WRONG = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return a - b\n"


async def test_the_last_good_commit_reaches_the_engine_and_what_broke_it_is_shown(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {".github/workflows/ci.yml": WORKFLOW, "calc.py": RIGHT, "test_calc.py": TEST}
    green = await plant.github.push(NAME, "main", files)
    await plant.github.settled()
    red = await plant.github.push(NAME, "main", {"calc.py": WRONG, "notes.txt": "A note.\n"})
    await plant.github.settled()
    cases: list[Case] = []

    async def tracing(
        _: Engine, case: Case, *, blobs: Blobs, emit: Emit, reply: Reply | None, memory: Memory | None
    ) -> NoRepair:
        cases.append(case)
        reversal = (FileChange("calc.py", WRONG, RIGHT),)
        found = Culprit(case.good[0].name, reversal, (Span("calc.py", 2, 2, 1.0, "changed"),), lines=2, of=3)
        await emit(culprits.event(found))
        return replace(without_a_run(Outcome.GAVE_UP, "Nothing was tried.", "Look at the change."), culprit=found)

    monkeypatch.setattr(Engine, "heal", tracing)
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=red))
    await heal(attempt_id, plant.deps)

    (case,) = cases
    name = f"the last commit that passed CI ({green[:10]})"
    patch = "@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a + b\n+    return a - b"
    files_changed = (ChangedFile("calc.py", patch=patch), ChangedFile("notes.txt"))
    assert case.good == (LastGood(name, files_changed, passed_in_ci=True),)
    assert case.notes == ()
    (shown,) = plant.github.check_runs(NAME)
    summary = shown.output["summary"].replace("\u200b", "")
    assert f"### What broke it\n\n2 of the 3 lines changed since {name}: `calc.py:2`." in summary
    assert "-    return a + b\n+    return a - b" in summary
    (traced,) = [stored.event for stored in await plant.store.timeline(attempt_id) if isinstance(stored.event, CulpritFound)]
    assert traced.text == f"What broke it: 2 of the 3 lines changed since {name}: `calc.py:2`"
    assert (traced.places, traced.lines, traced.of) == (["calc.py:2"], 2, 3)
