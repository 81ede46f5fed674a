"""What the judge reads from reports, and what it counts."""

from __future__ import annotations

from agent.bench.breaks.figures import figures
from agent.bench.breaks.judge import suspects
from agent.bench.score import Entry, failed, skipped
from agent.contract import words
from agent.contract.outcome import Outcome
from agent.contract.proposal import Span


def test_locations_are_read_as_a_report_names_them() -> None:
    spans = [
        Span("src/a.py", 3, 9, 1.0, "runs in 2 failing and 1 passing tests", "A.f"),
        Span("b c.py", 7, 7, 1.0, "in the traceback"),
    ]
    told = "; ".join(f"{words.location(span)} ({span.reason})" for span in spans)
    note = f"Suspicious locations, most suspicious first: {told}."
    assert [(span.path, span.first_line, span.last_line) for span in suspects(("x", note))] == [
        ("src/a.py", 3, 9),
        ("b c.py", 7, 7),
    ]
    assert suspects(("x",)) == []


def entry(number: int, *told: str, right: bool | None = None, confidence: float | None = None) -> Entry:
    return Entry(
        id=f"a-{number}", group="x", outcome="healed" if confidence else "gave_up", plausible=confidence is not None,
        heldout_correct=right, confidence=confidence, details=dict.fromkeys(told, True),
    )  # fmt: skip


def test_figures_count_tasks_and_the_very_sure_repairs_among_them() -> None:
    entries = [
        entry(1, "located", right=True, confidence=0.9),
        entry(2, "located", "reversed", right=False, confidence=0.95),
        entry(3, right=False, confidence=0.89),
        entry(7, confidence=0.7),
        entry(4, "located", "withheld", "found"),
        entry(5, "withheld"),
        entry(6),
        skipped("b-1", "", "its tests fail"),
        failed("a-8", "x", Outcome.INFRASTRUCTURE, "the model m is not reachable"),
    ]
    told = dict(figures(entries))
    assert told.pop("very_sure") == {
        "tasks": 2, "error": 0, "tried": 2, "healed": 2, "right": 1, "wrong": 1, "right_by_suite_only": 0, "unjudged": 0,
        "withheld": 0, "reversed": 1, "located": 2, "found": 0,
    }  # fmt: skip
    assert told == {
        "tasks": 8,
        "error": 1,
        "tried": 7,
        "healed": 4,
        "right": 1,
        "wrong": 2,
        "right_by_suite_only": 0,
        "unjudged": 1,
        "withheld": 2,
        "reversed": 1,
        "located": 3,
        "found": 1,
    }
