"""Runs in the judge's sandbox as a separate program: records the calls that tests make of a function, or its results.

Standard library only, for Python 3.8 and newer. Reads one request from standard input, writes its answer to standard output:

    {"do": "capture", "module", "entry", "tests"}           → the literal texts of (args, kwargs) of the tests' calls
    {"do": "answer", "module", "entry", "calls", "seconds"} → one [kind, value] per call: "value", "raised", "hung"
"""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import os
import random
import signal
import sys
from contextlib import suppress
from typing import Any

MOST_CALLS = 200
LONGEST = 2_000  # characters of one call
MOST_ITEMS = 1_000  # items read from one iterator
DEEPEST = 20


class Hung(BaseException):
    """The call took too long; no `except Exception` of the code under test catches it."""


def capture(request: dict[str, Any]) -> list[str]:
    """The distinct calls that the tests make, in order; recursive calls do not count."""
    module = importlib.import_module(request["module"])
    function = getattr(module, request["entry"])
    calls: dict[str, None] = {}
    inside: list[int] = []

    def recorder(*args: Any, **kwargs: Any) -> Any:
        if not inside and len(calls) < MOST_CALLS:
            text = repr((args, kwargs))
            if len(text) <= LONGEST and _is_literal(text):
                calls.setdefault(text)
        inside.append(1)
        try:
            return function(*args, **kwargs)
        finally:
            inside.pop()

    setattr(module, request["entry"], recorder)
    tests = importlib.import_module(request["tests"])
    for name, test in list(vars(tests).items()):
        if name.startswith("test") and callable(test):
            # Calls that a test made before it failed or hung count.
            with suppress(Exception, Hung):
                _limited(test, (), {}, 10.0)
    return list(calls)


def answer(request: dict[str, Any]) -> list[list[Any]]:
    """The result of each call."""
    function = getattr(importlib.import_module(request["module"]), request["entry"])
    answers = []
    for call in request["calls"]:
        args, kwargs = ast.literal_eval(call)
        answers.append(_answered(function, args, kwargs, request["seconds"]))
    return answers


def _answered(function: Any, args: Any, kwargs: Any, seconds: float) -> list[Any]:
    random.seed(0)
    try:
        return ["value", _limited(lambda: _shape(function(*args, **kwargs), DEEPEST), (), {}, seconds)]
    except Hung:
        return ["hung", None]
    except RecursionError:
        return ["raised", "RecursionError"]
    except Exception as error:  # noqa: BLE001 - whatever the code under test raises is its answer
        return ["raised", type(error).__name__]


def _limited(function: Any, args: Any, kwargs: Any, seconds: float) -> Any:
    def stop(*_: Any) -> None:
        raise Hung

    signal.signal(signal.SIGALRM, stop)
    # The timer repeats: a handler in the code under test may swallow the first exception.
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
    try:
        return function(*args, **kwargs)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _shape(value: Any, deep: int) -> Any:
    """Plain data, the same for values that a test would consider equal; floats are rounded to nine digits."""
    if value is None or isinstance(value, str) or deep == 0:
        return value if deep else "…"
    if isinstance(value, (bool, int)):
        return {"number": str(int(value))}
    if isinstance(value, float):
        return {"number": str(int(value)) if value.is_integer() and abs(value) < 1e15 else "%.9g" % value}  # noqa: UP031
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_shape(item, deep - 1) for item in value]}
    if isinstance(value, (set, frozenset)):
        return {"set": sorted((_shape(item, deep - 1) for item in value), key=json.dumps)}
    if isinstance(value, dict):
        return {
            "dict": sorted(([_shape(key, deep - 1), _shape(item, deep - 1)] for key, item in value.items()), key=json.dumps)
        }
    if hasattr(value, "__next__"):
        return {"iterator": [_shape(item, deep - 1) for item in itertools.islice(value, MOST_ITEMS)]}
    return {"object": type(value).__name__}


def _is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return True


def main() -> None:
    out = os.dup(1)
    os.dup2(2, 1)  # keeps output of the code under test out of the answer
    sys.path.insert(0, os.getcwd())
    request = json.loads(sys.stdin.read())
    told = capture(request) if request["do"] == "capture" else answer(request)
    with os.fdopen(out, "w") as stream:
        json.dump(told, stream)


if __name__ == "__main__":
    main()
