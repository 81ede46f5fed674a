"""How long a rung is stayed on, and what it brings along to the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.contract.outcome import Repair
from tests.agent.workbench import RIGHT, TESTS, WRONG, Bench, Scripted, change


@pytest.mark.long
async def test_refused_changes_of_one_rung_do_not_shorten_the_next_one(tmp_path: Path) -> None:
    bent = [change("== 5", value, path="test_calc.py", source=TESTS) for value in ("== -1", "!= 5")]
    search, model = Scripted([tuple(bent)]), Scripted([(WRONG,), (RIGHT,)], rung="model:scripted")
    result = await Bench(tmp_path).heal(search, model)
    assert isinstance(result, Repair), result
    assert len(model.seen) == 2
