"""What `go test -json` prints (`cmd/test2json`), read as verdicts. Pure; an exit code has the last word.

A test is called by its package: `example.com/a/pkg.TestAdd/case`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from agent.contract.verdicts import Failure, Frame, Verdict, VerdictId
from agent.guest.text import ID_LIMIT, LINE_LIMIT

_VERDICTS = {"pass": Verdict.PASSED, "fail": Verdict.FAILED, "skip": Verdict.SKIPPED}
_PLACE = re.compile(r"^\s*(?:panic: .*(?<![\w./-]))?([\w./-]+\.go):(\d{1,9}):? ?(.*)")
_PART = re.compile(r"[./]")
_NOISE = re.compile(r"^\s*(?:=== |--- |PASS\b|FAIL\b|ok\s|exit status)")


def read_go(text: str, root: str) -> tuple[dict[VerdictId, Verdict], tuple[Failure, ...]]:
    """Verdicts and failures, in their order; `root` is the repository as the code saw it. A package may fail to build."""
    verdicts: dict[VerdictId, Verdict] = {}
    output: dict[VerdictId, list[str]] = {}
    tests: set[VerdictId] = set()
    for package, test, action, said in _events(text):
        id_ = VerdictId(f"{package}.{test}" if test else package)
        if test:
            tests.add(id_)
        if said:
            output.setdefault(id_, []).append(said.rstrip("\n"))
        if action in _VERDICTS and (test or action == "fail") and verdicts.get(id_) is not Verdict.FAILED:
            verdicts[id_] = _VERDICTS[action]
    red = [id_ for id_, verdict in verdicts.items() if verdict is Verdict.FAILED]
    # A package, and a test with others in it, fails because of what is in it: that is told by its own name.
    above = {name for id_ in red for name in _above(id_)}.intersection(red)
    for id_ in above:
        del verdicts[id_]
    for id_ in (id_ for id_ in red if id_ not in above and id_ not in tests):
        verdicts[id_] = Verdict.ERROR
    return verdicts, tuple(_failure(id_, output.get(id_, []), root) for id_ in red if id_ not in above)


def _above(id_: VerdictId) -> Iterator[VerdictId]:
    """What this may be a part of, by its name."""
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
            # What the build of a package said names it by its import path since Go 1.24.
            package = str(event.get("Package") or str(event.get("ImportPath", "")).partition(" ")[0])
            yield package, str(event.get("Test") or ""), event["Action"], str(event.get("Output") or "")


def _failure(id_: VerdictId, lines: list[str], root: str) -> Failure:
    told = [line for line in lines if not _NOISE.match(line) and line.strip()]
    frames = []
    message = next((line.strip() for line in told), "it failed")
    for line in told:
        if found := _PLACE.match(line[:LINE_LIMIT]):
            path = found[1].removeprefix(f"{root}/")
            if not path.startswith("/"):
                frames.append(Frame(path, int(found[2])))
    first = _PLACE.match(told[0][:LINE_LIMIT]) if told else None
    if first and first[3]:
        message = first[3]
    return Failure(id_, message, "\n".join(lines), tuple(reversed(frames)))
