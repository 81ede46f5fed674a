"""Which lines of the repository run in which tests; runs inside the sandbox, standard library only.

stdin: one JSON request {reader, args, cwd, red, green, seconds, durations}. stdout: one JSON line
{tests: {id: passed}, lines: [[path, line, failing tests, passing tests, function]]} or {unavailable: why}.
"""

import json
import os
import sys
import time

from . import prelude, splice, warm
from .forks import Forked, observed

LINES = 20000  # that are told


def main():
    request = json.loads(sys.stdin.buffer.read().decode())
    answers, root = warm.silence()
    try:
        with prelude.played(request, root):
            fork = Forked(lambda write: _trace(request, root, write), close=(answers,))
            told = fork.word(time.monotonic() + request["seconds"])
            fork.end()
    except prelude.Failed as why:
        told = {"unavailable": str(why)}
    os.write(answers, (json.dumps(told or {"unavailable": "the tests could not be collected"}) + "\n").encode())
    return 0


def _trace(request, root, write):
    def serve(tests):
        known, counts, seconds = {}, {}, request["seconds"]
        for names, share in ((request["red"], 0.4), (request["green"], 0.3)):
            names = [n for n in names if n in tests]
            told = observed(tests, names, lambda: _watch(root), seconds * share, request["durations"])
            for name, passed, _, _, seen in told:
                known[name] = passed
                for (path, line), function in {(p, n): f for p, n, f in seen or ()}.items():
                    count = counts.setdefault((path, line), [0, 0, function])
                    count[1 if passed else 0] += 1
        told = [[path, line, *counts[path, line]] for path, line in counts if counts[path, line][0]]
        told.sort(key=lambda entry: (-entry[2], entry[3]))
        write({"tests": known, "lines": told[:LINES]})

    try:
        warm.collect(request, root, request["red"] + request["green"], serve)
    except warm.Unavailable as why:
        write({"unavailable": str(why)})


def _watch(root):
    seen, inside = set(), {}

    def interesting(code):
        if code not in inside:
            inside[code] = splice.inside(root, code.co_filename)
        return inside[code]

    def told():
        return sorted({(inside[code], line, getattr(code, "co_qualname", code.co_name)) for code, line in seen})

    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None and monitoring.get_tool(monitoring.COVERAGE_ID) is None:
        tool, event = monitoring.COVERAGE_ID, monitoring.events.LINE
        monitoring.use_tool_id(tool, "selfheal")

        def on_line(code, line):
            if interesting(code) is not None:
                seen.add((code, line))
            return monitoring.DISABLE  # once a place and test is enough

        monitoring.register_callback(tool, event, on_line)
        monitoring.restart_events()
        monitoring.set_events(tool, event)

        def stop():
            monitoring.set_events(tool, 0)
            monitoring.free_tool_id(tool)
            return told()

        return stop

    def on_local(frame, event, arg):
        if event == "line":
            seen.add((frame.f_code, frame.f_lineno))
        return on_local

    def on_call(frame, event, arg):
        return on_local if interesting(frame.f_code) is not None else None

    sys.settrace(on_call)

    def stop_tracing():
        sys.settrace(None)
        return told()

    return stop_tracing
