"""Which failures the change since a good commit caused. Pure; `agent/nodes/compare.py` runs the failing checks there.

A failure at the good commit too is not this change's: it belongs to the sandbox, to an older commit, or to a newer dependency.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from agent.checks.oracle import failures
from agent.contract.last_good import LastGood
from agent.contract.verdicts import EXIT, CheckRun, Failure, Oracle, VerdictId
from agent.reproduce.flakiness import mentions_network, reported_in
from agent.source.test_files import is_test

FEW = 5  # failures at the good commit; if there are more, the sandbox or an older commit is the likely cause
LAST = 12  # lines of a step's output, which show why it ended
_SIGNS = re.compile(
    r"ConnectionRefusedError|ECONNREFUSED|[Cc]onnection refused|EADDRNOTAVAIL|EAFNOSUPPORT|Cannot assign requested address|"
    r"Address family not supported|command not found|executable file not found|\bspawn \S+ ENOENT\b|"
    r"No such file or directory: '[\w+-]+'$|Permission denied|Operation not permitted|"
    r"unsupported locale setting|No such device|unrecognized arguments: ",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class LastGoodComparison:
    """The failing ids at one good commit, by check."""

    good: LastGood
    passing: Mapping[str, frozenset[VerdictId]]
    failing: Mapping[str, frozenset[VerdictId]]
    new: Mapping[str, frozenset[VerdictId]]  # they do not exist there, or their file does not load
    unread: tuple[str, ...] = ()  # changed files that stayed as they are now, so a failure proves nothing
    is_other: bool = False  # does an id fail there with another error than now?
    is_furthest: bool = False  # is it the oldest commit that is looked at, and none between passes?

    @property
    def has_passing(self) -> bool:
        return any(self.passing.values())

    @property
    def has_failing(self) -> bool:
        return any(self.failing.values())


def fails_otherwise(base: CheckRun, run: CheckRun, failing: Collection[VerdictId]) -> bool:
    """Whether one of the ids fails with another kind of error in one run than in the other: then it has another cause."""
    kinds = [{failure.id: failure.message.partition(":")[0] for failure in each.failures} for each in (base, run)]
    return any(kinds[0].get(id_) != kinds[1].get(id_) for id_ in failing)


def is_new(id_: VerdictId, good: LastGood) -> bool:
    """Is a test that has no verdict at the good commit new? Otherwise it could not run there."""
    changed = [file.path for file in good.files if is_test(file.path)]
    path, separator, _ = id_.partition("::")
    return path in changed if separator or path.endswith(".py") else bool(changed)


def not_this_changes(
    oracle: Oracle, base: Sequence[CheckRun], seen: LastGoodComparison, reported_ids: Sequence[str]
) -> dict[VerdictId, str]:
    """The failing ids that the change did not cause, each with the text that shows why, or "".

    They fail at the good commit too. If all failing ids do, those stay that CI's log names. If it names none, those stay that
    may be the code's fault: their messages are about the code, and they are few, or nobody knows whether the commit was good.
    What fails in the same way at every commit that is looked at is an old failure, or only this sandbox has it: it leaves.
    If a part of the change was not taken back, that part may have caused every failure, so only what CI's log lacks leaves.
    """
    if seen.unread:
        there = {failure.id: sign_of(failure) for failure in failures(base, only_here(oracle, base, reported_ids))}
        return dict(sorted(there.items()))
    target = [id_ for ids in oracle.must_turn.values() for id_ in ids]
    failing = {id_ for ids in seen.failing.values() for id_ in ids}
    signs = {failure.id: sign_of(failure) for failure in failures(base, failing)}
    reported = reported_in(reported_ids, target)
    leaving = failing
    if not seen.has_passing and not seen.is_furthest:
        is_wide = seen.good.passed_in_ci and len(failing) > FEW
        leaving = failing - reported if reported else failing if is_wide else {id_ for id_ in failing if signs.get(id_)}
    return {id_: signs.get(id_, "") for id_ in sorted(leaving)}


def only_here(oracle: Oracle, base: Sequence[CheckRun], reported_ids: Sequence[str]) -> list[VerdictId]:
    """Failing ids that CI's log does not name although it names others, and whose messages show what the sandbox lacks."""
    target = [id_ for ids in oracle.must_turn.values() for id_ in ids]
    reported = reported_in(reported_ids, target)
    if not reported:
        return []
    lacking = {failure.id for failure in failures(base, target) if sign_of(failure)}
    return sorted(lacking - reported)


def sign_of(failure: Failure) -> str:
    """The text that shows that something outside the code is missing; "" if none does."""
    # Of a traceback, only the lines of the error, as the others quote source code. Of a step's output, the end.
    said = failure.details.splitlines()
    errors = said[-LAST:] if failure.id == EXIT else [line for line in said if line.startswith("E ")]
    text = "\n".join([failure.message, *errors])
    found = _SIGNS.search(text)
    return mentions_network(text) or (found.group() if found else "")


def without(oracle: Oracle, left: Collection[VerdictId]) -> Oracle:
    """The oracle without these ids in its target."""
    return replace(oracle, must_turn={name: ids - frozenset(left) for name, ids in oracle.must_turn.items()})
