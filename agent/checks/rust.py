"""Reads `cargo test` into verdicts. Pure; hostile code can forge the text, so the exit code has the last word.

A test id starts with its target: `src/lib.rs::tests::adds`, `tests/it.rs::adds`; a documentation
example has cargo's name: `src/lib.rs - add (line 3)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.contract.verdicts import Failure, Frame, Verdict, VerdictId
from agent.guest.text import LINE_LIMIT

_TARGET = re.compile(r"^\s*(?:Running (?:unittests )?(\S+\.rs) \(|(Doc-tests) )")
_TEST = re.compile(r"^test (.+?)(?: - should panic| - compile(?: fail)?)? \.\.\. (ok|FAILED|ignored)\b")
_BLOCK = re.compile(r"^---- (.+?) (?:stdout|stderr) ----$")
_END = re.compile(r"^(?:failures:|test result:|successes:)")
_LOCATION = re.compile(r"(?:panicked at (?:'.*', )?|--> |^\s*at (?:\./)?)([^\s:']+\.rs):(\d{1,9})(?::\d+)?")
_PANIC = re.compile(
    r"^thread '.{0,500}' (?:\(\d+\) )?panicked at (?:'(?P<old>.*)', )?(?:(?P<path>[^\s:']+):(?P<line>\d{1,9}):\d+:?$)?"
)
_VERDICTS = {"ok": Verdict.PASSED, "FAILED": Verdict.FAILED, "ignored": Verdict.SKIPPED}


def read_rust(text: str) -> tuple[dict[VerdictId, Verdict], tuple[Failure, ...]]:
    """Verdicts and failures, in their order. Of two results of a test the worse counts."""
    verdicts: dict[VerdictId, Verdict] = {}
    blocks: dict[VerdictId, list[str]] = {}
    target, block = "", None
    for line in (each[:LINE_LIMIT] for each in text.splitlines()):
        if found := _TARGET.match(line):
            target, block = found[1] or "", None
        elif found := _TEST.match(line):
            id_ = _id(target, found[1])
            if verdicts.get(id_) is not Verdict.FAILED:
                verdicts[id_] = _VERDICTS[found[2]]
        elif found := _BLOCK.match(line):
            block = blocks.setdefault(_id(target, found[1]), [])
        elif _END.match(line):
            block = None
        elif block is not None:
            block.append(line)
    failed_ids = [id_ for id_, verdict in verdicts.items() if verdict is Verdict.FAILED]
    return verdicts, tuple(_failure(id_, blocks.get(id_, [])) for id_ in failed_ids)


def _id(target: str, name: str) -> VerdictId:
    return VerdictId(f"{target}::{name}" if target else name)


def read_panic(lines: Sequence[str]) -> tuple[str, Frame | None]:
    """The message of the first panic in a test's output and its location, else the first line that is not blank."""
    for at, line in enumerate(lines):
        if found := _PANIC.match(line):
            # Since Rust 1.73 the message is below the location.
            message = found["old"] or " ".join(below.strip() for below in lines[at + 1 : at + 4])
            frame = Frame(found["path"], int(found["line"])) if found["path"] else None
            return message.partition(" note: run with")[0], frame
    return next((line.strip() for line in lines if line.strip()), ""), None


def _failure(id_: VerdictId, lines: list[str]) -> Failure:
    message = read_panic(lines)[0] or next((line.strip() for line in lines if line.strip()), "it failed")
    frames = [
        Frame(found[1], int(found[2])) for line in lines if (found := _LOCATION.search(line)) and not found[1].startswith("/")
    ]
    return Failure(id_, message, "\n".join(lines).strip(), tuple(reversed(frames)))
