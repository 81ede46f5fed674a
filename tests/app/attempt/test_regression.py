"""A push that breaks a green branch: the last good commit reaches the engine, and what broke it is shown to people."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.case import Case
from agent.contract.blobs import Blobs
from agent.contract.events import Compared, CulpritFound, Emit
from agent.contract.last_good import ChangedFile, LastGood
from agent.contract.memory import Memory
from agent.contract.outcome import NoRepair, Outcome, Repair
from agent.contract.question import Reply, Waiting
from agent.engine import Engine
from app.attempt.story import heal
from tests.app.plant import NAME, TEST, Plant, workflow
from tests.app.requests import taken

RIGHT, WRONG = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return a - b\n"


async def test_the_last_good_commit_reaches_the_engine_and_what_broke_it_is_shown(
    plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {".github/workflows/ci.yml": workflow(), "calc.py": RIGHT, "test_calc.py": TEST}
    green = await plant.github.push(NAME, "main", files)
    await plant.github.settled()
    red = await plant.github.push(NAME, "main", {"calc.py": WRONG, "more.py": "LIMIT = 3\n"})
    await plant.github.settled()
    cases: list[Case] = []
    as_it_is = Engine.heal

    async def seen(
        engine: Engine, case: Case, *, blobs: Blobs, emit: Emit, reply: Reply | None, memory: Memory | None
    ) -> Repair | NoRepair | Waiting:
        cases.append(case)
        return await as_it_is(engine, case, blobs=blobs, emit=emit, reply=reply, memory=memory)

    monkeypatch.setattr(Engine, "heal", seen)
    attempt_id = await taken(plant.store, replace(plant.request, head_sha=red))
    await heal(attempt_id, plant.deps)

    (case,) = cases
    name = f"the last commit that passed CI (`{green[:10]}`)"
    patch = "@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a + b\n+    return a - b"
    assert case.good == (LastGood(name, (ChangedFile("calc.py", patch=patch), ChangedFile("more.py")), passed_in_ci=True),)
    assert case.notes == ()
    events = [stored.event for stored in await plant.store.timeline(attempt_id)]
    assert [event.good for event in events if isinstance(event, Compared)] == [name]
    (found,) = [event for event in events if isinstance(event, CulpritFound)]
    assert (found.good, found.lines, found.of) == (name, 1, 2)
    attempt = await plant.attempt(attempt_id)
    assert attempt.outcome is Outcome.NEEDS_TEST_CHANGE, attempt.reason
    (shown,) = plant.github.check_runs(NAME)
    summary = shown.output["summary"].replace("\u200b", "")
    assert f"### What the change did\n\n1 of the 2 lines changed since {name}: `calc.py:2`." in summary
    assert "-    return a + b\n+    return a - b" in summary
