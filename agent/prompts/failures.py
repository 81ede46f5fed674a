"""Failing verdicts as prompt text: every message, and tracebacks without the code that is shown elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.checks.oracle import failures
from agent.contract.verdicts import Failure
from agent.models.values import estimate_tokens
from agent.proposer import Situation

MOST = 12  # verdicts that are named
SHORT = 100  # characters of a message that are kept in any case, if they do not all fit
LONGEST, READ = 40, 100  # lines of one traceback, tracebacks
_SOURCE = re.compile(r"(?:    |(?:async )?def |@|\s+\^+\s*$)")  # pytest prints the whole function around each line
_HEADING = re.compile(r"(?:Expected|Got|Differences \(.*\)):$")  # of what a docstring example gives, on indented lines
_PLACE = re.compile(r"\s*(?:File \"[^\"]+\", line \d+|\S+:\d+: )")
_WARNING = re.compile(r"^\S+:\d+: \w*Warning: .*(?:\n  .*)?(?:\n|\Z)", re.MULTILINE)  # with the line that it quotes
_EXCEPTION = re.compile(r"^(?:Traceback \(|E  )", re.MULTILINE)
_NOISE = re.compile(r"(?:_ ){5,}|-{10,}|={10,}|self = <[\w.]+ (?:testMethod=\w+|object at 0x\w+)>$")


def red(situation: Situation) -> tuple[Failure, ...]:
    """The failures that must be fixed."""
    return failures(situation.red, (id_ for ids in situation.oracle.must_turn.values() for id_ in ids))


def as_text(found: Sequence[Failure], tokens: int) -> str:
    """About `tokens` of text: ids grouped by message, then as many tracebacks as fit."""
    by_message: dict[str, list[str]] = {}
    for failure in found:
        by_message.setdefault(failure.message, []).append(str(failure.id))
    named = list(by_message.items())[:MOST]
    room = max(SHORT, tokens * 2 // max(1, len(named)) - SHORT) if sum(map(len, by_message)) > tokens * 2 else 0
    heads, path = [], ""
    for message, ids in named:
        more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
        names = []
        for id_ in ids[:3]:
            names.append(id_.removeprefix(path) if path else id_)  # name each file once
            path = id_.partition("::")[0] if "::" in id_ else path
        heads.append(f"{', '.join(names)}{more}: {message[:room] + '…' if room and len(message) > room else message}")
    kept = _fitting(heads, 0, tokens * 2)
    if len(by_message) > len(kept):
        kept.append(f"… and {len(by_message) - len(kept)} more")
    text = "\n".join(kept)
    texts = [(failure, condensed(failure.details)) for failure in found[:READ]]
    if sum(estimate_tokens("\n".join(lines)) for _, lines in texts) > tokens:
        texts.sort(key=lambda each: sum(map(len, each[1])))  # rather several short ones than the beginning of a long one
    shown: set[str] = set()
    for failure, lines in texts:
        # A traceback along the same path, such as of another parameter, adds nothing.
        route = [line for line in lines if _PLACE.match(line)]
        kind = "\n".join(route or lines)
        if not lines or kind in shown:
            continue
        more = f"\n\n--- {failure.id}\n" + "\n".join(lines)
        if estimate_tokens(text + more) > tokens:
            if not shown:
                kept = _fitting(lines, _assertion(lines), (tokens - estimate_tokens(f"{text}{failure.id}")) * 3)
                return text + "\n".join(["", "", f"--- {failure.id}", *kept]) if kept else text
            continue  # a later one may be shorter
        shown.add(kind)
        text += more
    return text


def _assertion(lines: Sequence[str]) -> int:
    """The line with the error: the one that pytest marks, otherwise the last."""
    return next((at for at, line in enumerate(lines) if line.startswith("E ")), len(lines) - 1)


def _fitting(lines: Sequence[str], first: int, characters: int) -> list[str]:
    """The whole lines that fit, in order; `first` and the one above it are preferred, then later lines, then earlier ones."""
    order = [first, first - 1, *range(first + 1, len(lines)), *range(first - 2, -1, -1)]
    kept: list[int] = []
    for at in (at for at in order if at >= 0):
        characters -= len(lines[at]) + 1
        if characters < 0 and kept:
            break
        kept.append(at)
        if characters < 0:  # a single line that does not fit
            return [lines[at][: max(0, characters + len(lines[at]))] + "…"]
    return [lines[at] for at in sorted(kept)]


def condensed(details: str) -> list[str]:
    """A traceback's lines without the source around the executed lines, and without warnings beside it."""
    kept, previous, in_example = [], "", False
    if _EXCEPTION.search(details):
        details = _WARNING.sub("", details)
    for line in details.split("\n"):
        in_example = bool(_HEADING.match(line)) or (in_example and line.startswith("    "))
        is_source = bool(_SOURCE.match(line)) and not previous.lstrip().startswith("File ") and not in_example
        if line.strip() and not is_source and not _NOISE.match(line):
            kept.append(line.rstrip()[:300])
        previous = line
    if len(kept) > LONGEST:
        kept = [*kept[: LONGEST // 4], "…", *kept[-(LONGEST - LONGEST // 4) :]]
    return kept
