"""Runs in the judge's sandbox as a separate program: records what every call of one function gives while pytest runs tests.

Standard library and pytest only, for Python 3.8 and newer. Reads one request {"file", "name", "files", "tests"} from standard
input: the function's file relative to the root, its name, the test files, and the tests in them. Writes to standard output one
JSON object: test id → [[kind, value, state of the first argument afterwards], ...], kind "value" or "raised".
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Generator
from typing import Any

import pytest

MOST_CALLS = 50  # of one test
DEEPEST = 6
WIDEST = 200  # items of one collection
SECONDS = 10  # for one test


class _Recorder:
    """A plugin of pytest."""

    def __init__(self, request: dict[str, Any], tests: dict[str, list[Any]]) -> None:
        self.file = os.path.realpath(request["file"])
        self.name, self.wanted, self.tests = request["name"], set(request["tests"]), tests

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if item.nodeid.partition("::")[2].partition("[")[0] in self.wanted]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: Any) -> Generator[None, None, None]:
        calls = self.tests.setdefault(item.nodeid, [])
        before = sys.gettrace()
        random.seed(0)
        signal.setitimer(signal.ITIMER_REAL, SECONDS, 0.5)
        sys.settrace(self._tracer(calls))
        try:
            yield
        finally:
            sys.settrace(before)
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _tracer(self, calls: list[Any]) -> Any:
        def on_call(frame: Any, event: str, arg: Any) -> Any:
            code = frame.f_code
            if code.co_name != self.name or len(calls) >= MOST_CALLS or os.path.realpath(code.co_filename) != self.file:
                return None
            raised: list[str] = []

            def inside(frame: Any, event: str, arg: Any) -> Any:
                if event == "exception":
                    raised[:] = [arg[0].__name__]
                elif event == "line":
                    raised.clear()
                elif event == "return":
                    told = ["raised", raised[0]] if raised and arg is None else ["value", _shape(arg, DEEPEST)]
                    first = code.co_varnames[0] if code.co_argcount else None
                    calls.append([*told, _shape(frame.f_locals.get(first), DEEPEST) if first else None])
                return inside

            return inside

        return on_call


def _shape(value: Any, deep: int) -> Any:
    """Plain data, without addresses."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, (str, float, bytes, complex)):
        return repr(value)[:2000]
    if deep == 0:
        return "…"
    name = type(value).__name__
    if isinstance(value, dict):
        pairs = list(dict.items(value))[:WIDEST]
        return [name, *([_shape(key, deep - 1), _shape(item, deep - 1)] for key, item in pairs)]
    if isinstance(value, (list, tuple)):
        return [name, *(_shape(item, deep - 1) for item in list(value)[:WIDEST])]
    if isinstance(value, (set, frozenset)):
        return [name, *sorted((_shape(item, deep - 1) for item in list(value)[:WIDEST]), key=repr)]
    try:
        state = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return [name]
    return [name, _shape(dict(state), deep - 1)] if isinstance(state, dict) else [name]


def _stop(*_: Any) -> None:
    raise TimeoutError


def main() -> None:
    signal.signal(signal.SIGALRM, _stop)
    out = os.dup(1)
    os.dup2(2, 1)  # keeps output of the code under test out of the answer
    sys.path.insert(0, os.getcwd())
    request = json.loads(sys.stdin.read())
    tests: dict[str, list[Any]] = {}
    options = ("-q", "-p", "no:cacheprovider", "--continue-on-collection-errors")
    pytest.main([*options, *request["files"]], plugins=[_Recorder(request, tests)])
    with os.fdopen(out, "w") as stream:
        json.dump(tests, stream)


if __name__ == "__main__":
    main()
