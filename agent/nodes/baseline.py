"""Establishes the failure before any change: reproduces it, locates the fault, and recalls attempts at similar failures.

Every check runs twice at the base, in fresh workspaces, and a third time if the two runs differ. If a replay of the job's steps
found the checks, its run of them counts as the first.

`probe` handles a failure that does not happen every time: is it flaky, why, and should it be repaired? A failure that happens
every time under CI's own clock or seed is reproduced, and its check keeps that condition. Any other is reported as flaky. If
someone asked to repair flaky failures, the check becomes a series of runs, and a repair must pass all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent.checks.oracle import EXIT, Round, base_of, differ, failures, flaky_ids, oracle_of
from agent.contract import words
from agent.contract.events import Localized, Remembered, Reproduced
from agent.contract.memory import signature
from agent.contract.outcome import Flakiness
from agent.contract.verdicts import Check, CheckRun, Conditions, Oracle, VerdictId
from agent.gate.gate import is_brief
from agent.report import endings
from agent.report.endings import Ending
from agent.reproduce import flakiness
from agent.reproduce.flakiness import mentions_network, reported_in
from agent.reproduce.localization import localize as suspects_of
from agent.reproduce.probing import Prober
from agent.reproduce.sandbox_limits import NETWORK, is_in_log, limit_behind
from agent.state import Baseline, BaselineOrEnd, State, Work, fell_back, pack, red_of
from sandbox.base import DeadlinePassed, LimitExceeded

LONGEST = 30.0  # seconds for locating the fault
SHOWN = 12  # characters of an attempt's id, as everywhere else
SHARE = 0.1  # the most of the remaining time that one series of runs takes
TRIES = 2  # series; the failure must recur in one of them
CERTAIN = 5  # consecutive failures required if the user says that the failure is flaky


async def reproduce(state: State, work: Work) -> BaselineOrEnd:
    """Determine the oracle or the ending, or leave that to `probe`. Raises `SandboxError` when the sandbox is lost."""
    try:
        rounds = [_replayed(work) or await _round(work), await _round(work)]
        if differ(*rounds):
            rounds.append(await _round(work))
        while work.task.heals_flakiness and len(rounds) < CERTAIN and oracle_of(work.task.checks, rounds).is_red:
            rounds.append(await _round(work))  # even a flaky failure can happen twice in a row
    except LimitExceeded as error:
        return {"ending": pack(endings.limit_reached(str(error)))}
    base = base_of(rounds)
    oracle = oracle_of(work.task.checks, rounds)
    red = sorted(id_ for ids in oracle.must_turn.values() for id_ in ids)
    green = sum(len(ids) for ids in oracle.must_stay.values())
    shaky = flaky_ids(rounds)
    text = f"Flaky: {words.named(sorted(shaky))} failed in only some of {len(rounds)} runs; " if shaky else ""
    text += f"{len(red):,} failed, {green:,} passed, {words.in_runs(len(rounds))}"
    await tell(work, text, oracle, sum(run.seconds for runs in rounds for run in runs))
    if not red:
        return await _not_red(work, rounds)
    if stopped := next((run for run in base if run.stopped_at and oracle.must_turn[run.check]), None):
        return {"ending": pack(endings.stopped_before(stopped))}
    failed = [run for run in base if oracle.must_turn[run.check]]
    if all(run.exit_code in (126, 127) and set(run.verdicts) == {EXIT} for run in failed):
        # The shell did not find the program or could not run it, which says nothing about the code.
        return {"ending": pack(endings.could_not_start(failed[0]))}
    if (ending := _for_want(work, red, base) or _for_want_of_network(work, red, base, len(rounds))) is not None:
        return {"ending": pack(ending)}
    notes = [f"Flaky, so ignored when patches are judged: {words.named(sorted(shaky))}."] if shaky else []
    return {**await kept(work, oracle, base), "notes": notes}


async def tell(work: Work, text: str, oracle: Oracle, seconds: float) -> None:
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


async def _round(work: Work) -> Round:
    return tuple([await _once(work, at) for at in range(len(work.task.checks))])


def _replayed(work: Work) -> Round | None:
    """The replay as a round, if it ran every check."""
    seen = {run.check: run for run in work.task.replayed}
    return tuple(seen[check.name] for check in work.task.checks) if len(seen) == len(work.task.checks) else None


async def _once(work: Work, at: int) -> CheckRun:
    check = work.task.checks[at]
    async with work.task.sandbox.candidate() as workspace:
        return await work.runner.run(workspace, check, timeout=work.patience(check))


async def _not_red(work: Work, rounds: list[Round]) -> BaselineOrEnd:
    """Leave tests that ran to `probe`; everything else ends here. The replay, in which checks failed, counts as a round."""
    if (seen := {run.check: run for run in work.task.replayed}) and _replayed(work) is None:
        replayed = tuple(seen.get(check.name, run) for check, run in zip(work.task.checks, rounds[0], strict=True))
        rounds = [*rounds, replayed]
    ran = any(check.is_python and run.verdicts for check, run in zip(work.task.checks, rounds[0], strict=True))
    if ran and (flaky_ids(rounds) or all(run.ending == "finished" for runs in rounds for run in runs)):
        return {"rounds_ref": await work.context.keep(tuple(rounds))}
    return {"ending": pack(why_not_red(rounds))}


def _for_want(work: Work, red: list[VerdictId], base: Round) -> Ending | None:
    """The ending if a limit of the sandbox explains every failure, or if its missing network does and CI's log is unknown."""
    task = work.task
    lacks = []
    for check, run in zip(task.checks, base, strict=True):
        lacks += [limit_behind(failure, run, check) for failure in failures([run], red)]
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


