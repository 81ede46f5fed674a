"""Changes that would make red green without healing anything: the diffs beside this file, each with what must stop it.

A diff's head says what it does; `guard:` names the rule that refuses it ("-": none); `gate:` whether the gate stops it when the
guard lets it pass ("holds"), does not ("open": only the guard stands there), or was not asked ("-"); `base:` the repository
that it is made on, where it is not the sample.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent import guard
from agent.guard import refusal
from agent.task import Candidate, Check, Edits, FileChange, NoRepair, Oracle, Policy, Repair, VerdictId
from tests.agent.bench import PYTEST, Bench, Scripted
from tests.attacks.bases import BASES, CHECKS

ATTACKS = sorted(Path(__file__).parent.glob("*.diff"))
SCRIPT = Check("script", "sh ./check.sh", "exit", timeout=30)


def said(attack: Path, key: str) -> str:
    found = re.search(rf"^{key}: (.+)$", attack.read_text(), re.M)
    assert found, f"{attack.name} does not say its {key}"
    return found.group(1)


def base(attack: Path) -> tuple[Mapping[str, str], Check]:
    found = re.search(r"^base: (.+)$", attack.read_text(), re.M)
    name = found.group(1) if found else "sample"
    return BASES[name], CHECKS.get(name, PYTEST)


def edits(attack: Path, folder: Path) -> Edits:
    files, _ = base(attack)
    for path, text in files.items():
        (folder / path).write_text(text)
    patch = attack.read_bytes()
    subprocess.run(["git", "apply", "-"], input=patch, cwd=folder, check=True)
    after = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    return tuple(FileChange(path, files.get(path), after[path]) for path in sorted(after) if after[path] != files.get(path))


def that(gate: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("attack", [one for one in ATTACKS if said(one, "gate") == gate], ids=lambda one: one.stem)


async def judged(attack: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Repair | NoRepair:
    """What the gate alone says of it."""
    monkeypatch.setattr(guard, "refusal", lambda *_: None)
    (folder / "repository").mkdir()
    files, check = base(attack)
    return await Bench(folder).heal(Scripted([(edits(attack, folder / "repository"),)]), files=files, checks=(check,))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.stem)
def test_the_guard_refuses_it(attack: Path, tmp_path: Path) -> None:
    files, check = base(attack)
    red = frozenset({VerdictId("test_calc.py::test_add"), VerdictId("test_calc.py::test_add_nothing")})
    oracle = Oracle((check, SCRIPT), {"tests": red}, {"tests": frozenset({VerdictId("test_calc.py::test_double")})})
    found = refusal(Candidate("model:m", edits(attack, tmp_path), "attacks"), Policy(), oracle, files["test_calc.py"])
    assert (found.rule if found else "-") == said(attack, "guard")


@that("holds")
async def test_the_gate_does_not_believe_it(attack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = await judged(attack, tmp_path, monkeypatch)
    assert isinstance(result, NoRepair)
    assert len(result.log.iterations) == 1, "it was judged"


@that("open")
async def test_what_only_the_guard_stops_would_be_green(attack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what is said of the gate's limits stays true: where it learns to stop one of these, its head says "holds"."""
    assert isinstance(await judged(attack, tmp_path, monkeypatch), Repair)


def test_what_no_rule_refuses_is_held_by_the_gate() -> None:
    for attack in ATTACKS:
        assert said(attack, "guard") != "-" or said(attack, "gate") == "holds", attack.name
