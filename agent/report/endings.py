"""The ways to end without a repair, in the words that a person reads: what happened, and what to do now. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from agent import words
from agent.checks.oracle import Round
from agent.contract.outcome import Chance, Flakiness, Outcome
from agent.contract.proposal import Span
from agent.contract.usage import RungCost, Usage
from agent.contract.verdicts import CheckRun, VerdictId


@dataclass(frozen=True, slots=True)
class Ending:
    outcome: Outcome
    reason: str  # one sentence
    next_step: str  # one sentence
    flakiness: Flakiness | None = None


def named(ids: Sequence[str], most: int = 3) -> str:
    """A few ids for a sentence: "a, b and 4 more"."""
    shown = ", ".join(f"`{id_}`" for id_ in ids[:most])
    return f"{shown} and {len(ids) - most} more" if len(ids) > most else shown


def not_reproduced(base: Round, rounds: int, probed: int = 0) -> Ending:
    """`probed` counts further runs in other orders, with other seeds and clocks."""
    greens = words.counted(sum(len(run.green) for run in base), "result")
    more = (
        f" Nor did anything in {words.counted(probed, 'further run')} in other orders, with other seeds and clocks."
        if probed
        else ""
    )
    return Ending(
        Outcome.NOT_REPRODUCED,
        f"Nothing failed here: {greens} of {_checks(base)} came out green in {rounds} of {rounds} runs.{more}",
        "Look for what is different where it is red: services, secrets, versions, time or order.",
    )


def nothing_failed(base: Round) -> Ending:
    return Ending(
        Outcome.NOTHING_FAILED,
        f"There was nothing to heal: {_checks(base)} ran and reported no tests and no findings.",
        "Name the command that fails in `.github/selfheal.yml`, or with `--test`.",
    )


def flaky(found: Flakiness, why: str = "") -> Ending:
    """`why` is a sentence on why it is not repaired although that was asked for."""
    evidence = f" ({'; '.join(found.evidence)})" if found.evidence else ""
    return Ending(
        Outcome.FLAKY,
        f"The failure comes and goes, flaky {found.red}/{found.runs}: {named(found.ids)} failed in {found.red} of {found.runs} "
        f"runs of the same code. Suspected cause: {found.cause}{evidence}.{f' {why}' if why else ''}",
        f"{_ADVICE[found.cause]}; flakiness itself is repaired only when a person asks: `/heal flaky` on GitHub, "
        "`selfheal fix --flaky` on a checkout.",
        found,
    )


_ADVICE: Mapping[Chance, str] = MappingProxyType(
    {
        "order": "Let each test set up and take down what it needs, so that none depends on those before it",
        "time": "Give the code a clock that tests can set, instead of the day and zone in which they happen to run",
        "randomness": "Sort what has no order of its own (sets), and fix the seed of what is drawn",
        "network": "Let the tests speak to a server of their own instead of the network",
        "concurrency": "Wait for what is waited for (a lock, an event, a join) instead of for luck",
        "unknown": "Look for time, order, chance and shared state in what is named",
    }
)


def needs_network(ids: Sequence[VerdictId], sign: str, rounds: int) -> Ending:
    """CI's log speaks of the network too."""
    evidence = f"CI's log and the traceback here speak of the network ({words.code(sign, 60)}), and the sandbox has none"
    return flaky(Flakiness(tuple(ids), rounds, rounds, "network", (evidence,)))


def red_without_network(ids: Sequence[VerdictId], sign: str) -> Ending:
    return Ending(
        Outcome.NOT_REPRODUCED,
        f"What CI saw fail was not seen here: {named(ids)} failed because the sandbox has no network ({words.code(sign, 60)}), "
        "of which CI's log says nothing.",
        _ADVICE["network"] + ", or name in `.github/selfheal.yml` the tests that run without it.",
    )


def needs_the_network(ids: Sequence[VerdictId], sign: str) -> Ending:
    """Of CI's own words nothing is known."""
    return Ending(
        Outcome.NEEDS_SERVICES,
        f"{named(ids)} failed because the sandbox has no network ({words.code(sign, 60)}); what CI saw is not known.",
        _ADVICE["network"] + ", or name under `test:` in `.github/selfheal.yml` the tests that run without it.",
    )


def limited(ids: Sequence[VerdictId], what: str, sign: str) -> Ending:
    """`what` names the limit."""
    more = "Give the sandbox more (`SANDBOX_MEMORY_MB`), or name" if what == "memory" else "Let it make do with less, or name"
    return Ending(
        Outcome.INFRASTRUCTURE,
        f"{named(ids)} failed at a limit of the sandbox, its {what} ({words.code(sign, 80)}), which says nothing of the code.",
        f"{more} under `test:` in `.github/selfheal.yml` a command that stays below the limit.",
    )


