"""Decides from runs which verdicts must turn to passed, which must stay passed, and how a candidate changed them. Pure.

An id must turn if it failed in every base run, and must stay if it passed in every one that ran it (long checks run as a whole
only once). All other ids are treated as flaky and decide nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent.contract.outcome import CheckEvidence
from agent.contract.proposal import Edits
from agent.contract.verdicts import EXIT, Check, CheckRun, Failure, Oracle, Verdict, VerdictId

BRIEF = 5.0  # seconds; runs that took no longer can be parallel, and are repeated as a whole
MARKS_LIMIT = 300  # tampering marks of a run
_RANK = (Verdict.SKIPPED, Verdict.PASSED, Verdict.FAILED, Verdict.ERROR)  # if two runs differ, the later one here counts
_DIGEST = re.compile(r" \([0-9a-f]{16}\)$")
Round = tuple[CheckRun, ...]  # one run of every check, in the order of the checks


@dataclass(frozen=True, slots=True)
class Verification:
    """The gate's verdict on one candidate. `reason` is a clause for people and for lessons."""

    passed: bool
    reason: str
    still_red: tuple[VerdictId, ...] = ()
    newly_red: tuple[VerdictId, ...] = ()
    evidence: tuple[CheckEvidence, ...] = ()
    flaky: tuple[VerdictId, ...] = ()  # failed once with the change, passed when run again
    unsteady: tuple[VerdictId, ...] = ()  # failed with the change, and in one of two runs without it
    starved: bool = False  # it ran out of memory, perhaps because of parallel runs
    unmoved: bool = False  # every target still fails with the same message as without the change
    judge: Literal["gate", "guard", "opinion", "person"] = "gate"
    instead: str = ""  # what the guard allows instead, as a sentence


def merge(runs: Sequence[CheckRun]) -> CheckRun:
    """Merge runs of the same check under different conditions. An id that failed in any of them counts as failed."""
    if len(runs) == 1:
        return runs[0]
    shown = next((run for run in runs if run.ending != "finished"), None) or next((run for run in runs if run.red), runs[0])
    verdicts: dict[VerdictId, Verdict] = {}
    for run in runs:
        for id_, verdict in run.verdicts.items():
            verdicts[id_] = max(verdicts.get(id_, verdict), verdict, key=_RANK.index)
    first = {failure.id: failure for run in reversed(runs) for failure in run.failures}
    return replace(
        shown,
        verdicts=verdicts,
        failures=tuple(first.values()),
        seconds=sum(run.seconds for run in runs),
        durations={id_: seconds for run in runs for id_, seconds in run.durations.items()},
        exit_code=next((run.exit_code for run in runs if run.exit_code != 0), 0),
        marks=frozenset().union(*(run.marks for run in runs)),
        prepared=frozenset().union(*(run.prepared for run in runs)),
        told_all=all(run.told_all for run in runs),
    )


def oracle_of(checks: tuple[Check, ...], rounds: Sequence[Round]) -> Oracle:
    """What the base rounds agree on: for each check, the ids that failed in every round, and those that always passed.

    If at least two runs of a check finished, the others do not count: they say nothing of the tests that they did not reach.
    """
    told = {check.name: _telling(runs) for check, runs in zip(checks, zip(*rounds, strict=True), strict=True)}
    turn = {name: frozenset.intersection(*(run.red for run in runs)) for name, runs in told.items()}
    stay = {name: frozenset.intersection(*(run.green for run in runs)) for name, runs in told.items()}
    return Oracle(checks, turn, stay)


def _telling(runs: tuple[CheckRun, ...]) -> tuple[CheckRun, ...]:
    finished = tuple(run for run in runs if run.ending == "finished")
    return finished if len(finished) > 1 else runs


def base_of(rounds: Sequence[Round]) -> Round:
    """The first round that counts, with the effects of the steps before its checks in any, because the rounds may differ."""
    return tuple(
        replace(_telling(runs)[0], prepared=frozenset().union(*(run.prepared for run in runs)))
        for runs in zip(*rounds, strict=True)
    )


def flaky_ids(rounds: Sequence[Round]) -> dict[VerdictId, int]:
    """Ids that failed in some rounds but not in all, with the number of rounds in which they failed.

    A run that did not finish says nothing of a test that it did not reach.
    """
    found: Counter[VerdictId] = Counter()
    for runs in zip(*rounds, strict=True):
        for id_ in frozenset().union(*(run.red for run in runs)):
            reached = [run for run in runs if run.ending == "finished" or id_ in run.verdicts]
            red = sum(id_ in run.red for run in reached)
            if red < len(reached):
                found[id_] += red
    return dict(found)


def failed_in_long(check: Check, run: CheckRun) -> frozenset[VerdictId] | None:
    """What has to run again to confirm the failures of a long run; None if that is everything."""
    is_whole = not check.runs_tests or check.needs_company or EXIT in run.red or run.ending != "finished"
    return None if is_whole or not run.red or run.seconds <= BRIEF else run.red


