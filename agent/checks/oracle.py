"""What runs say: which verdicts must turn, which must stay, and what a candidate's runs made of them. Pure.

Only an id that was red every time must turn, and only one that was green every time must stay; the rest is unsteady and decides
nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from agent.contract.outcome import CheckEvidence
from agent.contract.proposal import Edits
from agent.contract.verdicts import Check, CheckRun, Failure, Oracle, Verdict, VerdictId

EXIT = VerdictId("exit")  # the command as a whole, where no verdict of its own says what is wrong
MARKS_LIMIT = 300  # marks of meddling that a run tells
_RANK = (Verdict.SKIPPED, Verdict.PASSED, Verdict.FAILED, Verdict.ERROR)  # what counts, of two runs
_DIGEST = re.compile(r" \([0-9a-f]{16}\)$")
Round = tuple[CheckRun, ...]  # one run of every check, in the order of the checks


@dataclass(frozen=True, slots=True)
class Verification:
    """What the gate found about one candidate. `reason` is a clause for people, and the stuff that lessons are made of."""

    passed: bool
    reason: str
    still_red: tuple[VerdictId, ...] = ()
    newly_red: tuple[VerdictId, ...] = ()
    evidence: tuple[CheckEvidence, ...] = ()
    flaky: tuple[VerdictId, ...] = ()  # what was red once with the change, and green when it was run again
    starved: bool = False  # it needed more memory than the sandbox had left beside whatever else ran there
    unmoved: bool = False  # every target stays red, as far as it is told with the message that it had without the change
    judge: Literal["gate", "guard", "opinion", "person"] = "gate"  # who found it


def together(runs: Sequence[CheckRun]) -> CheckRun:
    """One run of at least one of the same check under different conditions: red is what is red in any of them."""
    if len(runs) == 1:
        return runs[0]
    shown = next((run for run in runs if run.ending != "finished"), None) or next((run for run in runs if run.red), runs[0])
    verdicts: dict[VerdictId, Verdict] = {}
    for run in runs:
        for id_, verdict in run.verdicts.items():
            verdicts[id_] = max(verdicts.get(id_, verdict), verdict, key=_RANK.index)
    told = {failure.id: failure for run in reversed(runs) for failure in run.failures}
    return replace(
        shown,
        verdicts=verdicts,
        failures=tuple(told.values()),
        seconds=sum(run.seconds for run in runs),
        durations={id_: seconds for run in runs for id_, seconds in run.durations.items()},
        exit_code=next((run.exit_code for run in runs if run.exit_code != 0), 0),
        marks=frozenset().union(*(run.marks for run in runs)),
        prepared=frozenset().union(*(run.prepared for run in runs)),
        told_all=all(run.told_all for run in runs),
    )


def steady(check: Check, runs: Sequence[CheckRun]) -> tuple[frozenset[VerdictId], frozenset[VerdictId]]:
    """The ids of one check that were red in every run, and those that were green in every run."""
    red = frozenset.intersection(*(run.red for run in runs))
    green = frozenset.intersection(*(run.green for run in runs))
    return red, green


def oracle_of(checks: tuple[Check, ...], rounds: Sequence[Round]) -> Oracle:
    """What the rounds at the base agree on."""
    turn, stay = {}, {}
    for at, check in enumerate(checks):
        turn[check.name], stay[check.name] = steady(check, [runs[at] for runs in rounds])
    return Oracle(checks, turn, stay)


def base_of(rounds: Sequence[Round]) -> Round:
    """The first round, with what the steps before its checks did in any of them: what differs there comes and goes."""
    return tuple(
        replace(run, prepared=frozenset().union(*(runs[at].prepared for runs in rounds))) for at, run in enumerate(rounds[0])
    )


def unsteady(rounds: Sequence[Round]) -> dict[VerdictId, int]:
    """Ids that were red in some rounds only, with how often."""
    reds: Counter[VerdictId] = Counter(id_ for runs in rounds for run in runs for id_ in run.red)
    return {id_: count for id_, count in reds.items() if count < len(rounds)}


def differ(one: Round, other: Round) -> bool:
    return any(a.red != b.red or a.green != b.green for a, b in zip(one, other, strict=True))


def turned(check: Check, base: CheckRun, run: CheckRun, target: Iterable[VerdictId]) -> tuple[VerdictId, ...]:
    """The ids of the target that are green now.

    A finding is gone when it is not found again. A file that could not be collected is mended when it does not appear any more
    and its tests do, of which none is red.
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
    """A command that fails as a whole although nothing that it tells apart is red: its step in CI stays red."""
    return run.exit_code != 0 and not run.red - {EXIT}


