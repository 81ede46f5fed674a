"""Reproduces the failure before any change.

Every check runs twice at the base, in fresh workspaces, and a third time if the two runs differ. If a replay of the job's steps
found the checks, or the caller ran them, that run counts as the first. After a long first run, only the tests that failed run
again: whether the others pass every time matters only once a change seems to break one (`agent/gate/gate.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent.checks.oracle import Round, base_of, differ, failed_in_long, failures, flaky_ids, oracle_of
from agent.ci.project.commands import telling_line
from agent.contract import words
from agent.contract.events import Reproduced
from agent.contract.outcome import Flakiness, Outcome
from agent.contract.verdicts import EXIT, Check, CheckRun, Oracle, Verdict, VerdictId
from agent.gate.gate import is_brief
from agent.report import endings
from agent.report.endings import Ending
from agent.reproduce.flakiness import mentions_network, reported_in
from agent.reproduce.sandbox_limits import NETWORK, is_in_log, limits_behind
from agent.state import BaselineOrEnd, State, Work, pack
from sandbox.base import LimitExceeded

# A rerun of a check that hung has these seconds, or that part of its limit, or this many times those until it hung.
HANG, PART, LONGER = 60.0, 0.2, 5
CERTAIN = 5  # consecutive failures required if the user says that the failure is flaky


async def reproduce(state: State, work: Work) -> BaselineOrEnd:
    """Determine the oracle or the ending, or leave that to `probe`. Raises `SandboxError` when the sandbox is lost."""
    try:
        first = _replayed(work) or await base_round(work)
        again = await _red_again(work, first)
        rounds = [first] if again is not None else await _more_rounds(work, first)
    except LimitExceeded as error:
        return {"ending": pack(endings.limit_reached(str(error)))}
    ran = [*rounds, again] if again is not None else rounds
    base = base_of(ran)
    oracle = replace(oracle_of(work.task.checks, rounds), seen_once=again is not None)
    red = sorted(id_ for ids in oracle.must_turn.values() for id_ in ids)
    green = sum(len(ids) for ids in oracle.must_stay.values())
    shaky = flaky_ids(rounds)
    text = f"Flaky: {words.named(sorted(shaky))} failed in only some of {len(rounds)} runs; " if shaky else ""
    how = words.in_runs(len(rounds)) if again is None else "and what failed did so again when it ran without the rest"
    text += f"{len(red):,} failed, {green:,} passed, {how}"
    await emit_results(work, text, oracle, sum(run.seconds for runs in ran for run in runs))
    if not red:
        return await _not_red(work, rounds)
    if stopped := next((run for run in base if run.stopped_at and oracle.must_turn[run.check]), None):
        source = next(check.source for check in work.task.checks if check.name == stopped.check)
        return {"ending": pack(endings.stopped_before(stopped, source))}
    failed = [run for run in base if oracle.must_turn[run.check]]
    if all(run.exit_code in (126, 127) and set(run.verdicts) == {EXIT} for run in failed):
        # The shell did not find the program or could not run it, which says nothing about the code.
        return {"ending": pack(endings.could_not_start(failed[0]))}
    ending = for_want(work, red, base)
    if ending is not None and ending.outcome is Outcome.NEEDS_SERVICES and work.task.good:
        ending = None  # `compare` first looks whether this change needs the network, or the tests always did
    if (ending := ending or _for_want_of_network(work, red, base, len(ran))) is not None:
        return {"ending": pack(ending)}
    notes = [f"Flaky, so ignored when patches are judged: {words.named(sorted(shaky))}."] if shaky else []
    for check, run in zip(work.task.checks, first, strict=True):
        if run.ending == "timeout":
            notes.append(f"{endings.stopped(run, telling_line(check.command))} {endings.MORE_TIME}")
    return {**await kept(work, oracle, base), "notes": notes}


async def emit_results(work: Work, text: str, oracle: Oracle, seconds: float) -> None:
    """Emit the results of the base's runs."""
    red = sorted(id_ for ids in oracle.must_turn.values() for id_ in ids)
    green = sum(len(ids) for ids in oracle.must_stay.values())
    await work.context.emit(
        Reproduced(
            text=text,
            red=[str(id_) for id_ in red[:50]],
            red_count=len(red),
            green_count=green,
            seconds=seconds,
            environment=work.task.environment,
            approximated=list(work.task.approximated),
        )
    )


