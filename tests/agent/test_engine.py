"""The engine as bot and CLI use it: from an archive to a repair, and what stays of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from agent.case import Case
from agent.ci.job.selection import FailedJob
from agent.contract.blobs import MemoryBlobs
from agent.contract.budget import Budget
from agent.contract.events import AnyEvent, Degraded, Verified
from agent.contract.outcome import ConfirmedFailure, NoRepair, Repair
from agent.engine import Engine
from app.cli.checkout import checkout
from sandbox.base import Limits
from sandbox.install.package_index import configured
from sandbox.install.packages import PackageStore
from sandbox.process import ProcessSandboxes

CALC = "def add(a, b):\n    return a - b\n"
TESTS = """\
import unittest
from calc import add

class Tests(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)
"""


@pytest.mark.long
async def test_a_case_is_healed_repeated_from_its_checkpoints_and_forgotten(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "calc.py").write_text(CALC)
    (repository / "test_calc.py").write_text(TESTS)
    saver, blobs = InMemorySaver(), MemoryBlobs()
    thread = RunnableConfig(configurable={"thread_id": "case-1"})
    sandboxes = ProcessSandboxes(tmp_path / "open", PackageStore(tmp_path / "wheels", await configured()))
    engine = Engine(sandboxes, None, saver, Budget(seconds=120.0), Limits())
    told: list[AnyEvent] = []

    async def emit(event: AnyEvent) -> None:
        told.append(event)

    async def heal() -> Repair | NoRepair:
        case = Case("case-1", "sample", checkout.packed(repository), command="python -m unittest")
        return await engine.heal(case, blobs=blobs, emit=emit)

    first = await heal()
    assert isinstance(first, Repair), first
    assert first.edits[0].after == CALC.replace("a - b", "a + b")
    told.clear()
    assert await heal() == first
    assert not any(isinstance(event, Verified) for event in told)
    assert await saver.aget_tuple(thread) is not None
    await engine.forget("case-1")
    assert await saver.aget_tuple(thread) is None


class InImages(ProcessSandboxes):
    """Sandboxes that keep which image they were asked for."""

    asked: str = ""
    allows = True

    def with_image(self, image: str) -> InImages | None:
        self.asked = image
        return self if self.allows else None


class InOtherImages(InImages):
    """Whose operator allows no image but their own."""

    allows = False


CONTAINER = """\
on: push
jobs:
  tests:
    runs-on: ubuntu-latest
    container: ${{ matrix.image }}
    strategy: {matrix: {image: ["python:3.11-slim"]}}
    steps: [{name: Go, run: python -m unittest}]
"""


@pytest.mark.long
async def test_a_job_of_a_container_is_seen_in_its_image_where_the_sandbox_has_images(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "calc.py").write_text(CALC)
    (repository / "test_calc.py").write_text(TESTS)
    store = PackageStore(tmp_path / "wheels", await configured())
    approximated = {}
    told: list[AnyEvent] = []
    for kind in (InImages, InOtherImages, ProcessSandboxes):
        sandboxes = kind(tmp_path / kind.__name__, store)
        engine = Engine(sandboxes, None, InMemorySaver(), Budget(seconds=120.0), Limits())

        async def emit(event: AnyEvent) -> None:
            told.append(event)

        job = FailedJob("tests (python:3.11-slim)", CONTAINER, ".github/workflows/ci.yml", "Go")
        seen = await engine.reproduce(Case("case", "sample", checkout.packed(repository), (job,)), emit=emit)
        assert isinstance(seen.result, ConfirmedFailure)
        assert seen.prepared is not None
        approximated[kind] = seen.prepared.task.approximated
        if isinstance(sandboxes, InImages):
            assert sandboxes.asked == "python:3.11-slim"
    assert approximated[InImages] == ()
    for kind in (InOtherImages, ProcessSandboxes):
        assert any("the image python:3.11-slim in CI" in note for note in approximated[kind])
    assert [event.why for event in told if isinstance(event, Degraded) and "sandbox_images" in event.why]