def broken(oracle: Oracle, check: Check, base: CheckRun, run: CheckRun) -> tuple[VerdictId, ...]:
    """What the candidate spoilt: ids that must stay green and are not, or do not run any more, and new red ones."""
    must_turn, must_stay = oracle.must_turn[check.name], oracle.must_stay[check.name]
    spoilt = {id_ for id_ in must_stay if run.verdicts.get(id_) is not Verdict.PASSED}
    new = {id_ for id_ in run.red if id_ not in base.verdicts and id_ not in must_turn}
    gone = {id_ for id_, verdict in base.verdicts.items() if verdict is Verdict.SKIPPED and id_ not in run.verdicts}
    return tuple(sorted(spoilt | new | gone))


def perhaps_luck(oracle: Oracle, runs: Mapping[str, CheckRun], spoilt: Iterable[VerdictId]) -> dict[str, frozenset[VerdictId]]:
    """The spoilt ids by their check, where all of them are tests that were green at the base and ran; else none."""
    red = {
        check.name: oracle.must_stay[check.name] & (runs[check.name].red - {EXIT}) if check.runs_tests else frozenset()
        for check in oracle.checks
    }
    return red if set(spoilt) == frozenset().union(*red.values()) else {}


def unmoved(oracle: Oracle, base: Mapping[str, CheckRun], runs: Mapping[str, CheckRun]) -> bool:
    """Does everything that must turn fail as it did without the change?"""
    target = {id_ for name in runs for id_ in oracle.must_turn[name]}
    before = {failure.id: failure.message for failure in failures(base.values(), target)}
    now = {failure.id: failure.message for failure in failures(runs.values(), target)}
    is_all_red = all(oracle.must_turn[name] <= run.red for name, run in runs.items())
    return is_all_red and any(now.values()) and now == before


def meddling(base: CheckRun, run: CheckRun, edits: Edits) -> tuple[str, ...]:
    """What code that the change touched did to what runs its tests, and did not do at the base.

    A mark that names no file counts too, where the base's run came to its end and so would have told of it. What untouched
    files do now, because more of them runs, is the repository's own affair. A full list hides what is not on it.
    """
    paths = {edit.path for edit in edits} | ({""} if base.told_all else set())
    found = sorted(mark for mark in run.marks - base.marks if mark.partition(":")[0] in paths)
    found += [f"a step before the tests {_DIGEST.sub('', said)}" for said in sorted(_prepared(base, run))]
    if not found and len(run.marks) >= MARKS_LIMIT:
        return (f"it is done in more than {MARKS_LIMIT - 1} ways, so that new ones cannot be told",)
    return tuple(found)


def _prepared(base: CheckRun, run: CheckRun) -> Iterator[str]:
    """What only the steps of this run did to what decides. What holds something else in each run at the base may do so here."""
    known = Counter(_DIGEST.sub("", said) for said in base.prepared)
    return (said for said in run.prepared - base.prepared if known[_DIGEST.sub("", said)] < 2)


def failures(runs: Iterable[CheckRun], ids: Iterable[VerdictId]) -> tuple[Failure, ...]:
    """The failures of these ids, in the order of the runs."""
    wanted = set(ids)
    return tuple(failure for run in runs for failure in run.failures if failure.id in wanted)