def differ(one: Round, other: Round) -> bool:
    return any(a.red != b.red or a.green != b.green for a, b in zip(one, other, strict=True))


def turned(check: Check, base: CheckRun, run: CheckRun, target: Iterable[VerdictId]) -> tuple[VerdictId, ...]:
    """The ids of the target that pass now.

    A finding counts as fixed when it is not reported again. A file that could not be collected counts as fixed when it is no
    longer reported, at least one of its tests passes, and none fails.
    """
    return tuple(sorted(id_ for id_ in target if _is_turned(check, base, run, id_)))


def _is_turned(check: Check, base: CheckRun, run: CheckRun, id_: VerdictId) -> bool:
    if run.ending != "finished":
        return False
    if id_ in run.verdicts:
        return run.verdicts[id_] is Verdict.PASSED
    if id_ == EXIT and base.verdicts.get(id_) is Verdict.FAILED:
        return run.exit_code == 0
    if check.reader == "findings":
        return True
    if base.verdicts.get(id_) is not Verdict.ERROR:
        return False
    hidden = [new for new in run.verdicts if new not in base.verdicts and _was_hidden_by(check, id_, new)]
    return any(run.verdicts[new] is Verdict.PASSED for new in hidden) and not any(run.verdicts[new].red for new in hidden)


def _was_hidden_by(check: Check, id_: VerdictId, new: VerdictId) -> bool:
    is_test_file = check.reader == "pytest" and id_.endswith(".py") and not id_.endswith("conftest.py")
    is_test_file = is_test_file or (check.reader == "javascript" and "::" not in id_ and id_ != EXIT)
    return new.startswith(f"{id_}::") if is_test_file else True


def unexplained(run: CheckRun) -> bool:
    """The command fails although none of its verdicts does, so its step in CI would still fail."""
    return run.exit_code != 0 and not run.red - {EXIT}


def broken(oracle: Oracle, check: Check, base: CheckRun, run: CheckRun) -> tuple[VerdictId, ...]:
    """What the candidate broke: ids that must stay passed and did not, ids that no longer run, and new failing ids."""
    must_turn, must_stay = oracle.must_turn[check.name], oracle.must_stay[check.name]
    spoilt = {id_ for id_ in must_stay if run.verdicts.get(id_) is not Verdict.PASSED}
    new = {id_ for id_ in run.red if id_ not in base.verdicts and id_ not in must_turn}
    gone = {id_ for id_, verdict in base.verdicts.items() if verdict is Verdict.SKIPPED and id_ not in run.verdicts}
    return tuple(sorted(spoilt | new | gone))


def possibly_flaky(
    oracle: Oracle, runs: Mapping[str, CheckRun], spoilt: Iterable[VerdictId]
) -> dict[str, frozenset[VerdictId]]:
    """The broken ids by check, if all are tests that passed at the base and failed now; otherwise none."""
    red = {
        check.name: oracle.must_stay[check.name] & (runs[check.name].red - {EXIT}) if check.runs_tests else frozenset()
        for check in oracle.checks
    }
    return red if set(spoilt) == frozenset().union(*red.values()) else {}


def unmoved(oracle: Oracle, base: Mapping[str, CheckRun], runs: Mapping[str, CheckRun]) -> bool:
    """Whether every target fails with the same message as without the change."""
    target = {id_ for name in runs for id_ in oracle.must_turn[name]}
    before = {failure.id: failure.message for failure in failures(base.values(), target)}
    now = {failure.id: failure.message for failure in failures(runs.values(), target)}
    is_all_red = all(oracle.must_turn[name] <= run.red for name, run in runs.items())
    return is_all_red and any(now.values()) and now == before


def tampering(base: CheckRun, run: CheckRun, edits: Edits) -> tuple[str, ...]:
    """How files that the change touches interfered with the test run, if they did not do so at the base.

    A mark without a file also counts if the base's list of marks is complete. Marks of untouched files do not count, because
    more of their code may run now. A full list may hide new marks.
    """
    paths = {edit.path for edit in edits} | ({""} if base.told_all else set())
    found = sorted(mark for mark in run.marks - base.marks if mark.partition(":")[0] in paths)
    found += [f"a step before the tests {_DIGEST.sub('', said)}" for said in sorted(_prepared(base, run))]
    if not found and len(run.marks) >= MARKS_LIMIT:
        return (f"in more than {MARKS_LIMIT - 1} ways, so new ones cannot be recognized",)
    return tuple(found)


def _prepared(base: CheckRun, run: CheckRun) -> Iterator[str]:
    """The effects on decisive files that only this run's steps had. Files that differed between base runs may differ."""
    known = Counter(_DIGEST.sub("", said) for said in base.prepared)
    return (said for said in run.prepared - base.prepared if known[_DIGEST.sub("", said)] < 2)


def failures(runs: Iterable[CheckRun], ids: Iterable[VerdictId]) -> tuple[Failure, ...]:
    """The failures of these ids, in the order of the runs."""
    wanted = set(ids)
    return tuple(failure for run in runs for failure in run.failures if failure.id in wanted)
