"""The tables of a benchmark speak of what it measures: repairs, or code that was written."""

from __future__ import annotations

import io

import msgspec
from rich.console import Console

from agent.bench.score import Entry
from app.cli.bench import report


def shown(*entries: Entry, written: bool) -> str:
    stream = io.StringIO()
    report.show(Console(file=stream, width=200), entries, {}, complete=True, written=written)
    return stream.getvalue()


def entry(id_: str, group: str, rung: str = "model:m") -> Entry:
    return Entry(
        id=id_, group=group, outcome="healed", plausible=True, heldout_correct=True, seconds=3.0, rung=rung, confidence=0.95
    )


def test_written_code_is_not_called_a_repair() -> None:
    out = shown(entry("a", "all"), entry("b", "all", "patterns"), written=True)
    assert "repair" not in out.lower()
    assert "plausible" not in out
    assert "Time to an accepted answer: median 3.0 s, 90th percentile 3.0 s." in out
    assert "Accepted answers by the rung of their last change: model:m 1, patterns 1." in out
    assert any(line.split()[:3] == ["confidence", "answers", "judged"] for line in out.splitlines())
    assert any(line.split()[:3] == ["tried", "reported", "solved"] for line in out.splitlines())


def test_one_is_not_counted_as_many() -> None:
    one = msgspec.structs.replace(entry("a", "all"), candidates=1, tokens=1)
    assert "1 candidate, 1 token, cost " in shown(one, written=True)
    stream = io.StringIO()
    report.show(Console(file=stream, width=200), [one], {}, complete=False, written=True)
    assert "These are the results of 1 finished task." in stream.getvalue()


def test_repairs_are_called_repairs() -> None:
    out = shown(entry("a", "value misuse"), entry("b", "logic", "patterns"), written=False)
    assert "Time to a verified repair: median 3.0 s" in out
    assert "Repairs by rung: model:m 1, patterns 1; 1 without a model, 1 with one." in out
    assert "repairs judged" in out
    assert "plausible" in out


def test_without_categories_there_is_one_row() -> None:
    rows = [line.split()[:3] for line in shown(entry("a", "all"), entry("b", "all"), written=True).splitlines()]
    assert rows.count(["all", "2", "2"]) == 1
    rows = [line.split()[:3] for line in shown(entry("a", "text"), entry("b", "all"), written=True).splitlines()]
    assert [row[0] for row in rows if row[1:] and row[1] in ("1", "2")] == ["all", "text", "all"]


def test_a_first_answer_that_was_accepted_is_not_called_healed() -> None:
    stream = io.StringIO()
    first = msgspec.structs.replace(entry("a", "all"), details={"ended": "first_answer"})
    for each in (first, entry("b", "all")):
        report.print_entry(Console(file=stream, width=200), each)
    assert [line.partition("  a: ")[2] or line.partition("  b: ")[2] for line in stream.getvalue().splitlines()] == [
        "first answer accepted, held-out correct. ",
        "healed, held-out correct. ",
    ]
