"""The gate: the target passes, nothing else breaks, and the target fails again without the change. Same for every rung.

Every run has a fresh workspace and fresh processes. `is_green` judges a candidate: it runs the target, then everything (at once
if the base's run was brief). `prove` judges the selected one: it runs the target again with the change, and without it. Long
runs run alone, as at the base; brief ones can run in parallel. A parallel run that ran out of memory is `starved` and decides
nothing until it is repeated alone.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from agent.checks.oracle import BRIEF, Verification, broken, failures, possibly_flaky, tampering, turned, unexplained, unmoved
from agent.contract import words
from agent.contract.outcome import ALL_BUT_EXIT, CheckEvidence
from agent.contract.proposal import Edits
from agent.contract.task import Policy
from agent.contract.verdicts import EXIT, Check, CheckRun, Oracle, VerdictId
from agent.contract.words import named
from agent.edits.changes import apply
from agent.report.endings import last_line
from agent.state import Work
from sandbox.base import InstallFailed, LimitExceeded, Packages

Runs = Mapping[str, CheckRun]  # by the check's name
_HOW = {"crashed": "crashes", "out_of_memory": "runs out of memory"}
_MANIFESTS = ("pyproject.toml", "setup.cfg", "setup.py")
GREENS = 3  # runs in which the target must pass if the checks are brief; otherwise two
START = 2.0  # seconds that a check takes to start, approximately
_EVALUATIONS = (": compile", ": exec")  # how marks of text that is run as code end
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
MOST_REJECTING = 20  # tests that earlier changes broke, which are run with the target
HANG, LONGER = 5.0, 5  # a run counts as hanging after these seconds, or this many times a passing run's


async def is_green(work: Work, oracle: Oracle, base: Runs, edits: Edits) -> Verification:
    """Does everything pass with the change? The evidence lacks the run without it. Raises `SandboxError`."""
    oracle = steady(oracle, work.again)
    if not is_brief(base) and (failed := await _soon_red(work, oracle, base, edits)) is not None:
        return failed
    whole = await _runs(work, oracle, edits, target_only=False)
    judged = _judged(work.task.policy, oracle, base, whole, edits)
    if isinstance(whole, Verification):
        return judged
    if judged.reason.startswith(ALL_BUT_EXIT):
        return _judged(work.task.policy, oracle, base, whole, edits, await _failing_anyway(work, oracle, whole))
    doubtful = possibly_flaky(oracle, whole, judged.newly_red)
    if any(doubtful.values()):
        # A flaky test must not reject a change. Rerunning it alone is cheap and can confirm the failure, but only a full run
        # shows that the other tests do not cause it.
        again = await _runs(work, replace(oracle, must_turn=doubtful), edits, target_only=True)
        if not isinstance(again, Verification) and all(doubtful[name] <= run.green for name, run in again.items()):
            once_more = _judged(work.task.policy, oracle, base, await _runs(work, oracle, edits, target_only=False), edits)
            return replace(once_more, flaky=judged.newly_red) if once_more.passed else judged
    if oracle.seen_once and judged.newly_red and _stay(oracle).issuperset(judged.newly_red):
        await _run_base_again(work, oracle)
        confirmed = steady(oracle, work.again)
        unsteady = tuple(id_ for id_ in judged.newly_red if id_ not in _stay(confirmed))
        judged = replace(_judged(work.task.policy, confirmed, base, whole, edits), unsteady=unsteady)
        if judged.passed:
            return judged
    for name, ids in doubtful.items():
        known = work.rejecting.get(name, frozenset())
        work.rejecting[name] = known | frozenset(sorted(ids - known)[: max(0, MOST_REJECTING - len(known))])
    return judged


def _stay(oracle: Oracle) -> frozenset[VerdictId]:
    return frozenset().union(*oracle.must_stay.values())


async def _run_base_again(work: Work, oracle: Oracle) -> None:
    """Run everything once more without a change, before one is blamed for what passed in one run only."""
    if not work.again:
        runs = await _runs(work, oracle, (), target_only=False)
        work.again.update({} if isinstance(runs, Verification) else runs)


def steady(oracle: Oracle, again: Runs) -> Oracle:
    """Without what did not pass in another run of the base. A run that was cut short, or failed otherwise, says nothing."""
    stay = dict(oracle.must_stay)
    for name, run in again.items() if oracle.seen_once else ():
        is_like_the_first = run.ending == "finished" and not run.stopped_at and oracle.must_turn[name] <= run.red
        if is_like_the_first and run.red <= oracle.must_turn[name] | stay[name]:
            stay[name] &= run.green
    return replace(oracle, must_stay=stay)


async def _soon_red(work: Work, oracle: Oracle, base: Runs, edits: Edits) -> Verification | None:
    """The verdict of a quick run, if it rejects the change: of the target, and of the tests that earlier changes broke."""
    known = {check.name: work.rejecting.get(check.name, frozenset()) & oracle.must_stay[check.name] for check in oracle.checks}
    wider = {name: ids | known[name] if ids else ids for name, ids in oracle.must_turn.items()}
    first = await _runs(work, replace(oracle, must_turn=wider), edits, target_only=True)
    if isinstance(first, Verification):
        return first
    if (failed := _still_red(oracle, base, first)) is not None:
        return failed
    red = {name: known[name] & run.red for name, run in first.items()}
    if not any(red.values()):
        return None
    # Once more, as a flaky test must not reject a change.
    doubtful = {name: red.get(name, frozenset()) for name in wider}
    again = await _runs(work, replace(oracle, must_turn=doubtful), edits, target_only=True)
    if isinstance(again, Verification):
        return again
    spoilt = tuple(sorted(id_ for name, run in again.items() for id_ in red[name] & run.red))
    return _breaking(oracle, again, spoilt) if spoilt else None


def _breaking(oracle: Oracle, runs: Runs, spoilt: tuple[VerdictId, ...]) -> Verification:
    noun, why = words.noun(oracle.checks), _messages(runs, spoilt)
    return Verification(False, f"it fixes the failing {noun}s but breaks {named(spoilt)}{why}", newly_red=spoilt)


async def _failing_anyway(work: Work, oracle: Oracle, whole: Runs) -> dict[str, str]:
    """How commands fail after their tests, by check, if they do so in the same way without the change. Raises `SandboxError`.

    There, only the tests that pass are run, as the failing ones end the command, too.
    """
    odd = [check for check in oracle.checks if unexplained(whole[check.name])]
    passing = {c.name: oracle.must_stay[c.name] - {EXIT} for c in odd if c.runs_tests and not c.needs_company}
    if len(passing) < len(odd) or not all(passing.values()):
        return {}
    if missing := passing.keys() - work.afterwards.keys():
        only = {name: passing[name] if name in missing else frozenset[VerdictId]() for name in whole}
        runs = await _runs(work, replace(oracle, must_turn=only), (), target_only=True)
        alone = {} if isinstance(runs, Verification) else runs
        for name in missing:
            run = alone.get(name)
            fails = run is not None and run.ending == "finished" and unexplained(run) and passing[name] <= run.green
            work.afterwards[name] = _end(run) if run is not None and fails else None
    if any(work.afterwards[name] != _end(whole[name]) for name in passing):
        return {}
    return {name: f"exit code {whole[name].exit_code}: {last_line(whole[name].output)}" for name in passing}


def _end(run: CheckRun) -> tuple[int | None, str]:
    """The exit code, and the last line without its numbers: a report of coverage names another share in each run."""
    return run.exit_code, _NUMBER.sub("", last_line(run.output))


def _judged(
    policy: Policy,
    oracle: Oracle,
    base: Runs,
    whole: Runs | Verification,
    edits: Edits,
    afterwards: Mapping[str, str] = MappingProxyType({}),
) -> Verification:
    """The verdict of a full run. `afterwards`: how commands fail after their tests without the change, too, by check."""
    if isinstance(whole, Verification):
        return whole
    if (failed := _still_red(oracle, base, whole)) is not None:
        return failed
    spoilt = tuple(
        id_
        for check in oracle.checks
        for id_ in broken(oracle, check, base[check.name], whole[check.name])
        if not (id_ == EXIT and check.name in afterwards)
    )
    exits = next((run for name, run in whole.items() if unexplained(run) and name not in afterwards), None)
    if exits is not None and not set(spoilt) - {EXIT}:
        why = f"{ALL_BUT_EXIT} {exits.exit_code}: {last_line(exits.output)}"
        return Verification(False, why, newly_red=spoilt)
    if spoilt:
        return _breaking(oracle, whole, spoilt)
    if (found := _tampering(policy, base, whole, edits)) is not None:
        return found
    return Verification(
        True,
        "passed",
        evidence=tuple(_evidence(oracle, c, base[c.name], whole[c.name], afterwards.get(c.name, "")) for c in oracle.checks),
    )


async def prove(work: Work, oracle: Oracle, base: Runs, edits: Edits, green: Verification) -> Verification:
    """Does it pass every time, and only with this change? `green` is what `is_green` found. Raises `SandboxError`."""
    again: list[Runs | Verification] = []
    without: Runs | Verification | None = None
    if is_brief(base):
        once = functools.partial(_runs, work, oracle, target_only=True)
        done = await asyncio.gather(*(once(edits) for _ in range(GREENS - 1)), once(()), return_exceptions=True)
        ended = [runs for runs in done if not isinstance(runs, BaseException)]
        if len(ended) < len(done):
            raise next(error for error in done if isinstance(error, BaseException))
        again, without = ended[:-1], ended[-1]
        if any(map(_is_starved, ended)):  # the parallel runs share the memory: run each alone
            again, without = [], None
    for _ in range(0 if again else GREENS - 1 if is_brief(base) else 1):
        again.append(await _runs(work, oracle, edits, target_only=True))
    for runs in again:
        if isinstance(runs, Verification):
            return runs
        if (failed := _still_red(oracle, base, runs)) is not None:
            return replace(failed, reason=f"it passed once but not every time: {failed.reason}", unmoved=False)
        if (found := _tampering(work.task.policy, base, runs, edits)) is not None:
            return found
    if without is None:
        hung = any(run.ending == "timeout" for run in base.values())
        took = max(run.seconds for runs in again if not isinstance(runs, Verification) for run in runs.values())
        patience = max(HANG, LONGER * took) if hung else None
        without = await _runs(work, oracle, (), target_only=True, patience=patience)
    if isinstance(without, Verification):
        return without
    luck = sorted(id_ for check, run in without.items() for id_ in oracle.must_turn[check] - run.red)
    if luck and (odd := _odd(without)) is not None:
        return Verification(False, f"{_unfinished(odd)} without the change, so nothing is proven")
    if luck:
        return Verification(False, f"{named(luck)} also passed without the change, so nothing is proven")
    return replace(green, reason="verified", evidence=tuple(_with_red(oracle, e, without) for e in green.evidence))


def _tampering(policy: Policy, base: Runs, runs: Runs, edits: Edits) -> Verification | None:
    found = [mark for name, run in runs.items() for mark in tampering(base[name], run, edits)]
    if policy.allow_evaluation:
        found = [mark for mark in found if not mark.endswith(_EVALUATIONS)]
    said = ", ".join(mark.removeprefix(": ") for mark in found[:3])
    return Verification(False, f"it tampers with the test run: {said}") if found else None


def is_brief(base: Runs) -> bool:
    return sum(run.seconds for run in base.values()) <= BRIEF


def proof_seconds(base: Runs) -> float:
    """Estimated seconds for `is_green` and `prove` of one candidate."""
    return sum(GREENS * ending_seconds(run) + (run.seconds if run.ending == "timeout" else 0.0) for run in base.values())


def ending_seconds(run: CheckRun) -> float:
    """Estimated seconds for a run that does not hang."""
    return START + sum(run.durations.values()) if run.ending == "timeout" else run.seconds


async def _runs(
    work: Work, oracle: Oracle, edits: Edits, *, target_only: bool, patience: float | None = None
) -> Runs | Verification:
    """Runs each check in its own workspace; a failure if the change does not apply, a limit is reached or no time is left."""
    runs = {}
    for check in oracle.checks:
        target = oracle.must_turn[check.name]
        if target_only and not target:
            continue
        if work.ledger.seconds_left() <= 0:
            return Verification(False, "the attempt's time ran out before the patch was judged")
        only = target if target_only and check.runs_tests and not check.needs_company else None
        try:
            async with work.task.sandbox.candidate() as workspace:
                if (problem := await apply(workspace, edits)) is not None:
                    return Verification(False, f"it cannot be applied: {problem.sentence}")
                if needs_install(edits, work.task.packages):
                    await workspace.install(work.task.packages)
                seconds = min(work.patience(check), patience or check.timeout)
                runs[check.name] = await work.runner.run(workspace, check, only=only, timeout=seconds)
        except InstallFailed as error:
            return Verification(False, f"its dependencies cannot be installed: {error.reason}")
        except LimitExceeded as error:
            return Verification(False, f"{'with' if edits else 'without'} the change, {error}", starved=True)
    return runs


def needs_install(edits: Edits, packages: Packages) -> bool:
    """Does the change touch a file that names dependencies?"""
    named = {*packages.requirement_files, *packages.constraint_files}
    node = {folder.strip("/") or "." for folder in packages.node}
    crates, modules = ([folder.strip("./") for folder in folders] for folders in (packages.crates, packages.go_modules))
    roots = {project.partition("[")[0].strip("/") for project in packages.projects} | ({"."} if packages.groups else set())
    for edit in edits:
        folder, _, name = edit.path.rpartition("/")
        if edit.path in named or (name in _MANIFESTS and (folder or ".") in roots):
            return True
        if name in ("package.json", "package-lock.json", "npm-shrinkwrap.json") and (folder or ".") in node:
            return True
        if folder in {"Cargo.lock": crates, "go.sum": modules}.get(name, ()):
            return True
        if name.startswith("requirements") and name.endswith((".txt", ".in")) and named:
            return True  # one of them may include another
    return False


def _still_red(oracle: Oracle, base: Runs, runs: Runs) -> Verification | None:
    red: list[VerdictId] = []
    total = 0
    for check in oracle.checks:
        if check.name not in runs:
            continue
        target = oracle.must_turn[check.name]
        total += len(target)
        red += sorted(target - set(turned(check, base[check.name], runs[check.name], target)))
    if (odd := _odd(runs)) is not None:
        starved = odd.ending == "out_of_memory"
        return Verification(False, f"{_unfinished(odd)} with the change", tuple(red), starved=starved)
    if not red:
        return None
    noun, fail = f"failing {words.noun(oracle.checks)}", "fails" if len(red) == 1 else "fail"
    return Verification(
        False,
        f"{len(red)} of {words.counted(total, noun)} still {fail}: {named(red)}{_messages(runs, red)}",
        still_red=tuple(red),
        unmoved=unmoved(oracle, base, runs),
    )


def _odd(runs: Runs) -> CheckRun | None:
    return next((run for run in runs.values() if run.ending != "finished"), None)


def _unfinished(run: CheckRun) -> str:
    """How a run ended before its end, as a clause; after a timeout, with the test that hung."""
    if run.ending != "timeout":
        return f"`{run.check}` {_HOW[run.ending]}"
    hung = next((each for each in run.failures if each.message.startswith(words.HUNG)), None)
    if hung is not None:
        return f"{named([hung.id])} {hung.message}"
    return f"`{run.check}` {words.HUNG}{words.took(run.seconds)}{'' if run.verdicts else ', before any test began,'}"


def _is_starved(runs: Runs | Verification) -> bool:
    return isinstance(runs, Verification) or any(run.ending == "out_of_memory" for run in runs.values())


def _messages(runs: Runs, ids: tuple[VerdictId, ...] | list[VerdictId]) -> str:
    told = failures(runs.values(), ids)
    return f" ({told[0].message[:200]})" if told else ""


def _evidence(oracle: Oracle, check: Check, base: CheckRun, whole: CheckRun, afterwards: str) -> CheckEvidence:
    return CheckEvidence(
        check=check.name,
        command=check.command,
        target=tuple(sorted(oracle.must_turn[check.name])),
        base_red=len(base.red),
        base_green=len(base.green),
        base_seconds=base.seconds,
        with_red=len(whole.red - ({EXIT} if afterwards else frozenset())),
        with_green=len(whole.green),
        with_seconds=whole.seconds,
        without_red=0,
        without_seconds=0.0,
        afterwards=afterwards,
    )


def _with_red(oracle: Oracle, evidence: CheckEvidence, without: Runs) -> CheckEvidence:
    run = without.get(evidence.check)
    if run is None:
        return evidence
    return replace(evidence, without_red=len(oracle.must_turn[evidence.check] & run.red), without_seconds=run.seconds)
