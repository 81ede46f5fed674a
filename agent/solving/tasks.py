"""Benchmarks of specifications: each task has words, a stub, and reference tests that the agent never sees.

The first answer is judged beside the last one, so that the gain of healing shows. What the agent reports by its own tests is
compared with what the reference tests find.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from agent.bench.comparing import by_chance, differing
from agent.bench.lab import PRINTED, Judgement, Lab, Labs, printed
from agent.bench.score import Entry, bootstrap, failed, rates_by_task, task_of
from agent.ci.project.configuration import Install
from agent.contract.events import Emit
from agent.contract.outcome import Outcome
from agent.engine import Engine
from agent.models.values import ModelError, Timeout
from agent.solving.code import Files
from agent.solving.draft import Draft
from agent.solving.run import CONFIGURATION
from agent.solving.solution import Options, Solution, Start, undesigned
from agent.solving.solve import solve
from agent.solving.specification import Specification
from agent.source.archive import File
from sandbox.base import DeadlinePassed, LimitExceeded

OracleKind = Literal["given", "own", "both"]
REFERENCE = "test_reference.py"
SLOW = 60.0  # seconds for the reference tests
JUDGING = CONFIGURATION.model_copy(update={"install": Install(requirements=("pytest", "coverage"))})
COVERAGE = b"""
import json, sys
import coverage, pytest
files = json.load(sys.stdin)
seen = coverage.Coverage(data_file=None, include=files, config_file=False)
seen.start()
pytest.main(["-q", "-p", "no:cacheprovider", "test_reference.py"])
seen.stop()
lines = [seen.analysis2(path) for path in files if path.endswith(".py")]
print()
print(json.dumps([sum(len(each[1]) - len(each[3]) for each in lines), sum(len(each[1]) for each in lines)]))
"""


@dataclass(frozen=True, slots=True)
class SolveTask:
    """One specification. `given` are the tests that the agent may see with the oracle `given` or `both`."""

    id: str
    spec: Specification  # with the examples that belong to the words
    draft: Draft
    given: str
    reference: str  # a pytest file


@dataclass(frozen=True, slots=True)
class SolveBenchmark:
    """Tasks of one kind, by id. `task` raises `agent.bench.lab.NotPosed`."""

    name: str
    groups: Mapping[str, str]  # the ids in order, each with its category
    options: Mapping[str, str]
    task: Callable[[str], SolveTask]
    oracle: OracleKind = "both"
    wanted: int | None = None

    def figures(self, entries: Sequence[Entry]) -> Mapping[str, Any]:
        return figures(entries)

    async def attempt(self, id_: str, engine: Engine, labs: Labs, options: Options, emit: Emit) -> Entry:
        """Solve one task and judge it. With a design, the task's own draft is not used.

        Raises `NotPosed`, `SandboxError` and `ModelError`.
        """
        task = replace(self.task(task_of(id_)), id=id_)
        spec = replace(task.spec, tests=task.given if self.oracle in ("given", "both") else "")
        if self.oracle == "given":
            spec = replace(spec, examples=())
        options = replace(options, spec_tests=options.spec_tests and self.oracle != "given")
        start = None if options.design else Start(task.draft)
        try:
            found = await solve(spec, engine, emit=emit, options=options, start=start)
        except ModelError as error:
            if error.is_outage or isinstance(error, Timeout):  # which says nothing about the model's answers
                raise
            found = undesigned(spec, error, Outcome.GAVE_UP)
        if found.outage:
            return failed(id_, self.groups[task_of(id_)], found.outcome, found.reason, found.usage)
        first, last = await _judged(task, labs, (found.first, found.files))
        return entry(task, self.groups[task_of(id_)], found, first, last)


async def _judged(task: SolveTask, labs: Labs, answers: Sequence[Files]) -> list[Judgement]:
    """Each answer by the reference tests, in a sandbox of its own."""
    stub = {path: File(text.encode()) for path, text in task.draft.files.items()}
    told: dict[str, Judgement] = {}
    async with labs.open({**stub, REFERENCE: File(task.reference.encode())}, JUDGING) as lab:
        found = []
        for files in answers:
            key = repr(sorted(files.items()))
            if not files:
                told[key] = Judgement(False, "there is no answer")
            if key not in told:
                (run,) = await lab.runs({path: text.encode("utf-8", "replace") for path, text in files.items()}, seconds=SLOW)
                passed = run.ending == "finished" and run.exit_code == 0 and bool(run.green) and not run.red
                why = run.failures[0].message[:200] if run.failures else run.ending
                how = "the reference tests pass" if passed else f"the reference tests fail: {why}"
                covered = {"coverage": await coverage(lab, files)} if passed else {}
                told[key] = Judgement(passed, how, {**printed([run]), **covered})
            found.append(told[key])
        return found


async def coverage(lab: Lab, files: Files) -> float | None:
    """The share of the code's lines that the reference tests run; None if it could not be measured."""
    changes = {path: text.encode("utf-8", "replace") for path, text in files.items()}
    try:  # under coverage, what passed in time may run out of it
        done = await lab.program(changes, COVERAGE, json.dumps(sorted(files)).encode(), SLOW)
    except (DeadlinePassed, LimitExceeded):
        return None
    try:
        run, of = json.loads(done.stdout.strip().rsplit(b"\n", 1)[-1])
        return round(float(run) / float(of), 4)
    except (ValueError, TypeError, ZeroDivisionError):
        return None


