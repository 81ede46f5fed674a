"""What people call things: steps, rungs, counts, places. Pure words; every text that a person reads takes them from here."""

from __future__ import annotations

from collections.abc import Sequence

from agent.contract.proposal import Span
from agent.contract.usage import RungCost
from agent.contract.verdicts import Check

_NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")
_STEPS = {
    "reproduce": "Reproducing: running the failing checks twice",
    "probe": "Not red every time: running the tests in other orders, with other seeds and clocks",
    "localize": "Looking for the place: which lines do the failing tests run?",
    "diagnose": "Asking the model for the cause",
    "guard": "Reading the change: may a repair do this?",
    "verify": "Checking the change: green with it, nothing else broken",
    "prove": "Proving it: green again and again with the change, red without it",
    "challenge": "Challenging it: do its functions keep their promises beside the tests?",
    "reflect": "Noting what the failed change taught",
    "report": "Writing down what was found",
}


def counted(count: int, noun: str) -> str:
    """ "1 test", "1,200 tests"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def opening(count: int, noun: str) -> str:
    """The same where a sentence begins: "Three tests", "12 tests"."""
    return counted(count, noun).replace(str(count), _NUMBERS[count], 1) if count < len(_NUMBERS) else counted(count, noun)


def noun(checks: Sequence[Check]) -> str:
    """What the verdicts of these checks are called."""
    return "test" if all(check.runs_tests for check in checks) else "check result"


def code(text: str, limit: int = 200) -> str:
    """Foreign text as one code span."""
    flat = " ".join(text.split()).replace("`", "'")
    return f"`{flat if len(flat) <= limit else flat[: limit - 1] + '…'}`"


def took(seconds: float) -> str:
    """ "0.4 s", "12 s", "3 min": as exact as a person wants it."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def rung(name: str) -> str:
    """Who proposed: "the search through small changes", "the model `x`"."""
    kind, _, model = name.partition(":")
    if kind == "model":
        return f"the model {code(model)}"
    return {"patterns": "the search through small changes", "tools": "the project's own tools"}.get(kind, kind)


def step(name: str, rung_name: str) -> str:
    """What a step of the graph is about to do, as one line; nothing of steps that take no time.

    `rung_name` is the rung that proposes next, "" where none is.
    """
    if name != "propose":
        return _STEPS.get(name, "")
    kind = rung_name.partition(":")[0]
    if kind == "model":
        return f"Asking {rung(rung_name)} for a change"
    return {"patterns": "Trying small changes without a model", "tools": "Trying the project's own tools"}.get(
        kind, "Looking for a change"
    )


def effort(cost: RungCost) -> str:
    """What a rung did and what came of it, as a clause without its name; its note is told beside it."""
    if cost.rung.startswith("model") and cost.tried:
        return f"proposed {counted(cost.tried, 'change')} in {took(cost.seconds)}"
    if cost.tried == 0:
        return "got no turn" if cost.seconds == 0 else "came up with nothing"
    tried = f"tried {counted(cost.tried, 'change')} in {took(cost.seconds)}"
    if not cost.passed and cost.rung not in ("patterns", "tools"):
        return tried  # whoever comes from outside need not count
    hits = f"{cost.passed:,} of them {'makes' if cost.passed == 1 else 'make'}" if cost.passed else "none of them makes"
    return f"{tried}; {hits} the failing tests pass"


def place(span: Span) -> str:
    """A suspicious place: "`parse` in src/a.py, lines 3 to 9"."""
    lines = f"line {span.first_line}" if span.first_line == span.last_line else f"lines {span.first_line} to {span.last_line}"
    return f"`{span.name}` in {span.path}, {lines}" if span.name else f"{span.path}, {lines}"
