"""Benchmarks of specifications: each task has words, a stub, and reference tests that the agent never sees.

The first answer is judged beside the last one, so that the gain of healing shows. What the agent reports by its own tests is
compared with what the reference tests find.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agent.bench.lab import Judgement, Labs
from agent.bench.score import Entry, share
from agent.contract.events import Emit
from agent.contract.outcome import Outcome
from agent.engine import Engine
from agent.solving.code import Files
from agent.solving.draft import Draft
from agent.solving.solve import CONFIGURATION, Options, Solution, solve
from agent.solving.specification import Specification
from agent.source.archive import File

OracleKind = Literal["given", "own", "both"]
REFERENCE = "test_reference.py"
SLOW = 60.0  # seconds for the reference tests


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
        """Solve one task and judge it. Raises `NotPosed`, `SandboxError` and `ModelError`."""
        task = self.task(id_)
        spec = replace(task.spec, tests=task.given if self.oracle in ("given", "both") else "")
        if self.oracle == "given":
            spec = replace(spec, examples=())
        options = replace(options, blind_tests=options.blind_tests and self.oracle != "given")
        found = await solve(spec, engine, emit=emit, options=options, draft=task.draft)
        first, last = await _judged(task, labs, (found.first, found.files))
        return entry(task, self.groups[id_], found, first, last)


async def _judged(task: SolveTask, labs: Labs, answers: Sequence[Files]) -> list[Judgement]:
    """Each answer by the reference tests, in a sandbox of its own."""
    stub = {path: File(text.encode()) for path, text in task.draft.files.items()}
    told: dict[str, Judgement] = {}
    async with labs.open({**stub, REFERENCE: File(task.reference.encode())}, CONFIGURATION) as lab:
        found = []
        for files in answers:
            key = repr(sorted(files.items()))
            if not files:
                told[key] = Judgement(False, "there is no answer")
            if key not in told:
                (run,) = await lab.runs({path: text.encode("utf-8", "replace") for path, text in files.items()}, seconds=SLOW)
                passed = run.ending == "finished" and run.exit_code == 0 and bool(run.green) and not run.red
                why = run.failures[0].message[:200] if run.failures else run.ending
                told[key] = Judgement(passed, "the reference tests pass" if passed else f"the reference tests fail: {why}")
            found.append(told[key])
        return found


def entry(task: SolveTask, group: str, found: Solution, first: Judgement, last: Judgement) -> Entry:
    """`plausible` is what the agent reports by its own tests, `heldout_correct` what the reference tests find."""
    return Entry(
        id=task.id,
        group=group,
        outcome=(Outcome.HEALED if found.solved else Outcome.GAVE_UP).value,
        plausible=found.solved,
        heldout_correct=bool(last.heldout_correct) if found.solved else None,
        judged_by=last.how,
        seconds=found.seconds,
        candidates=len(found.iterations),
        tokens=found.usage.tokens_in + found.usage.tokens_out,
        prompt_tokens=found.usage.tokens_in,
        cost=found.usage.cost,
        iterations=len({each.number for each in found.iterations}),
        rung=found.iterations[-1].rung if found.iterations and found.solved else None,
        title=found.iterations[-1].title if found.iterations and found.solved else None,
        confidence=found.confidence,
        reason=found.reason or None,
        details={
            "base": bool(first.heldout_correct),
            "first_passed": found.first_passed,
            "correct": bool(last.heldout_correct),
            "first": dict(found.first),
            "code": dict(found.files),
            "failing": list(found.failing),
            "doubts": list(found.doubts),
            "notes": list(found.notes),
            "ended": found.reason or ("first answer" if found.first_passed else "healed"),
        },
    )


def figures(entries: Sequence[Entry]) -> dict[str, Any]:
    """The figures of the whole: `base`, first answers that the reference tests accept, beside what became of them."""
    known = [one for one in entries if one.skipped is None and one.error is None]
    base = sum(bool(one.details.get("base")) for one in known)
    validated = sum(one.plausible and bool(one.details.get("correct")) for one in known)
    healed = sum(one.plausible and bool(one.details.get("correct")) and not one.details.get("base") for one in known)
    reported = sum(one.plausible for one in known)
    return {
        "base": base,
        "first_pass": sum(bool(one.details.get("first_passed")) for one in known),
        "healed": healed,
        "unresolved": len(known) - reported,
        "self_reported": reported,
        "validated": validated,
        "reported_but_wrong": reported - validated,
        "intervals_of_solving": {
            name: {"count": each.count, "of": each.of, "low": each.low, "high": each.high}
            for name, each in {"base": share(base, len(known)), "validated": share(validated, len(known))}.items()
        },
    }