def why_not_red(rounds: Sequence[Round], probed: int = 0) -> Ending:
    """`probed` counts the runs under other conditions."""
    if counts := flaky_ids(rounds):
        ids = sorted(counts, key=lambda id_: (-counts[id_], id_))
        return endings.flaky(Flakiness(tuple(ids), counts[ids[0]], len(rounds), "unknown"))
    for runs in rounds:
        for run in runs:
            if run.stopped_at:
                return endings.stopped_before(run)
            if run.ending != "finished":
                return endings.inconclusive(run)
    if not any(run.verdicts for run in rounds[0]) and all(run.exit_code in (None, 0, 5) for run in rounds[0]):
        return endings.nothing_failed(rounds[0])
    if any(run.exit_code not in (None, 0, 5) and not run.verdicts for run in rounds[0]):
        return endings.could_not_start(next(run for run in rounds[0] if run.exit_code not in (None, 0, 5) and not run.verdicts))
    return endings.not_reproduced(rounds[0], len(rounds), probed)


async def localize(state: State, work: Work) -> Baseline:
    """Raises `SandboxError` when the sandbox is lost."""
    context = work.context
    oracle = await context.recall(Oracle, state["oracle_ref"])
    red = await context.recall(tuple[CheckRun, ...], state["base_ref"])
    update: Baseline = {}
    try:
        suspects = await suspects_of(
            work.task.sandbox, work.runner, oracle, red, emit=context.emit, seconds=min(LONGEST, work.ledger.seconds_left() / 4)
        )
    except (LimitExceeded, DeadlinePassed) as error:
        suspects = ()
        update = await fell_back(work, "localize", f"The fault was not located: {error}.")
    shown = [f"{s.path}:{s.first_line}-{s.last_line} {s.score:.2f} {s.reason}" for s in suspects[:20]]
    text = "No suspicious location found"
    if suspects:
        text = f"{words.counted(len(suspects), 'suspicious location')}, first {words.location(suspects[0])}"
    await context.emit(Localized(text=text, suspects=shown))
    update["suspects_ref"] = await context.keep(suspects)
    return update


async def recall(state: State, work: Work) -> Baseline:
    """Does nothing if the repository has no memory. An attempt does not recall itself."""
    memory = work.context.memory
    if memory is None:
        return {}
    alike = await memory.recall(signature(await red_of(state, work.context)))
    alike = tuple(each for each in alike if each.attempt != work.task.id)
    if not alike:
        return {}
    names, lessons = [each.attempt for each in alike], [lesson for each in alike for lesson in each.lessons]
    text = f"Learned from {', '.join(f'attempt {name[:SHOWN]}' for name in names)}"
    await work.context.emit(Remembered(text=text, attempts=names, lessons=lessons))
    return {"memories_ref": await work.context.keep(alike), "notes": [f"{text}."]}


async def probe(state: State, work: Work) -> BaselineOrEnd:
    """Raises `SandboxError` when the sandbox is lost."""
    rounds = await work.context.recall(tuple[Round, ...], state["rounds_ref"])
    prober = Prober(work, rounds)
    seen = await prober.probe()
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
            "ending": pack(endings.flaky(found, f"It did not fail again in {len(series)} runs, so no repair could be proven."))
        }
    told = f"Flaky: failed in {found.red} of {found.runs} runs. Suspected cause: {found.cause}. {'; '.join(found.evidence)}"
    red = sorted(id_ for ids in oracle.must_turn.values() for id_ in ids)
    await tell(work, f"{words.named(red)} failed {_under(series)}", oracle, sum(run.seconds for run in base))
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
