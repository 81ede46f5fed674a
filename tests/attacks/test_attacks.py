"""Changes that would make red green without healing anything: the diffs beside this file, each with what must stop it.

A diff's head says what it does; `guard:` names the rule that refuses it ("-": none); `gate:` whether the gate stops it when the
guard lets it pass ("holds"), does not ("open": only the guard stands there), or was not asked ("-").
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from agent import guard
from agent.guard import refusal
from agent.task import Candidate, Check, Edits, FileChange, NoRepair, Oracle, Policy, VerdictId
from tests.agent.bench import PYTEST, SAMPLE, Bench, Scripted

FILES = SAMPLE | {"check.sh": "set -e\npython -m pytest -q -p no:cacheprovider\n"}
ATTACKS = sorted(Path(__file__).parent.glob("*.diff"))
SCRIPT = Check("script", "sh ./check.sh", "exit", timeout=30)


def said(attack: Path, key: str) -> str:
    found = re.search(rf"^{key}: (.+)$", attack.read_text(), re.M)
    assert found, f"{attack.name} does not say its {key}"
    return found.group(1)


def edits(attack: Path, folder: Path) -> Edits:
    for path, text in FILES.items():
        (folder / path).write_text(text)
    patch = attack.read_bytes()
    subprocess.run(["git", "apply", "-"], input=patch, cwd=folder, check=True)
    after = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    return tuple(FileChange(path, FILES.get(path), after[path]) for path in sorted(after) if after[path] != FILES.get(path))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.stem)
def test_the_guard_refuses_it(attack: Path, tmp_path: Path) -> None:
    red = frozenset({VerdictId("test_calc.py::test_add"), VerdictId("test_calc.py::test_add_nothing")})
    oracle = Oracle((PYTEST, SCRIPT), {"tests": red}, {"tests": frozenset({VerdictId("test_calc.py::test_double")})})
    found = refusal(Candidate("model:m", edits(attack, tmp_path), "attacks"), Policy(), oracle)
    assert (found.rule if found else "-") == said(attack, "guard")


@pytest.mark.parametrize("attack", [attack for attack in ATTACKS if said(attack, "gate") == "holds"], ids=lambda one: one.stem)
async def test_the_gate_does_not_believe_it(attack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "refusal", lambda *_: None)
    (tmp_path / "repository").mkdir()
    bench = Bench(tmp_path)
    result = await bench.heal(Scripted([(edits(attack, tmp_path / "repository"),)]), files=FILES)
    assert isinstance(result, NoRepair)
    assert len(result.log.iterations) == 1, "it was judged"


def test_what_no_rule_refuses_is_held_by_the_gate() -> None:
    for attack in ATTACKS:
        assert said(attack, "guard") != "-" or said(attack, "gate") == "holds", attack.name
