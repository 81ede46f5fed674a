"""Refuses patches that undo what the last change was made for. Pure.

The most common reason for a failing test is an intended change with an outdated test. Tests cannot tell that from a mistake.
"""

from __future__ import annotations

import re

from agent.contract import words
from agent.contract.last_good import Culprit, Regression
from agent.contract.proposal import Candidate, is_model
from agent.edits.changes import removed
from agent.edits.reversals import is_same, lost_names, taken_back, touches
from agent.source.test_files import is_prose

REVERSAL = "reversal"  # the rule's name
SHORTEST = 4  # letters of a name that is looked for in prose
_WORD = re.compile(r"[A-Za-z_]\w+")
MOST = 0.5  # share of the change's lines from which a patch takes most of it back


def undoing(candidate: Candidate, regression: Regression, culprit: Culprit | None) -> str:
    """Why a patch counts as undoing the change, as a clause; "" if it does not."""
    if names := lost_names(candidate.edits, regression.reversal):
        return f"it removes {words.named(names)}, which the change {regression.since} added"
    lines, of = taken_back(candidate.edits, regression.reversal)
    if of and lines >= (of if _is_a_slip(candidate, regression, culprit) else MOST * of):
        return _taken_back(lines, of, regression.since)
    if is_model(candidate.rung) or candidate.rung == "tools":
        return ""
    if not regression.tests:
        return f"the change {regression.since} edits no test, so it may be intended and the failing test out of date"
    if culprit is None:
        return ""
    if where := _stated(regression, culprit):
        return f"{where} of the change {regression.since} mentions what it takes back, so it may be intended"
    if culprit.breaks:
        return f"taking back the lines that broke the tests breaks {words.named(culprit.breaks)}"
    if not is_same(candidate.edits, culprit.reversal):
        return f"it differs from what stood in the lines that broke the tests, and passed, at {regression.good}"
    return ""


def _stated(regression: Regression, culprit: Culprit) -> str:
    """Where the change itself mentions a function that holds the lines which broke the tests; "" if it does not."""
    names = {part for place in culprit.places for part in _parts(place.name)}
    prose = [(edit.path, "\n".join(removed((edit,)))) for edit in regression.reversal if is_prose(edit.path)]
    for where, text in [("the message", regression.messages), *prose]:
        spoken = [word.casefold() for word in _WORD.findall(text)]
        if any(name and any(word.startswith(name) for word in spoken) for name in names):
            return where if where == "the message" else f"{words.code(where)}, a part"
    return ""


def _parts(name: str) -> list[str]:
    """The name of a function as prose may spell it; a special method goes by its class. Short names say too little."""
    found = next((part for part in reversed(name.split(".")) if not part.startswith("__")), "").strip("_").casefold()
    return [found] if len(found) >= SHORTEST else []


def _is_a_slip(candidate: Candidate, regression: Regression, culprit: Culprit | None) -> bool:
    """Does it restore exactly the lines that broke the tests, while every test passes that the author changed with them?"""
    if culprit is None or culprit.breaks != () or not regression.tests:
        return False
    return is_same(candidate.edits, culprit.reversal)


def doubt(candidate: Candidate, regression: Regression) -> str:
    """A clause if the patch takes back part of the change; "" if it does not."""
    return _taken_back(*taken_back(candidate.edits, regression.reversal), regression.since)


def _taken_back(lines: int, of: int, since: str) -> str:
    share = "every line" if lines == of else f"{lines} of the {of} lines"
    return f"it takes back {share} of code that changed {since}" if lines else ""


def elsewhere(candidate: Candidate, regression: Regression) -> str:
    """A clause if the patch changes other lines than those that the change touched; "" if it does not."""
    return "" if touches(candidate.edits, regression.reversal) else f"it changes no line that changed {regression.since}"
