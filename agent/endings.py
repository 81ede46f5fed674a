"""The ways to end without a repair, in the words that a person reads: what happened, and what to do now. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.oracle import Round
from agent.task import CheckRun, Outcome, VerdictId


@dataclass(frozen=True, slots=True)
class Ending:
    outcome: Outcome
    reason: str  # one sentence
    next_step: str  # one sentence


def named(ids: Sequence[str], most: int = 3) -> str:
    """A few ids for a sentence: "a, b and 4 more"."""
    shown = ", ".join(f"`{id_}`" for id_ in ids[:most])
    return f"{shown} and {len(ids) - most} more" if len(ids) > most else shown


def not_reproduced(base: Round, rounds: int) -> Ending:
    greens = sum(len(run.green) for run in base)
    return Ending(
        Outcome.NOT_REPRODUCED,
        f"Nothing failed here: {greens} verdicts of {_checks(base)} were green in {rounds} of {rounds} runs.",
        "Look for what is different in CI: services, secrets, versions, time or order; then run the failed job again.",
    )


def nothing_failed(base: Round) -> Ending:
    return Ending(
        Outcome.NOTHING_FAILED,
        f"There was nothing to heal: {_checks(base)} ran and reported no tests and no findings.",
        "Name the command that fails in `.github/selfheal.yml`, or with `--test`.",
    )


def flaky(counts: dict[VerdictId, int], rounds: int) -> Ending:
    ids = sorted(counts, key=lambda id_: (-counts[id_], id_))
    return Ending(
        Outcome.FLAKY,
        f"The failure comes and goes: {named(ids)} failed in {counts[ids[0]]} of {rounds} runs of the same code.",
        "Make the test independent of time, order and chance, or mark it as flaky; a repair could not be told from luck.",
    )


def inconclusive(run: CheckRun) -> Ending:
    """A check ended in a way that says nothing about single tests."""
    if run.ending == "timeout":
        return Ending(
            Outcome.OUT_OF_BUDGET,
            f"The check `{run.check}` did not end within {run.seconds:.0f} s, and no single test could be named as hanging.",
            "Give the check a smaller command, or allow the attempt more time.",
        )
    how = "used more memory than the sandbox has" if run.ending == "out_of_memory" else "crashed before any verdict"
    return Ending(
        Outcome.INFRASTRUCTURE,
        f"The check `{run.check}` {how}, so nothing can be said about the code.",
        "See its output in the log; allow the sandbox more, or fix what the check needs to start.",
    )


def limit_reached(problem: str) -> Ending:
    return Ending(
        Outcome.INFRASTRUCTURE,
        f"The failing checks could not be run: {problem}.",
        "Allow the sandbox more, or make the checks need less.",
    )


def out_of_budget(bound: str, tried: int) -> Ending:
    return Ending(
        Outcome.OUT_OF_BUDGET,
        f"No repair was found before {bound} ({tried} changes were judged).",
        "Read the log for what was learned; start again with a larger budget, or mend it by hand from the diagnosis.",
    )


def needs_test_change(cause: str) -> Ending:
    return Ending(
        Outcome.NEEDS_TEST_CHANGE,
        f"Every repair that was proposed edits tests or their configuration, which is not allowed here. Diagnosis: {cause}",
        "Decide whether the test is wrong; if it is, change it, or allow test edits in `.github/selfheal.yml`.",
    )


def gave_up(tried: int, why: Sequence[str]) -> Ending:
    """`why` says for each rung why it brought nothing, as clauses."""
    told = "; ".join(why) if why else "no rung is switched on"
    what = f"None of the {tried} changes that were judged passed the gate" if tried else "No change could be proposed"
    return Ending(
        Outcome.GAVE_UP,
        f"{what}: {told}.",
        "Read the diagnosis and the lessons in the log; a model (or a stronger one) may get further.",
    )


def _checks(base: Round) -> str:
    return ", ".join(f"`{run.check}`" for run in base) or "no check"
