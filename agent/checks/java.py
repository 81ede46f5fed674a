"""Reads Maven's surefire into verdicts per class, as it prints no passing methods. Pure; the exit code has the last word."""

from __future__ import annotations

import re

from agent.contract.verdicts import Failure, Frame, Verdict, VerdictId
from agent.guest.text import LINE_LIMIT
from agent.source.test_files import is_test

_CLASS = re.compile(
    r"^(?:\[\w+\] +)?Tests run: (\d{1,9}), Failures: (\d{1,9}), Errors: (\d{1,9}), Skipped: (\d{1,9}),? [^T]*Time elapsed: "
    r"(?:.* )?in ([\w.$]+)\s*$"
)
_FRAME = re.compile(r"^\s+at (?:[\w.@]+/)?([\w.$]+)\.([\w$<>]+)\((\w+\.(?:java|kt|scala|groovy)):(\d{1,9})\)")
_SUITE = re.compile(r"^(?:\[\w+\] +)?Running ([\w.$]+)\s*$")


def read_java(text: str) -> tuple[dict[VerdictId, Verdict], tuple[Failure, ...]]:
    """Verdicts by class, with one failure per class. Frames are in the class's own packages, below Maven's source folders."""
    verdicts: dict[VerdictId, Verdict] = {}
    details: dict[str, list[str]] = {}
    running = ""
    for line in (each[:LINE_LIMIT] for each in text.splitlines()):
        if found := _SUITE.match(line):
            running = found[1]
        elif found := _CLASS.match(line):
            run, failed, broken, skipped = map(int, found.groups()[:4])
            running, id_ = found[5], VerdictId(found[5])
            verdict = Verdict.FAILED if failed or broken else Verdict.SKIPPED if skipped == run else Verdict.PASSED
            verdicts[id_] = Verdict.FAILED if verdicts.get(id_) is Verdict.FAILED else verdict
        elif running and not line.startswith("[INFO]"):
            details.setdefault(running, []).append(line)
    failed_ids = [id_ for id_, verdict in verdicts.items() if verdict is Verdict.FAILED]
    return verdicts, tuple(_failure(id_, details.get(id_, [])) for id_ in failed_ids)


def _failure(id_: VerdictId, lines: list[str]) -> Failure:
    first = next((at for at, line in enumerate(lines) if "<<<" in line), -1)
    message = next((line.strip() for line in lines[first + 1 :] if line.strip()), "it failed")
    home = id_.split(".")[:-1][:2]
    frames = []
    for line in lines:
        found = _FRAME.match(line)
        if found and found[1].split(".")[:-1][:2] == home:
            file = "/".join([*found[1].partition("$")[0].split(".")[:-1], found[3]])
            frames.append(Frame(f"src/{'test' if is_test(found[3]) else 'main'}/java/{file}", int(found[4]), found[2]))
    return Failure(id_, message, "\n".join(lines).strip(), tuple(reversed(frames)))
