"""What extensions add: their place on the ladder, and that their failures stay their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent import extensions
from agent.contract.events import Degraded
from agent.contract.outcome import Repair
from agent.contract.proposal import rung_kind
from agent.contract.task import Policy
from agent.extensions import Extensions
from agent.models.router import Models
from agent.models.values import ModelSettings
from agent.proposers.ladder import built_in_ladder
from tests.agent.workbench import RIGHT, Bench, Scripted
from tests.standins import extension

BROKEN = """
from agent.state import Opinion

class make:
    rung = "mine"
    before = "patterns"
    def can_help(self, situation):
        return None
    async def propose(self, situation):
        raise KeyError("out of ideas")

async def step(state, work):
    raise ZeroDivisionError("no opinion")

def opinion():
    return Opinion("taste", step)
"""


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Extensions:
    """A rung and an opinion that fail whenever they are asked, found by their entry points."""
    points = "[selfheal.rungs]\nmine = mine_extension:make\n[selfheal.nodes]\ntaste = mine_extension:opinion\n"
    extension.install(tmp_path / "site", BROKEN, points)
    monkeypatch.syspath_prepend(tmp_path / "site")
    return extensions.load()


def test_rungs_from_outside_stand_where_they_say(loaded: Extensions) -> None:
    own = (Scripted([], rung="tools"), Scripted([], rung="patterns"), Scripted([], rung="model:small"))
    assert [proposer.rung for proposer in loaded.ladder(own)] == ["tools", "mine", "patterns", "model:small"]
    assert loaded.allowed(Policy()).rungs == ("tools", "history", "patterns", "model", "mine")


def test_a_rung_that_no_default_policy_lists_keeps_its_place() -> None:
    own = (Scripted([], rung="newest:variant"), Scripted([], rung="patterns"))
    assert Extensions().ladder(own) == own


def test_the_default_policy_allows_every_built_in_rung() -> None:
    models = Models(ModelSettings("ollama/any"))
    assert {rung_kind(proposer.rung) for proposer in built_in_ladder(models)} <= set(Policy().rungs)


@pytest.mark.long
async def test_an_extension_that_fails_loses_its_say_and_not_the_attempt(tmp_path: Path, loaded: Extensions) -> None:
    bench = Bench(tmp_path)
    result = await bench.heal(
        *loaded.ladder((Scripted([(RIGHT,)]),)), policy=loaded.allowed(Policy()), opinions=loaded.opinions
    )
    assert isinstance(result, Repair), result
    assert any("out of ideas" in rung.note for rung in result.log.rungs if rung.rung == "mine")
    assert any("`taste` failed with ZeroDivisionError" in note for note in result.log.notes)
    assert any("taste" in doubt for doubt in result.doubts)
    assert any(event.step == "taste" for event in bench.of(Degraded))


def test_extensions_written_for_version_0_1_still_find_what_they_import() -> None:
    program = """if True:
        from agent.extensions import load
        load()
        from agent.edits import EditProblem, read_text
        from agent.events import Opined
        from agent.model import ModelError
        from agent.proposal import Candidate, FileChange
        from agent.proposers.base import Proposal, Situation
        from agent.state import Objection, Opinion, State, Work, pack
        from agent.task import Policy
        from agent import events
        import agent.contract.events
        assert events is agent.contract.events
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