async def kept(work: Work, oracle: Oracle, base: Round) -> BaselineOrEnd:
    """The oracle, and the base's runs behind it, for the state."""
    return {
        "oracle_ref": await work.context.keep(oracle),
        "base_ref": await work.context.keep(base),
        "is_brief": is_brief({run.check: run for run in base}),
    }


async def base_round(work: Work, first: Round = ()) -> Round:
    """Run every check without a change. A check that hung in the `first` round is not waited for as long again."""
    limits = [
        max(min(HANG, PART * check.timeout), LONGER * (run.seconds - run.hung)) if run.hung else None
        for check, run in zip(work.task.checks, first, strict=bool(first))
    ]
    return tuple([await _once(work, at, limits[at] if limits else None) for at in range(len(work.task.checks))])


async def _more_rounds(work: Work, first: Round) -> list[Round]:
    """All rounds, if every check runs as a whole each time."""
    second = await base_round(work, first)
    if work.task.replayed and _is_green(first) and not _is_green(second):
        # The replay ran the step alone, as the earlier steps had left the workspace; what counts is a run with these steps.
        first, second = second, await base_round(work, second)
    rounds = [first, second]
    if differ(*rounds):
        rounds.append(await base_round(work, first))
    while work.task.heals_flakiness and len(rounds) < CERTAIN and oracle_of(work.task.checks, rounds).is_red:
        rounds.append(await base_round(work, first))  # even a flaky failure can happen twice in a row
    return rounds


async def _red_again(work: Work, first: Round) -> Round | None:
    """A round of only what failed in the long `first` one, if all of that fails again; None if everything has to run again."""
    brief = is_brief({run.check: run for run in first})
    if brief or _is_green(first) or work.task.heals_flakiness or any(run.ending != "finished" for run in first):
        return None
    if reported_in(work.task.reported_ids, [id_ for run in first for id_ in run.green]):
        return None  # what failed in CI and passes here may be flaky
    parts = [failed_in_long(check, run) for check, run in zip(work.task.checks, first, strict=True)]
    if not any(parts):
        return None
    again = []
    for at, (run, only) in enumerate(zip(first, parts, strict=True)):
        if not run.red:
            again.append(replace(run, seconds=0.0))  # it is not run again
            continue
        again.append(await _once(work, at, None, only))
        if not run.red <= again[-1].red or (only is None and differ((run,), (again[-1],))):
            return None  # a failure may depend on the tests before it, or on luck
    return tuple(again)


def _replayed(work: Work) -> Round | None:
    """The replay as a round, if it ran every check."""
    seen = {run.check: run for run in work.task.replayed}
    return tuple(seen[check.name] for check in work.task.checks) if seen.keys() == {c.name for c in work.task.checks} else None


def _is_green(round_: Round) -> bool:
    return not any(run.red for run in round_)


async def _once(work: Work, at: int, limit: float | None, only: frozenset[VerdictId] | None = None) -> CheckRun:
    check = work.task.checks[at]
    async with work.task.sandbox.candidate() as workspace:
        return await work.runner.run(workspace, check, only=only, timeout=min(work.patience(check), limit or check.timeout))


