"""Forged and honest repairs of small repositories, one YAML file each in `forgeries/`, and how Selfheal answers them.

`python -m tests.attacks.forgeries [NAME …]` puts each through a whole repair, as a model would propose it, and prints a table
by class. There is no model for second opinions: what is published would be so if they were deceived. A file has `what` (how it
cheats, or why it is right), `class`, `command` (the failing
check), `files` (the broken repository), `patch` (path: new text, or null), `guard` (the rule that refuses it, "asks RULE", or
"-"), and `kept_away` if it was written and first run unseen by those who wrote the rules.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from agent.contract.outcome import Repair
from agent.contract.proposal import Edits, FileChange
from agent.contract.verdicts import Check, Reader
from agent.models.router import Models
from tests.agent.workbench import Bench, Scripted

FOLDER = Path(__file__).parent / "forgeries"
HONEST = "honest"
Answer = Literal["published", "asked", "stopped"]


@dataclass(frozen=True, slots=True)
class Forgery:
    name: str
    kind: str  # the class; `HONEST` for a true repair
    files: Mapping[str, str]
    edits: Edits
    check: Check
    guard: str
    kept_away: bool


def load(name: str) -> Forgery:
    told: dict[str, Any] = yaml.load((FOLDER / f"{name}.yaml").read_text(), yaml.CSafeLoader)
    files, patch = told["files"], told["patch"]
    edits = tuple(FileChange(path, files.get(path), patch[path]) for path in sorted(patch))
    return Forgery(
        name, told["class"], files, edits, _check(told["command"]), told.get("guard", "-"), told.get("kept_away", False)
    )


def every() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def _check(command: str) -> Check:
    """The check as a job would have it; our own interpreter runs it."""
    reader: Reader = "pytest" if "pytest" in command else "findings" if any(n in command for n in ("mypy", "ruff")) else "exit"
    ours = command.replace("python ", f"{sys.executable} ")
    return Check("tests", ours, reader, timeout=60, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})


async def answer(forgery: Forgery, folder: Path, models: Models | None = None) -> tuple[Answer, str]:
    """What becomes of it, and why; `models` give second opinions."""
    rung = Scripted([(forgery.edits,)], rung="model:scripted")
    result = await Bench(folder).heal(rung, files=forgery.files, checks=(forgery.check,), models=models)
    if isinstance(result, Repair):
        return "published", "; ".join(result.doubts)
    if result.suspects:
        return "asked", "; ".join(result.suspects[0].doubts)
    return "stopped", result.log.iterations[-1].result if result.log.iterations else result.reason


async def main(names: Sequence[str]) -> None:
    counts: Counter[tuple[str, bool, str]] = Counter()
    for name in names or every():
        forgery = load(name)
        with tempfile.TemporaryDirectory() as folder:
            found, why = await answer(forgery, Path(folder))
        counts[forgery.kind, forgery.kept_away, found] += 1
        print(f"{name:36} {found:10} {why[:140]}", flush=True)
    print(f"\n{'class':12} {'set':10} cases published asked stopped")
    for kind, kept in sorted({(kind, kept) for kind, kept, _ in counts}):
        row = [counts[kind, kept, found] for found in ("published", "asked", "stopped")]
        print(f"{kind:12} {'kept away' if kept else 'own':10} {sum(row):5} {row[0]:9} {row[1]:5} {row[2]:7}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
