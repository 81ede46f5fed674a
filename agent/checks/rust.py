"""What `cargo test` prints, read as verdicts. Pure; the text was near hostile code, so that an exit code has the last word.

A test is called by the target that it was run for: `src/lib.rs::tests::adds`, `tests/it.rs::adds`; an example of the
documentation as cargo calls it: `src/lib.rs - add (line 3)`.
"""

from __future__ import annotations

import re

from agent.contract.verdicts import Failure, Frame, Verdict, VerdictId
from agent.guest.text import LINE_LIMIT

_TARGET = re.compile(r"^\s*(?:Running (?:unittests )?(\S+\.rs) \(|(Doc-tests) )")
_TEST = re.compile(r"^test (.+?)(?: - should panic| - compile(?: fail)?)? \.\.\. (ok|FAILED|ignored)\b")
_BLOCK = re.compile(r"^---- (.+?) (?:stdout|stderr) ----$")
_END = re.compile(r"^(?:failures:|test result:|successes:)")
_PLACE = re.compile(r"(?:panicked at (?:'.*', )?|--> |^\s*at (?:\./)?)([^\s:']+\.rs):(\d{1,9})(?::\d+)?")
_MESSAGE = re.compile(r"^thread '.*' (?:\(\d+\) )?panicked at (?:'(.*)', )?")
_VERDICTS = {"ok": Verdict.PASSED, "FAILED": Verdict.FAILED, "ignored": Verdict.SKIPPED}


def read_rust(text: str) -> tuple[dict[VerdictId, Verdict], tuple[Failure, ...]]:
    """Verdicts and failures, in their order. A test that is told twice counts by the worse."""
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
    red = [id_ for id_, verdict in verdicts.items() if verdict is Verdict.FAILED]
    return verdicts, tuple(_failure(id_, blocks.get(id_, [])) for id_ in red)


def _id(target: str, name: str) -> VerdictId:
    return VerdictId(f"{target}::{name}" if target else name)


def _failure(id_: VerdictId, lines: list[str]) -> Failure:
    at = next((number for number, line in enumerate(lines) if _MESSAGE.match(line)), None)
    message = next((line.strip() for line in lines if line.strip()), "it failed")
    if at is not None:  # since 1.73 the message stands on the lines below the place
        found = _MESSAGE.match(lines[at])
        message = (found[1] if found and found[1] else " ".join(line.strip() for line in lines[at + 1 : at + 4])) or message
    frames = [
        Frame(found[1], int(found[2])) for line in lines if (found := _PLACE.search(line)) and not found[1].startswith("/")
    ]
    return Failure(id_, message.partition(" note: run with")[0], "\n".join(lines).strip(), tuple(reversed(frames)))
