"""Records which lines of the repository run in which tests.

stdin: one JSON request {reader, args, cwd, red, green, seconds, durations, by_test?}. stdout: one JSON line
{tests: {id: passed}, lines: [[path, line, failing tests, passing tests, function]]} or {unavailable: why}.
With `by_test`, the answer has {passing: {path: {line: [positions in `tests`]}}} too: the passing tests that run each line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from .prelude import answer_from_tests
from .trial import hot_swap
from .trial.forks import run_observed

LINES = 20000  # most lines reported


def main() -> int:
    return answer_from_tests(_trace, "the tests could not be collected")


def _trace(request: dict[str, Any], root: str, tests: dict[str, Any]) -> dict[str, Any]:
    verdicts: dict[str, bool | None] = {}
    counts: dict[tuple[str, int], list[Any]] = {}
    passing: dict[str, dict[int, list[int]]] = {}
    for ids, share in ((request["red"], 0.4), (request["green"], 0.3)):
        names = [n for n in ids if n in tests]
        results = run_observed(tests, names, lambda: _record_lines(root), request["seconds"] * share, request["durations"])
        for name, passed, _, _, seen in results:
            verdicts[name] = passed
            for (path, line), function in {(p, n): f for p, n, f in seen or ()}.items():
                count = counts.setdefault((path, line), [0, 0, function])
                count[1 if passed else 0] += 1
                if passed and request.get("by_test"):
                    passing.setdefault(path, {}).setdefault(line, []).append(len(verdicts) - 1)
    lines = [[path, line, *counts[path, line]] for path, line in counts if counts[path, line][0]]
    lines.sort(key=lambda entry: (-entry[2], entry[3]))
    return {"tests": verdicts, "lines": lines[:LINES], **({"passing": passing} if request.get("by_test") else {})}


def _record_lines(root: str) -> Callable[[], Any]:
    seen: set[tuple[CodeType, int]] = set()
    paths: dict[CodeType, str | None] = {}

    def path_of(code: CodeType) -> str | None:
        if code not in paths:
            paths[code] = hot_swap.repository_path(root, code.co_filename)
        return paths[code]

    def lines() -> list[Any]:
        found: set[Any] = {(paths[code], line, getattr(code, "co_qualname", code.co_name)) for code, line in seen}
        return sorted(found)

    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is not None and monitoring.get_tool(monitoring.COVERAGE_ID) is None:
        tool, event = monitoring.COVERAGE_ID, monitoring.events.LINE
        monitoring.use_tool_id(tool, "selfheal")

        def on_line(code: CodeType, line: int) -> Any:
            if path_of(code) is not None:
                seen.add((code, line))
            return monitoring.DISABLE  # one event per line and test is enough

        monitoring.register_callback(tool, event, on_line)
        monitoring.restart_events()
        monitoring.set_events(tool, event)

        def stop() -> list[Any]:
            monitoring.set_events(tool, 0)
            monitoring.free_tool_id(tool)
            return lines()

        return stop

    def on_local(frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            seen.add((frame.f_code, frame.f_lineno))
        return on_local

    def on_call(frame: FrameType, event: str, arg: object) -> Any:
        return on_local if path_of(frame.f_code) is not None else None

    sys.settrace(on_call)

    def stop_tracing() -> list[Any]:
        sys.settrace(None)
        return lines()

    return stop_tracing
