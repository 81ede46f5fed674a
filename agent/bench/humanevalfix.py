"""HumanEvalFix (Python): one broken function a line of JSON, with the tests of HumanEval.

The variant with docstrings: the module is `prompt` and `buggy_solution`, as real functions have docstrings.
Layout: https://huggingface.co/datasets/bigcode/humanevalpack (bigcode-project/octopack, MIT).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agent.bench.differential import Function
from agent.bench.functions import FunctionTask, FunctionTrial, OracleKind, function_trial
from agent.bench.lab import Labs
from agent.bench.specimen import BadInput, NotPosed
from agent.bench.splitting import NoTests, split_check

MODULE, TESTS = "solution", "test_solution"


class _Line(msgspec.Struct):
    """The fields of a line that are used."""

    task_id: str
    prompt: str
    canonical_solution: str
    buggy_solution: str
    test: str
    entry_point: str
    bug_type: str = "unknown"


@dataclass(frozen=True, slots=True)
class HumanEvalFix:
    lines: Mapping[str, _Line]
    oracle: OracleKind
    name: str = "humanevalfix"

    @property
    def groups(self) -> Mapping[str, str]:
        return {id_: line.bug_type for id_, line in self.lines.items()}

    @property
    def options(self) -> Mapping[str, str]:
        return {"oracle": self.oracle}

    def trial(self, id_: str, labs: Labs) -> AbstractAsyncContextManager[FunctionTrial]:
        return function_trial(_task(self.lines[id_]), self.oracle, labs)


def load(file: Path, oracle: OracleKind) -> HumanEvalFix:
    """Raises `BadInput`."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadInput(f"{file} cannot be read: {why}; give the JSON lines of HumanEvalFix's Python tasks") from error
    lines: dict[str, _Line] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            read = msgspec.json.decode(line, type=_Line)
        except msgspec.DecodeError as error:  # also of a missing field
            raise BadInput(f"{file}, line {number}: {error}; give one JSON object a line, as HumanEvalFix has them") from error
        if read.task_id in lines:
            raise BadInput(f"{file}, line {number}: the id {read.task_id} is there twice; leave one of the two")
        lines[read.task_id] = read
    if not lines:
        raise BadInput(f"{file} holds no task; give the JSON lines of HumanEvalFix's Python tasks")
    return HumanEvalFix(lines, oracle)


def _task(line: _Line) -> FunctionTask:
    """Raises `NotPosed`."""
    source = line.prompt + line.buggy_solution
    try:
        tests = split_check(line.test, MODULE, source, line.entry_point)
    except NoTests as error:
        raise NotPosed(f"its tests cannot be taken apart: {error}") from error
    return FunctionTask(
        id=line.task_id,
        files={f"{MODULE}.py": source},
        cases=tuple(tests.tests),
        write=lambda shown: {f"{TESTS}.py": tests.text(shown)},
        function=Function(MODULE, line.entry_point, tests=TESTS),
        reference={f"{MODULE}.py": line.prompt + line.canonical_solution},
    )
