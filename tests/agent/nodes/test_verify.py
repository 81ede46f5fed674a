"""A test that fails now and then does not condemn a right change; one that the change makes red does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.contract import events
from agent.contract.outcome import NoRepair, Repair
from agent.contract.proposal import Edits, FileChange
from agent.contract.verdicts import Oracle
from agent.gate import gate
from agent.state import Work
from tests.agent.workbench import CALC, RIGHT, SAMPLE, Bench, Scripted, change

NOW_AND_THEN = """\
from pathlib import Path

def test_now_and_then():
    with Path({counter!r}).open("a+") as file:
        file.write("x")
        file.flush()
        assert file.tell() not in {reds}
"""
LEFT_BEHIND = """\
import calc

def test_z_nothing_is_left_behind():
    assert not getattr(calc, "seen", [])
"""


def files(folder: Path, *reds: int) -> dict[str, str]:
    """With a test beside the sample's whose runs with these numbers are red; the base takes the first two."""
    return {**SAMPLE, "test_shaky.py": NOW_AND_THEN.format(counter=str(folder / "ran"), reds=reds)}


@pytest.mark.long
async def test_what_is_red_once_and_then_green_decides_nothing_and_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    result = await bench.heal(Scripted([(RIGHT,)]), files=files(tmp_path, 3))
    assert isinstance(result, Repair), result
    assert any("Failed once" in note and "test_now_and_then" in note for note in result.log.notes)
    assert (tmp_path / "ran").stat().st_size == 5


@pytest.mark.long
async def test_what_is_red_twice_is_broken(tmp_path: Path) -> None:
    for reds in ((3, 4), (3, 5)):
        folder = tmp_path / str(reds[1])
        folder.mkdir()
        result = await Bench(folder).heal(Scripted([(RIGHT,)]), files=files(folder, *reds))
        assert isinstance(result, NoRepair)
        assert "breaks `test_shaky.py::test_now_and_then`" in result.log.iterations[0].result


@pytest.mark.long
async def test_a_test_that_is_red_only_beside_others_is_broken_all_the_same(tmp_path: Path) -> None:
    after = "seen = []\n\n" + CALC.replace("return a - b", "seen.append(a); return a + b")
    bench = Bench(tmp_path)
    result = await bench.heal(
        Scripted([((FileChange("calc.py", CALC, after),),)]), files={**SAMPLE, "test_left.py": LEFT_BEHIND}
    )
    assert isinstance(result, NoRepair)
    assert not bench.of(events.Verified)[0].passed


async def test_what_earlier_changes_broke_is_run_before_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of a slow suite that rejected one change reject the next ones in seconds."""
    monkeypatch.setattr(gate, "BRIEF", 0.0)
    runs: list[bool] = []
    plain = gate._runs

    async def counted(work: Work, oracle: Oracle, edits: Edits, **options: Any) -> Any:
        if edits:
            runs.append(options["target_only"])
        return await plain(work, oracle, edits, **options)

    monkeypatch.setattr(gate, "_runs", counted)
    tests = (
        "from calc import add\n\ndef test_add():\n    assert add(2, 3) == 5\n\ndef test_none():\n    assert add(4, 0) == 4\n"
    )
    wrong = [change("a - b", after) for after in ("a * b - 1", "b + 2", "5")]
    bench = Bench(tmp_path)
    result = await bench.heal(Scripted([(each,) for each in wrong]), files={**SAMPLE, "test_calc.py": tests})
    assert isinstance(result, NoRepair)
    assert all("but breaks `test_calc.py::test_none`" in each.result for each in result.log.iterations)
    assert len(result.log.iterations) == 3
    assert runs.count(False) == 1, "the whole suite ran with the first change alone"
