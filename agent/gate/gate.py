"""The gate: red became green, nothing else broke, and it is this change that did it. Same for every rung.

Each in fresh workspaces and fresh processes. `is_green` asks a candidate: the failing verdicts with the change and everything
with it (where the base took little time, everything at once). `prove` asks the one that was selected: the failing verdicts
again with the change, and without it, where they must be red again. What takes long is run alone, as the base was that it is
held against; what is brief may run beside something else, and a run that had too little memory there is told as `starved`: it
says nothing until it was alone.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any

from agent import words
from agent.checks.oracle import EXIT, Verification, broken, failures, meddling, perhaps_luck, turned, unexplained, unmoved
from agent.contract.outcome import CheckEvidence
from agent.contract.proposal import Edits
from agent.contract.verdicts import Check, CheckRun, Oracle, VerdictId
from agent.edits.changes import apply
from agent.report.endings import named
from agent.state import Work
from sandbox.base import InstallFailed, LimitExceeded, Packages

Runs = Mapping[str, CheckRun]  # by the check's name
_HOW = {"timeout": "does not end in time", "crashed": "crashes", "out_of_memory": "runs out of memory"}
_MANIFESTS = ("pyproject.toml", "setup.cfg", "setup.py")
BRIEF = 5.0  # seconds of the base's run, up to which two may run side by side
GREENS = 3  # times that the target of brief checks turns green in all; twice for the others
START = 2.0  # seconds that a check takes about to begin
HANG, LONGER = 5.0, 5  # a hang is one again after these seconds and this many times what a green run took


async def is_green(work: Work, oracle: Oracle, base: Runs, edits: Edits) -> Verification:
    """Does everything pass with the change? Evidence has no red without it yet. Raises `SandboxError` when it is lost."""
    if not is_brief(base):
        target = await _runs(work, oracle, edits, target_only=True)
        if isinstance(target, Verification):
            return target
        if (failed := _still_red(oracle, base, target)) is not None:
            return failed
    whole = await _runs(work, oracle, edits, target_only=False)
    judged = _judged(oracle, base, whole, edits)
    if isinstance(whole, Verification) or not any((doubtful := perhaps_luck(oracle, whole, judged.newly_red)).values()):
        return judged
    # A test that fails now and then must not condemn a change for good. Alone it is cheap to see that it is red again; only a
    # whole run shows that the tests beside it do not make it red.
    again = await _runs(work, replace(oracle, must_turn=doubtful), edits, target_only=True)
    if isinstance(again, Verification) or any(not doubtful[name] <= run.green for name, run in again.items()):
        return judged
    once_more = _judged(oracle, base, await _runs(work, oracle, edits, target_only=False), edits)
    return replace(once_more, flaky=judged.newly_red) if once_more.passed else judged


def _judged(oracle: Oracle, base: Runs, whole: Runs | Verification, edits: Edits) -> Verification:
    """What the run of everything says of the change."""
    if isinstance(whole, Verification):
        return whole
    if (failed := _still_red(oracle, base, whole)) is not None:
        return failed
    spoilt = tuple(id_ for check in oracle.checks for id_ in broken(oracle, check, base[check.name], whole[check.name]))
    exits = next((run for run in whole.values() if unexplained(run)), None)
    if exits is not None and not set(spoilt) - {EXIT}:
        return Verification(False, _still_exits(exits), newly_red=spoilt)
    if spoilt:
        noun, why = words.noun(oracle.checks), _messages(whole, spoilt)
        return Verification(False, f"it mends the failing {noun}s, but breaks {named(spoilt)}{why}", newly_red=spoilt)
    if (found := _meddles(base, whole, edits)) is not None:
        return found
    return Verification(True, "green", evidence=tuple(_evidence(oracle, c, base[c.name], whole[c.name]) for c in oracle.checks))


async def prove(work: Work, oracle: Oracle, base: Runs, edits: Edits, green: Verification) -> Verification:
    """Is it no luck, and is it this change? `green` is what `is_green` found. Raises `SandboxError` when it is lost."""
    again: list[Runs | Verification] = []
    without: Runs | Verification | None = None
    if is_brief(base):
        once = functools.partial(_runs, work, oracle, target_only=True)
        *again, without = await _side_by_side(*(once(edits) for _ in range(GREENS - 1)), once(()))
        if any(_is_starved(runs) for runs in (*again, without)):
            again, without = [], None  # they share the sandbox's memory: each gets it alone
    for _ in range(0 if again else GREENS - 1 if is_brief(base) else 1):
        again.append(await _runs(work, oracle, edits, target_only=True))
    for runs in again:
        if isinstance(runs, Verification):
            return runs
        if (failed := _still_red(oracle, base, runs)) is not None:
            return replace(failed, reason=f"it was green once, but not every time: {failed.reason}", unmoved=False)
        if (found := _meddles(base, runs, edits)) is not None:
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
        return Verification(False, f"`{odd.check}` {_HOW[odd.ending]} without the change, so nothing is proven")
    if luck:
        return Verification(False, f"{named(luck)} turned green without the change too, so that nothing is proven")
    return replace(green, reason="verified", evidence=tuple(_with_red(oracle, e, without) for e in green.evidence))


def _meddles(base: Runs, runs: Runs, edits: Edits) -> Verification | None:
    found = [mark for name, run in runs.items() for mark in meddling(base[name], run, edits)]
    return Verification(False, f"it meddles with what runs the tests: {', '.join(found[:3])}") if found else None


def is_brief(base: Runs) -> bool:
    return sum(run.seconds for run in base.values()) <= BRIEF


def proof_seconds(base: Runs) -> float:
    """What `is_green` and `prove` of one candidate take about."""
    return sum(GREENS * ending_seconds(run) + (run.seconds if run.ending == "timeout" else 0.0) for run in base.values())


def ending_seconds(run: CheckRun) -> float:
    """What a run takes about where nothing hangs."""
    return START + sum(run.durations.values()) if run.ending == "timeout" else run.seconds


async def _side_by_side(*works: Coroutine[Any, Any, Any]) -> list[Any]:
    """All to their ends; then the first error, if one failed."""
    done = await asyncio.gather(*works, return_exceptions=True)
    for ended in done:
        if isinstance(ended, BaseException):
            raise ended
    return list(done)


async def _runs(
    work: Work, oracle: Oracle, edits: Edits, *, target_only: bool, patience: float | None = None
) -> Runs | Verification:
    """Each check in a workspace of its own; a failure when the change cannot be applied, a bound is reached or time is up."""
    runs = {}
    for check in oracle.checks:
        target = oracle.must_turn[check.name]
        if target_only and not target:
            continue
        if work.ledger.seconds_left() <= 0:
            return Verification(False, "the time of the attempt was up before it could be judged")
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
            return Verification(False, f"what it depends on cannot be installed: {error.reason}")
        except LimitExceeded as error:
            return Verification(False, f"{'with' if edits else 'without'} the change {error}", starved=True)
    return runs


def needs_install(edits: Edits, packages: Packages) -> bool:
    """Does the change touch a file that names what is installed?"""
    named = {*packages.requirement_files, *packages.constraint_files}
    node = {folder.strip("/") or "." for folder in packages.node}
    roots = {project.partition("[")[0].strip("/") for project in packages.projects} | ({"."} if packages.groups else set())
    for edit in edits:
        folder, _, name = edit.path.rpartition("/")
        if edit.path in named or (name in _MANIFESTS and (folder or ".") in roots):
            return True
        if name in ("package.json", "package-lock.json", "npm-shrinkwrap.json") and (folder or ".") in node:
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
        return Verification(False, f"`{odd.check}` {_HOW[odd.ending]} with the change", tuple(red), starved=starved)
    if not red:
        return None
    noun, stay = f"failing {words.noun(oracle.checks)}", "stays" if len(red) == 1 else "stay"
    return Verification(
        False,
        f"{len(red)} of {words.counted(total, noun)} {stay} red: {named(red)}{_messages(runs, red)}",
        still_red=tuple(red),
        unmoved=unmoved(oracle, base, runs),
    )


def _still_exits(run: CheckRun) -> str:
    last = next((line.strip() for line in reversed(run.output.splitlines()) if line.strip()), "it printed nothing")
    return f"its tests pass, but the command still exits with {run.exit_code}: {last[:200]}"


def _odd(runs: Runs) -> CheckRun | None:
    return next((run for run in runs.values() if run.ending != "finished"), None)


def _is_starved(runs: Runs | Verification) -> bool:
    return isinstance(runs, Verification) or any(run.ending == "out_of_memory" for run in runs.values())


def _messages(runs: Runs, ids: tuple[VerdictId, ...] | list[VerdictId]) -> str:
    told = failures(runs.values(), ids)
    return f" ({told[0].message[:200]})" if told else ""


def _evidence(oracle: Oracle, check: Check, base: CheckRun, whole: CheckRun) -> CheckEvidence:
    return CheckEvidence(
        check=check.name,
        command=check.command,
        target=tuple(sorted(oracle.must_turn[check.name])),
        base_red=len(base.red),
        base_green=len(base.green),
        base_seconds=base.seconds,
        with_red=len(whole.red),
        with_green=len(whole.green),
        with_seconds=whole.seconds,
        without_red=0,
        without_seconds=0.0,
    )


def _with_red(oracle: Oracle, evidence: CheckEvidence, without: Runs) -> CheckEvidence:
    run = without.get(evidence.check)
    if run is None:
        return evidence
    return replace(evidence, without_red=len(oracle.must_turn[evidence.check] & run.red), without_seconds=run.seconds)
