"""Reads `go test -json` (`cmd/test2json`) into verdicts. Pure; the exit code has the last word.

A test id starts with its package: `example.com/a/pkg.TestAdd/case`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from agent.contract.verdicts import Failure, Frame, Verdict, VerdictId
from agent.guest.text import ID_LIMIT, LINE_LIMIT

_VERDICTS = {"pass": Verdict.PASSED, "fail": Verdict.FAILED, "skip": Verdict.SKIPPED}
_LOCATION = re.compile(r"^\s*(?:panic: .*(?<![\w./-]))?([\w./-]+\.go):(\d{1,9}):? ?(.*)")
_PART = re.compile(r"[./]")
_NOISE = re.compile(r"^\s*(?:=== |--- |PASS\b|FAIL\b|ok\s|exit status)")


def read_go(text: str, root: str) -> tuple[dict[VerdictId, Verdict], tuple[Failure, ...]]:
    """Verdicts and failures, in their order; `root` is the repository's path in the sandbox. A package can fail to build."""
    verdicts: dict[VerdictId, Verdict] = {}
    output: dict[VerdictId, list[str]] = {}
    tests: set[VerdictId] = set()
    for package, test, action, output_line in _events(text):
        id_ = VerdictId(f"{package}.{test}" if test else package)
        if test:
            tests.add(id_)
        if output_line:
            output.setdefault(id_, []).append(output_line.rstrip("\n"))
        if action in _VERDICTS and (test or action == "fail") and verdicts.get(id_) is not Verdict.FAILED:
            verdicts[id_] = _VERDICTS[action]
    failed_ids = [id_ for id_, verdict in verdicts.items() if verdict is Verdict.FAILED]
    # A package, or a test with subtests, fails because of its members, which have ids of their own.
    above = {name for id_ in failed_ids for name in _above(id_)}.intersection(failed_ids)
    for id_ in above:
        del verdicts[id_]
    for id_ in (id_ for id_ in failed_ids if id_ not in above and id_ not in tests):
        verdicts[id_] = Verdict.ERROR
    return verdicts, tuple(_failure(id_, output.get(id_, []), root) for id_ in failed_ids if id_ not in above)


def _above(id_: VerdictId) -> Iterator[VerdictId]:
    """The names of all that may contain this test."""
    for end in _PART.finditer(id_[:ID_LIMIT]):
        yield VerdictId(id_[: end.start()])


def _events(text: str) -> Iterator[tuple[str, str, str, str]]:
    """(package, test, action, output) of each line that is one."""
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("Action"), str):
            # Since Go 1.24, build output has the import path instead of the package.
            package = str(event.get("Package") or str(event.get("ImportPath", "")).partition(" ")[0])
            yield package, str(event.get("Test") or ""), event["Action"], str(event.get("Output") or "")


def _failure(id_: VerdictId, lines: list[str], root: str) -> Failure:
    shown = [line for line in lines if not _NOISE.match(line) and line.strip()]
    frames = []
    message = next((line.strip() for line in shown), "it failed")
    for line in shown:
        if found := _LOCATION.match(line[:LINE_LIMIT]):
            path = found[1].removeprefix(f"{root}/")
            if not path.startswith("/"):
                frames.append(Frame(path, int(found[2])))
    first = _LOCATION.match(shown[0][:LINE_LIMIT]) if shown else None
    if first and first[3]:
        message = first[3]
    return Failure(id_, message, "\n".join(lines), tuple(reversed(frames)))