def inconclusive(run: CheckRun) -> Ending:
    """A check ended in a way that says nothing about single tests."""
    if run.ending == "timeout":
        return Ending(
            Outcome.OUT_OF_BUDGET,
            f"The check `{run.check}` did not end within {words.took(run.seconds)}, and no single test could be named.",
            "Give the check a smaller command, or allow the attempt more time.",
        )
    how = "used more memory than the sandbox has" if run.ending == "out_of_memory" else "crashed before any result"
    return Ending(
        Outcome.INFRASTRUCTURE,
        f"The check `{run.check}` {how}, so nothing can be said about the code: {_last(run.output)}",
        "Allow the sandbox more, or fix what the check needs to start.",
    )


def stopped_before(run: CheckRun) -> Ending:
    """Something that the check needs before it did not come to its end: not what failed in CI."""
    last = _last("\n".join(run.output.splitlines()[:-1]))  # the last one is ours
    how = f"did not end within {words.took(run.seconds)}" if run.ending == "timeout" else "does not pass"
    if run.stopped_at.startswith("service "):
        return Ending(
            Outcome.NEEDS_SERVICES,
            f"The {run.stopped_at} did not start in the sandbox: {last}",
            "Mend how it is asked for, or name a command that does without it under `test:` in `.github/selfheal.yml`.",
        )
    return Ending(
        Outcome.NOT_REPRODUCED,
        f"The failing step cannot be reached: `{run.stopped_at}` comes before it and {how} here: {last}",
        "If it needs the network or a program, name the failing command under `test:` in `.github/selfheal.yml`.",
    )


def _last(output: str) -> str:
    """Its last line that says anything, for a sentence."""
    return next((line.strip()[:200] for line in reversed(output.splitlines()) if line.strip()), "it printed nothing")


def limit_reached(problem: str) -> Ending:
    return Ending(
        Outcome.INFRASTRUCTURE,
        f"The failing checks could not be run: {problem}.",
        "Allow the sandbox more, or make the checks need less.",
    )


def out_of_budget(bound: str, tried: int) -> Ending:
    return Ending(
        Outcome.OUT_OF_BUDGET,
        f"No repair was found before the budget ended: {bound} ({_judged(tried)}).",
        "Start from the diagnosis and from what was tried, or start again with a larger budget.",
    )


def rejected(why: str) -> Ending:
    """By a person who was asked."""
    return Ending(
        Outcome.CANCELLED,
        f"A person said no{f': {why}' if why else ''}.",
        "Start again when something has changed, or fork the attempt with a hint.",
    )


def needs_test_change(cause: str) -> Ending:
    return Ending(
        Outcome.NEEDS_TEST_CHANGE,
        f"Every repair that was proposed edits tests or their configuration, which is not allowed here. {cause}",
        "Decide whether the test is wrong; if it is, change it, or allow test edits in `.github/selfheal.yml`.",
    )


def gave_up(tried: int, rungs: Sequence[RungCost], suspects: Sequence[Span]) -> Ending:
    """`tried` counts the changes that came before the gate; `suspects` are the places to look at, best first."""
    told = [f"{words.rung(name)} {did}" for name, did in _efforts(rungs).items()] or ["no rung of the ladder is switched on"]
    why = "; ".join(told)
    gate = f" {_judged(tried).capitalize()}, and none passed." if tried else ""
    start = f"Start at {words.place(suspects[0])}, the likeliest place" if suspects else "Start from the diagnosis"
    asked = any(cost.rung.startswith("model") and cost.tried for cost in rungs)
    further = "a stronger model may get further" if asked else "with a model Selfheal may get further"
    return Ending(Outcome.GAVE_UP, f"{why[0].upper()}{why[1:]}.{gate}", f"{start}; {further}.")


def _efforts(rungs: Sequence[RungCost]) -> dict[str, str]:
    """What each rung did over all its rounds, as a clause; the last note counts."""
    did = {}
    for name in dict.fromkeys(cost.rung for cost in rungs):
        rounds = [cost for cost in rungs if cost.rung == name]
        whole = RungCost(
            name, sum(c.seconds for c in rounds), sum(c.tried for c in rounds), sum(c.passed for c in rounds), Usage()
        )
        note = next((c.note for c in reversed(rounds) if c.note), "")
        did[name] = words.effort(whole) + (f" ({note})" if note else "")
    return did


def _judged(tried: int) -> str:
    return f"{words.counted(tried, 'change')} {'was' if tried == 1 else 'were'} put to the full check"


def _checks(base: Round) -> str:
    return ", ".join(f"`{run.check}`" for run in base) or "no check"
