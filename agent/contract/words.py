"""Phrases shared by all texts that people read: counts, durations, steps, rungs and locations. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.contract.budget import RungCost
from agent.contract.proposal import Span, is_model, model_name, rung_kind
from agent.contract.verdicts import EXIT, Check

_STEPS = {
    "reproduce": "Reproducing the failure: it has to fail twice",
    "probe": "Checking for flakiness: other test orders, seeds and clocks",
    "compare": "Comparing with the last good commit",
    "localize": "Locating the fault",
    "diagnose": "Asking the model for the cause",
    "weigh": "Weighing how sure the patch is",
    "verify": "Verifying the patch: failing checks first, then everything else",
    "prove": "Proving the patch: more runs with it, one without it",
    "challenge": "Testing the patch beyond the suite",
    "reflect": "Recording why the patch failed",
}
HUNG = "did not finish in "  # starts the message of a test that ran at a timeout: the guest's words
DIED = "the process died while this ran"  # and of one that ran when its process ended
STARVED = "the process ran out of memory while this ran"  # the same, where the sandbox knows why


def counted(count: int, noun: str) -> str:
    """ "1 test", "1,200 tests"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def in_runs(count: int) -> str:
    """ "in both runs", "in all 3 runs"."""
    return {1: "in 1 run", 2: "in both runs"}.get(count, f"in all {count} runs")


def verdict(id_: str) -> str:
    """An id for people: a test's, or "the whole command" for its exit code, which is no test."""
    return "the whole command" if id_ == EXIT else id_


def named(ids: Sequence[str], most: int = 3) -> str:
    """A few ids for a sentence: "`a`, `b` and 4 more"."""
    shown = ", ".join(verdict(id_) if id_ == EXIT else f"`{id_}`" for id_ in ids[:most])
    return f"{shown} and {len(ids) - most} more" if len(ids) > most else shown


def noun(checks: Sequence[Check]) -> str:
    """What a verdict of these checks is called."""
    return "test" if all(check.runs_tests for check in checks) else "check result"


def code(text: str, limit: int = 200) -> str:
    """Foreign text as one code span."""
    flat = " ".join(text.split()).replace("`", "'")
    return f"`{flat if len(flat) <= limit else flat[: limit - 1] + '…'}`"


def took(seconds: float) -> str:
    """ "0.4 s", "12 s", "3 min"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def capitalized(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def uncapitalized(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def rung(name: str) -> str:
    """ "mutation search", "project fixers", "the model `x`"."""
    if is_model(name):
        return f"the model {code(model_name(name))}"
    kind = rung_kind(name)
    return {"patterns": "mutation search", "tools": "project fixers", "history": "history"}.get(kind, kind)


def step(name: str, rung_name: str) -> str:
    """What a step of the graph is about to do, as one line; "" for steps that take no time.

    `rung_name` is the rung that proposes next, or "".
    """
    if name != "propose":
        return _STEPS.get(name, "")
    if is_model(rung_name):
        return f"Asking {rung(rung_name)} for a patch"
    known = {
        "history": "Searching the change for the lines that broke the tests",
        "patterns": "Searching small mutations (no model)",
        "tools": "Running project fixers",
    }
    return known.get(rung_kind(rung_name), "Looking for a patch")


def effort(cost: RungCost) -> str:
    """What a rung did, as a clause: "mutation search tried 9 changes in 1.4 s; none makes the failing tests pass"."""
    who, note = rung(cost.rung), f" ({cost.note})" if cost.note else ""
    if is_model(cost.rung) and cost.tried:
        return f"{who} proposed {counted(cost.tried, 'change')} in {took(cost.seconds)}{note}"
    if cost.tried == 0 and cost.seconds == 0:
        return f"{who} skipped" + (f": {cost.note}" if cost.note else "")
    if cost.tried == 0:
        return f"{who} found nothing in {took(cost.seconds)}{note}"
    tried = f"{who} tried {counted(cost.tried, 'change')} in {took(cost.seconds)}"
    if cost.rung == "history":
        return f"history tried {counted(cost.tried, 'reversal')} in {took(cost.seconds)}{note}"
    if not cost.passed and cost.rung not in ("patterns", "tools"):
        return tried + note  # rungs from extensions need not count
    hits = f"{cost.passed:,} {'makes' if cost.passed == 1 else 'make'}" if cost.passed else "none makes"
    return f"{tried}; {hits} the failing tests pass{note}"


def location(span: Span) -> str:
    """ "`parse` in src/a.py, lines 3 to 9"."""
    lines = f"line {span.first_line}" if span.first_line == span.last_line else f"lines {span.first_line} to {span.last_line}"
    return f"`{span.name}` in {span.path}, {lines}" if span.name else f"{span.path}, {lines}"


def percent(value: float) -> str:
    return f"{max(0.0, min(1.0, value)):.0%}"
