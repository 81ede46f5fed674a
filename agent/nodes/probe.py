"""Nothing was red every time: does it come and go, on what does it depend, and is it to be repaired?

What is red every time under the run's own clock or seed is the failure of CI, reproduced: from here on its check has that
condition. Whatever else comes and goes is told as flaky; where a person asked for it, the check becomes a series of runs, in
which a repair must be green in every one.
"""

from __future__ import annotations

from dataclasses import replace

from agent.checks.oracle import Round, base_of
from agent.contract.outcome import Flakiness
from agent.contract.verdicts import Check, CheckRun, Conditions, Oracle
from agent.nodes.reproduce import kept, tell, why_not_red
from agent.report import endings
from agent.reproduce import flakiness
from agent.reproduce.probing import Prober
from agent.state import State, Work, pack
from sandbox.base import LimitExceeded

SHARE = 0.1  # of what the attempt has left: what one series of runs may take
TRIES = 2  # series in which what is to be repaired must come again


async def probe(state: State, work: Work) -> State:
    """Raises `SandboxError` when the sandbox is lost."""
    rounds = await work.context.recall(tuple[Round, ...], state["rounds_ref"])
    prober = Prober(work, rounds)
    seen = await prober.hunt()
    found = seen.flakiness
    if found is None:
        return {"ending": pack(why_not_red(rounds, seen.tried))}
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
            "ending": pack(endings.flaky(found, f"It did not come again in {len(series)} runs, so no repair could be proven."))
        }
    told = f"Not red every time: flaky {found.red}/{found.runs}, suspected cause: {found.cause}. {'; '.join(found.evidence)}"
    red = sorted(id_ for ids in oracle.must_turn.values() for id_ in ids)
    await tell(work, f"{endings.named(red)}: red {_under(series)}", oracle, sum(run.seconds for run in base))
    return {
        **await kept(work, oracle, base),
        "guidance": [told],
        "notes": [f"{told}. It was judged {_under(series)}."],
    }


def _under(series: tuple[Conditions, ...]) -> str:
    if len(series) == 1:
        return flakiness.in_words(series[0])
    return f"in at least one of {len(series)} runs: " + "; ".join(dict.fromkeys(map(flakiness.in_words, series)))


async def _red(work: Work, found: Flakiness, plain: Round, series: tuple[Conditions, ...]) -> tuple[Oracle, Round]:
    """The oracle whose checks with flaky tests run under these conditions, and what they say at the base."""
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
