"""Locates the fault: lines that run in failing tests and rarely in passing ones, and lines of tracebacks.

Suspiciousness follows Ochiai: failed / sqrt(all failing × (failed + passed)). Uses the guest's tracer.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import msgspec

from agent.checks.runner import Runner
from agent.checks.sampling import guest_request
from agent.contract.events import Degraded, Emit
from agent.contract.last_good import Regression
from agent.contract.proposal import Span
from agent.contract.verdicts import Check, CheckRun, Oracle
from agent.edits.reversals import LineRange, ranges_of
from agent.source.test_files import is_test
from sandbox.base import Sandbox

RED, GREEN = 20, 60  # most failing and passing tests that are traced
HANG, LONGER = 5.0, 5  # most seconds for a check that hung, or this many times those until it hung: its trace hangs too
SPANS = 150
TRACEBACK = 0.75  # minimum suspiciousness of the innermost frame of a failing test
UNTRACED = 0.4  # suspiciousness of a changed line that no traced test runs, such as a constant
TOUCHED, ELSEWHERE = 0.7, 0.4  # factors for unchanged lines of changed functions, and for all other lines


class _TraceReply(msgspec.Struct):
    """The tracer's answer. Lines are (path, line, failing tests, passing tests, function)."""

    tests: dict[str, bool | None] = {}
    lines: list[tuple[str, int, int, int, str]] = []
    unavailable: str = ""


async def localize(
    sandbox: Sandbox, runner: Runner, oracle: Oracle, red: tuple[CheckRun, ...], *, emit: Emit, seconds: float = 30.0
) -> tuple[Span, ...]:
    """Suspicious spans, best first; `red` are the base's runs. If tests cannot be traced, only tracebacks count.

    Takes about `seconds` at most. Raises `SandboxError` if the sandbox is lost.
    """
    runs = {run.check: run for run in red}
    spans: list[Span] = []
    traceable = [c for c in oracle.checks if c.is_python and oracle.must_turn.get(c.name)]
    for check in oracle.checks:
        run = runs.get(check.name)
        if run is None:
            continue
        frames = _frames(run)
        lines: list[tuple[str, int, int, int, str]] = []
        failing = 0
        if check in traceable:
            limit = seconds / len(traceable)
            limit = min(limit, max(HANG, LONGER * (run.seconds - run.hung))) if run.hung else limit
            trace = await _trace(sandbox, runner, check, oracle, run, limit)
            lines, failing = trace.lines, sum(1 for passed in trace.tests.values() if not passed)
            if not lines and any("::" in i or check.reader != "pytest" for i in oracle.must_turn[check.name]):
                why = trace.unavailable or "no line of the repository was traced in a failing test"
                text = f"Located from tracebacks only: {why}."
                await emit(Degraded(text=text, step="localize", why=why))
        spans += _spans(lines, failing, frames)
    return tuple(sorted(spans, key=lambda s: -s.score)[:SPANS])


async def _trace(sandbox: Sandbox, runner: Runner, check: Check, oracle: Oracle, run: CheckRun, seconds: float) -> _TraceReply:
    request = {**guest_request(check, oracle, run, red=RED, green=GREEN), "seconds": seconds * 0.8}
    async with sandbox.candidate() as workspace:
        reply = await runner.ask(workspace, "trace", json.dumps(request).encode(), seconds, check=check)
    if reply.problem:
        return _TraceReply(unavailable=f"the traced run failed ({reply.problem})")
    try:
        return msgspec.convert(json.loads(reply.output), _TraceReply)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return _TraceReply(unavailable="the traced run gave no answer")


def _frames(run: CheckRun) -> dict[tuple[str, int], tuple[float, int, str]]:
    """(path, line) → (boost, failing tests, function). Deeper frames get a larger boost."""
    boost: dict[tuple[str, int], float] = {}
    count: Counter[tuple[str, int]] = Counter()
    names: dict[tuple[str, int], str] = {}
    for failure in run.failures:
        for depth, frame in enumerate(reversed(failure.frames)):
            at = (frame.path, frame.line)
            boost[at] = max(boost.get(at, 0.0), TRACEBACK * 0.9**depth)
            names[at] = frame.function
        count.update({(frame.path, frame.line) for frame in failure.frames})  # recursion repeats lines
    return {at: (boost[at], count[at], names[at]) for at in boost}


def _spans(
    lines: Sequence[tuple[str, int, int, int, str]], failing: int, frames: dict[tuple[str, int], tuple[float, int, str]]
) -> list[Span]:
    """Joins neighbouring lines of one function with the same score into one span; skips test files."""
    scored: dict[tuple[str, int], tuple[float, str, str]] = {}
    for path, line, failed, passed, name in lines:
        score = failed / math.sqrt(failing * (failed + passed)) if failing and failed else 0.0
        reason = f"runs in {failed} failing and {passed} passing tests" if passed else "runs in failing tests only"
        scored[path, line] = (score, reason, name)
    for at, (boost, tests, name) in frames.items():
        score, _, known = scored.get(at, (0.0, "", name))
        reason = f"in the traceback of {tests} failing {'test' if tests == 1 else 'tests'}"
        scored[at] = (min(1.0, max(score, boost) + 0.1), reason, known)
    spans: list[Span] = []
    for (path, line), (score, reason, name) in sorted(scored.items()):
        if is_test(path):
            continue
        score = round(score, 3)
        last = spans[-1] if spans else None
        if (
            last
            and (last.path, last.name, last.score, last.reason) == (path, name, score, reason)
            and line - last.last_line <= 2
        ):
            spans[-1] = Span(path, last.first_line, line, score, reason, name)
        else:
            spans.append(Span(path, line, line, score, reason, name))
    return spans


def changed_first(spans: Sequence[Span], regression: Regression) -> tuple[Span, ...]:
    """The spans with the lines that changed since the good commit first, then the functions around them."""
    changed = ranges_of(regression.reversal)
    parts = [part for span in spans for part in _split(span, changed.get(span.path, ()))]
    functions = {(span.path, span.name) for span, is_changed in parts if is_changed and span.name}
    found: list[Span] = []
    for span, is_changed in parts:
        if is_changed:
            score, reason = 0.5 + span.score / 2, f"changed {regression.since}, {span.reason}"
        else:
            score, reason = span.score * (TOUCHED if (span.path, span.name) in functions else ELSEWHERE), span.reason
        found.append(replace(span, score=round(score, 3), reason=reason))
    for path, ranges in changed.items():
        for first, last in ranges:
            start, stop = (first, last) if last >= first else (max(1, first - 1), max(1, first - 1))  # removed: the line before
            if not any(s.path == path and s.first_line <= stop + 1 and start <= s.last_line for s, hit in parts if hit):
                found.append(Span(path, start, stop, UNTRACED, f"changed {regression.since}"))
    return tuple(sorted(found, key=lambda span: -span.score)[:SPANS])


def _split(span: Span, ranges: Sequence[LineRange]) -> list[tuple[Span, bool]]:
    """The span's changed and unchanged parts. Where lines were removed, both neighbours count as changed."""
    lines = range(span.first_line, span.last_line + 1)
    hit = {line for first, last in ranges for line in (range(first, last + 1) if last >= first else (first - 1, first))}
    parts: list[tuple[Span, bool]] = []
    for is_changed, group in groupby(lines, hit.__contains__):
        numbers = list(group)
        parts.append((replace(span, first_line=numbers[0], last_line=numbers[-1]), is_changed))
    return parts
