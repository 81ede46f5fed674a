"""A timeline as an attempt has it, for tests of what shows it."""

from __future__ import annotations

from agent.contract.events import (
    AnyEvent,
    CulpritFound,
    Diagnosed,
    Guarded,
    Opined,
    Proposed,
    Proven,
    Reflected,
    Remembered,
    Reproduced,
    RungSpent,
    Selected,
    StepStarted,
    Verified,
)
from agent.contract.outcome import CheckEvidence
from agent.contract.verdicts import VerdictId

RED = "tests/test_rates.py::test_at_the_limit"
DIFF = """\
--- a/src/rates.py
+++ b/src/rates.py
@@ -10,3 +10,3 @@ def price(grams):
     for limit, cents in RATES:
-        if grams < limit:
+        if grams <= limit:
             return cents
"""
EVIDENCE = CheckEvidence("tests", "pytest -q", (VerdictId(RED),), 1, 21, 0.8, 0, 22, 0.9, 1, 0.7)


def begun() -> list[AnyEvent]:
    return [
        StepStarted(text="Reproducing the failure: it has to fail twice", step="reproduce"),
        Reproduced(
            text="1 failed, 21 passed, in both runs",
            red=[RED],
            red_count=1,
            green_count=21,
            seconds=1.6,
            environment="Python 3.12.1, sandbox local, no network",
            approximated=["Python 3.12 instead of 3.13"],
        ),
        Remembered(text="One lesson of an earlier attempt", attempts=["b" * 32], lessons=["limits are inclusive"]),
    ]


def proposed(title: str = "`<` becomes `<=` in price", diff: str = DIFF, iteration: int = 1) -> Proposed:
    return Proposed(text=f"Proposed: {title}", rung="patterns", title=title, diff=diff, iteration=iteration)


def failed(title: str) -> list[AnyEvent]:
    return [
        Verified(text=f"Failed: {title}", title=title, passed=False, still_red=[RED], newly_red=["tests/x.py::y"], seconds=1.0),
        Reflected(text="Learned", lesson="the bound was not it", lessons=["the bound was not it"]),
    ]


def refused(title: str) -> Guarded:
    return Guarded(text=f"Refused: {title}", title=title, rule="edits a test")


def green(title: str = "`<` becomes `<=` in price") -> list[AnyEvent]:
    return [
        Verified(text=f"Green: {title}", title=title, passed=True, still_red=[], newly_red=[], seconds=1.0),
        Selected(text=f"Chosen: {title}", title=title, among=2, why="the smaller of two", diff=DIFF),
        Proven(
            text=f"Verified against the original code: {title}",
            title=title,
            passed=True,
            why="",
            seconds=3.0,
            evidence=[EVIDENCE],
        ),
        Opined(text="No objection", step="challenge", title=title, accepted=True, reasons=["keeps what it promises"]),
        RungSpent(text="spent", rung="patterns", seconds=1.4, tried=56, passed=2, tokens=0, cost=0.0, note=""),
        Diagnosed(
            text="Cause", cause="An off-by-one at the limit", category="boundary", confidence=0.9, by="verdicts and change"
        ),
    ]


def culprit_found(good: str = "the parent commit (3f2a91c0de)", diff: str = DIFF) -> CulpritFound:
    return CulpritFound(
        text=f"What broke it: 2 of the 140 lines changed since {good}: `src/rates.py:11`",
        good=good,
        places=["src/rates.py:11"],
        lines=2,
        of=140,
        diff=diff,
        breaks=["tests/test_new.py::test_strict"],
        breaks_count=1,
    )