def entry(task: SolveTask, group: str, found: Solution, first: Judgement, last: Judgement) -> Entry:
    """`plausible` is what the agent reports by its own tests, `heldout_correct` what the reference tests find."""
    return Entry(
        id=task.id,
        group=group,
        outcome=found.outcome.value,
        plausible=found.solved,
        heldout_correct=bool(last.heldout_correct) if found.solved else None,
        judged_by=last.how,
        seconds=found.seconds,
        candidates=sum(bool(each.diff) for each in found.iterations),
        tokens=found.usage.tokens_in + found.usage.tokens_out,
        prompt_tokens=found.usage.tokens_in,
        cost=found.usage.cost,
        iterations=max((each.number for each in found.iterations), default=0),
        rung=found.iterations[-1].rung if found.iterations and found.solved else None,
        title=found.iterations[-1].title if found.iterations and found.solved else None,
        confidence=found.confidence,
        reason=found.reason or None,
        details={
            "base": bool(first.heldout_correct),
            "first_passed": found.first_passed,
            "correct": bool(last.heldout_correct),
            "first": dict(found.first),
            "first_printed": first.details.get(PRINTED, ""),
            "code": dict(found.files),
            "failing": list(found.failing),
            "doubts": list(found.doubts),
            "notes": list(found.notes),
            "lessons": list(found.lessons),
            "tests": dict(found.tests),
            "iterations": [asdict(each) for each in found.iterations],
            "ended": "first_answer" if found.solved and found.first_passed else found.outcome.value,
            **last.details,
        },
    )


def figures(entries: Sequence[Entry]) -> dict[str, Any]:
    """The figures of the whole: `base`, first answers that the reference tests accept, beside what became of them.

    The counts are runs. `tried` and all after it leave out the `error`s: tasks that could not be measured. `means` are over
    tasks, each the mean of its runs, with bootstrap intervals. `gain` counts tasks that are right more often (`gained`) or
    less often (`lost`) after healing than before, with the exact sign test.
    """
    posed = [one for one in entries if one.skipped is None]
    known = [one for one in posed if one.error is None]
    base, validated = ([(task_of(one.id), is_right(one)) for one in known] for is_right in (_base, _validated))
    gained, lost = map(len, differing(base, validated))
    return {
        **_counts(posed),
        "means": {"base": _mean(base), "validated": _mean(validated)},
        "gain": {"gained": gained, "lost": lost, "p": round(by_chance(gained, lost), 6)},
        "endings": dict(Counter(str(one.details.get("ended", one.outcome)) for one in known)),
        "categories": {
            group: _counts([one for one in posed if one.group == group]) for group in sorted({one.group for one in posed})
        },
    }


def _counts(posed: Sequence[Entry]) -> dict[str, int]:
    known = [one for one in posed if one.error is None]
    reported, validated = sum(one.plausible for one in known), sum(map(_validated, known))
    return {
        "tasks": len(posed),
        "error": len(posed) - len(known),
        "tried": len(known),
        "base": sum(map(_base, known)),
        "first_pass": sum(bool(one.details.get("first_passed")) for one in known),
        "healed": sum(_validated(one) and not _base(one) for one in known),
        "unresolved": len(known) - reported,
        "self_reported": reported,
        "validated": validated,
        "reported_but_wrong": reported - validated,
    }


def _base(one: Entry) -> bool:
    return bool(one.details.get("base"))


def _validated(one: Entry) -> bool:
    return one.plausible and bool(one.details.get("correct"))


def _mean(runs: Sequence[tuple[str, bool]]) -> dict[str, float]:
    rates = list(rates_by_task(runs).values())
    low, high = bootstrap(rates)
    return {"mean": round(sum(rates) / len(rates), 4) if rates else 0.0, "low": low, "high": high}
