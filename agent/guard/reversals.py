"""Refuses patches that undo what the last change was made for. Pure.

The most common reason for a failing test is an intended change with an outdated test. Tests cannot tell that from a mistake.
"""

from __future__ import annotations

from agent.contract import words
from agent.contract.last_good import Culprit, Regression
from agent.contract.proposal import Candidate, is_model
from agent.edits.reversals import is_same, lost_names, taken_back

REVERSAL = "reversal"  # the rule's name
MOST = 0.5  # share of the change's lines from which a patch takes most of it back


def undoing(candidate: Candidate, regression: Regression, culprit: Culprit | None) -> str:
    """Why a patch counts as undoing the change, as a clause; "" if it does not."""
    if names := lost_names(candidate.edits, regression.reversal):
        return f"it removes {words.named(names)}, which the change {regression.since} added"
    lines, of = taken_back(candidate.edits, regression.reversal)
    if of and lines >= (of if _is_a_slip(candidate, regression, culprit) else MOST * of):
        return f"it takes back {lines} of the {words.counted(of, 'added or removed line')} of code {regression.since}"
    if is_model(candidate.rung) or candidate.rung == "tools":
        return ""
    if not regression.tests:
        return f"the change {regression.since} edits no test, so it may be intended and the failing test out of date"
    if culprit is None:
        return ""
    if culprit.breaks:
        return f"taking back the lines that broke the tests breaks {words.named(culprit.breaks)}"
    if not is_same(candidate.edits, culprit.reversal):
        return f"it differs from what stood in the lines that broke the tests, and passed, at {regression.good}"
    return ""


def _is_a_slip(candidate: Candidate, regression: Regression, culprit: Culprit | None) -> bool:
    """Does it restore exactly the lines that broke the tests, while every test passes that the author changed with them?"""
    if culprit is None or culprit.breaks != () or not regression.tests:
        return False
    return is_same(candidate.edits, culprit.reversal)


def doubt(candidate: Candidate, regression: Regression) -> tuple[str, ...]:
    """A clause if the patch takes back part of the change."""
    lines, of = taken_back(candidate.edits, regression.reversal)
    if not lines:
        return ()
    return (f"it takes back {lines} of the {words.counted(of, 'added or removed line')} of code {regression.since}",)
