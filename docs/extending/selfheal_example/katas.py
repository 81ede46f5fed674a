"""A benchmark: two functions to write. Run it with `selfheal bench run katas --model NAME`."""

from __future__ import annotations

from pathlib import Path

from agent.solving.draft import without_model
from agent.solving.specification import specify
from agent.solving.tasks import OracleKind, SolveBenchmark, SolveTask

KATAS = {
    "double": ("double(number: int) -> int", "Return twice the number.", "assert double(4) == 8"),
    "initials": ("initials(name: str) -> str", "The first letters of the words.", "assert initials('Ada Lovelace') == 'AL'"),
}


def load(data: Path | None, oracle: OracleKind) -> SolveBenchmark:
    """The entry point in `selfheal.benchmarks`. `data` is what the user gave with `--data`."""
    return SolveBenchmark("katas", dict.fromkeys(KATAS, "katas"), {"oracle": oracle}, _task, oracle)


def _task(name: str) -> SolveTask:
    signature, words, check = KATAS[name]
    spec = specify(words, signature=signature)
    reference = f"from solution import {name}\n\n\ndef test_{name}():\n    {check}\n"
    return SolveTask(name, spec, without_model(spec), reference, reference)
