"""Examines a failure that does not happen every time: is it flaky, why, and should it be repaired?

A failure that happens every time under CI's own clock or seed is reproduced, and its check keeps that condition. Any other is
reported as flaky. If someone asked to repair flaky failures, the check becomes a series of runs, and a repair must pass all of
them.
"""

from __future__ import annotations

from dataclasses import replace

from agent.checks.oracle import Round, base_of
from agent.contract import words
from agent.contract.outcome import Flakiness
from agent.contract.verdicts import Check, CheckRun, Conditions, Oracle
from agent.nodes.reproduce import emit_results, kept, why_not_red
from agent.report import endings
from agent.reproduce import flakiness
from agent.reproduce.probing import Prober
from agent.state import BaselineOrEnd, State, Work, pack
from sandbox.base import LimitExceeded

SHARE = 0.1  # the most of the remaining time that one series of runs takes
TRIES = 2  # series; the failure must recur in one of them


async def probe(state: State, work: Work) -> BaselineOrEnd:
    """Raises `SandboxError` when the sandbox is lost."""
    rounds = await work.context.recall(tuple[Round, ...], state["rounds_ref"])
    prober = Prober(work, rounds)
    seen = await prober.probe()
    found = seen.flakiness
    if found is None:
        return {"ending": pack(why_not_red(work.task.checks, rounds, seen.tried, failed_in_ci=work.task.failed_in_ci))}
    if not seen.is_the_runs_own and not work.task.heals_flakiness:
        return {"ending": pack(endings.flaky(found))}
    affordable = int(SHARE * work.ledger.seconds_left() / max(0.1, prober.longest))
    series = found.under if seen.is_the_runs_own else flakiness.series(found, affordable)
    try:
        oracle, base = await _red(work, found, base_of(rounds), series)
    except LimitExceeded as error:
        return {"ending": pack(endings.limit_reached(str(error)))}
    if not oracle.is_red:
        return {
            "ending": pack(endings.flaky(found, f"It did not fail again in {len(series)} runs, so no repair could be proven."))
        }
    told = f"Flaky: failed in {found.red} of {found.runs} runs. Suspected cause: {found.cause}. {'; '.join(found.evidence)}"
    red = sorted(id_ for ids in oracle.must_turn.values() for id_ in ids)
    await emit_results(work, f"{words.named(red)} failed {_under(series)}", oracle, sum(run.seconds for run in base))
    return {
        **await kept(work, oracle, base),
        "guidance": [told],
        "notes": [f"{told}. Patches were judged against the failure {_under(series)}."],
    }


def _under(series: tuple[Conditions, ...]) -> str:
    if len(series) == 1:
        return flakiness.in_words(series[0])
    return f"in at least one of {len(series)} runs: " + "; ".join(dict.fromkeys(map(flakiness.in_words, series)))


async def _red(work: Work, found: Flakiness, plain: Round, series: tuple[Conditions, ...]) -> tuple[Oracle, Round]:
    """The oracle with its flaky checks under these conditions, and the runs at the base."""
    checks: list[Check] = []
    base: list[CheckRun] = []
    ids = frozenset(found.ids)
    for check, run in zip(work.task.checks, plain, strict=True):
        fixed = replace(check, conditions=series) if check.is_python and ids & run.verdicts.keys() else check
        for _ in range(TRIES if fixed is not check else 0):
            async with work.task.sandbox.candidate() as workspace:
                run = await work.runner.run(workspace, fixed, timeout=work.patience(check))
            if ids & run.red:
                break
        checks.append(fixed)
        base.append(run)
    turn = {run.check: ids & run.red for run in base}
    stay = {run.check: run.green - ids for run in base}
    return Oracle(tuple(checks), turn, stay), tuple(base)