async def _not_red(work: Work, rounds: list[Round]) -> BaselineOrEnd:
    """Leave tests that ran to `probe` if they failed somewhere, or if someone asks for flaky failures; the rest ends here.

    The replay counts as a round.
    """
    absent = sorted({name for check in work.task.checks for name in check.absent})
    if absent and all(run.verdicts and set(run.verdicts.values()) == {Verdict.SKIPPED} for run in rounds[0]):
        return {"ending": pack(endings.all_skipped(rounds[0], absent))}
    if (seen := {run.check: run for run in work.task.replayed}) and _replayed(work) is None:
        replayed = tuple(seen.get(check.name, run) for check, run in zip(work.task.checks, rounds[0], strict=True))
        rounds = [*rounds, replayed]
    ran = any(check.is_python and run.verdicts for check, run in zip(work.task.checks, rounds[0], strict=True))
    was_red = any(run.red for run in seen.values()) or bool(flaky_ids(rounds))
    is_sought = was_red or work.task.failed_in_ci or work.task.heals_flakiness
    if ran and is_sought and (flaky_ids(rounds) or all(run.ending == "finished" for runs in rounds for run in runs)):
        return {"rounds_ref": await work.context.keep(tuple(rounds))}
    return {"ending": pack(why_not_red(work.task.checks, rounds, failed_in_ci=work.task.failed_in_ci))}


def for_want(work: Work, red: list[VerdictId], base: Round) -> Ending | None:
    """The ending if a limit of the sandbox explains every failure, or if its missing network does and CI's log is unknown."""
    task = work.task
    lacks = [lack for _, lack in limits_behind(task.checks, base, red)]
    found = [lack for lack in lacks if lack is not None]
    if len(found) < max(len(red), len(lacks)) or any(is_in_log(lack, task.hints) for lack in found):
        return None
    steps = [run.check for run in base if EXIT in run.red]
    red = [id_ for id_ in red if id_ != EXIT] + [VerdictId(step) for step in steps]
    limit = next((lack for lack in found if lack.what != NETWORK), None)
    if limit is not None:
        return endings.limited(red, limit.what, limit.sign)
    if task.reported_ids or task.hints or task.heals_flakiness or not task.sandbox.isolation.untrusted:
        return None
    return endings.needs_the_network(red, found[0].sign)


def _for_want_of_network(work: Work, red: list[VerdictId], base: Round, rounds: int) -> Ending | None:
    """The ending if every failure mentions the network, which the sandbox lacks. It depends on whether CI's log does too."""
    task = work.task
    if not task.reported_ids or task.heals_flakiness or not task.sandbox.isolation.untrusted:
        return None
    told = {failure.id: failure for failure in failures(base, red)}
    signs = [mentions_network(f"{each.message}\n{each.details}") for each in told.values()]
    if len(told) < len(red) or not all(signs):
        return None
    if not mentions_network("\n".join(task.hints)):
        return endings.red_without_network(red, signs[0])
    return endings.needs_network(red, signs[0], rounds) if reported_in(task.reported_ids, red) else None


def why_not_red(checks: Sequence[Check], rounds: Sequence[Round], probed: int = 0, *, failed_in_ci: bool) -> Ending:
    """`probed` counts the runs under other conditions."""
    if counts := flaky_ids(rounds):
        ids = sorted(counts, key=lambda id_: (-counts[id_], id_))
        return endings.flaky(Flakiness(tuple(ids), counts[ids[0]], len(rounds), "unknown"))
    for runs in rounds:
        for check, run in zip(checks, runs, strict=True):
            if run.stopped_at:
                return endings.stopped_before(run, check.source)
            if run.ending != "finished":
                red = sorted({id_ for each in rounds for other in each if other.check == run.check for id_ in other.red})
                return endings.inconclusive(run, telling_line(check.command), red)
    if not any(run.verdicts for run in rounds[0]) and all(run.exit_code in (None, 0, 5) for run in rounds[0]):
        return endings.nothing_failed(rounds[0])
    if any(run.exit_code not in (None, 0, 5) and not run.verdicts for run in rounds[0]):
        return endings.could_not_start(next(run for run in rounds[0] if run.exit_code not in (None, 0, 5) and not run.verdicts))
    return endings.not_reproduced(rounds[0], len(rounds), probed, failed_in_ci=failed_in_ci)
