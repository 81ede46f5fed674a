"""Splits a raw job log into steps and lines, without time stamps, colours and marks. Knows GitHub's log format, and no tool.

Of a long log only the head and the tail are read. A carriage return ends a line, since the overwritten text may matter.
`excerpt` shortens a log to a hint for people and models. The log is untrusted data: cleaned and bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from agent.guest.text import clean

HEAD = 512 * 1024  # characters kept of a log's beginning
TAIL = 3 * 1024 * 1024
LINE = 2000  # characters kept of a line
EXCERPT, EXCERPT_LINE = 6000, 400  # characters of an excerpt, of a line in it
_CUT = "\n[…]\n"
# "job\tstep\t" is what `gh run view --log` puts before each line.
_STAMP = re.compile(r"^\ufeff?(?:[^\t\n]{0,200}\t[^\t\n]{0,200}\t\ufeff?)?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z ?")
_MARK = re.compile(r"^##\[(\w+)\]")
_COMMAND = re.compile(r"^::(group|endgroup|error|warning|notice|debug)(?: .*?)?::")
_ENDINGS = re.compile(
    r"^(?:Process completed with exit code (\d+)|The operation was canceled|The process '.{1,300}' failed with exit code|"
    r"The (?:hosted |self-hosted )?runner\b|The job running on runner|The action .{1,300} has timed out|"
    r"Docker .{1,80} failed with exit code)"
)
# The line at which the part of a step that is worth reading starts, best first.
_HEADS = (
    re.compile(r"^=+ (?:FAILURES|ERRORS) =+$"),
    re.compile(r"^=+ short test summary info =+$"),
    re.compile(r"^Traceback \(most recent call last\):"),
    re.compile(r"^(?:=+|-+)$"),
    re.compile(r"\b(?:error|failed|failure)\b", re.IGNORECASE),
)
_ACTION = re.compile(r"^Run \.{0,2}/?[\w.-]+/[\w./-]+(?:@|$)")
# pytest-randomly and others print the option that repeats a run; other programs print "random seed: 7".
_SEED = re.compile(r"(?:--randomly-seed[= ]|\brandom[ _-]?seed(?: is| set to|:| =|=) ?)(\d{1,10})\b", re.IGNORECASE)


# What actions/checkout prints for a pull request: the merge, and its name after the command that asks for it.
_MERGE = re.compile(r"HEAD is now at [0-9a-f]{7,40} Merge [0-9a-f]{40} into [0-9a-f]{40}\b")
_COMMIT = re.compile(r"git log -1 --format='?%H'?[^\n]*\n[^\n]{0,60}?\b([0-9a-f]{40})\b")


@dataclass(slots=True)
class LogStep:
    """One step: what it printed, without the lines in which the runner shows the command itself."""

    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)  # lines that are marked as errors
    ended: bool = False  # whether the runner ended it as failed
    exit_code: int | None = None


def read_merge(log: str) -> str | None:
    """The merge commit of a pull request that a job checked out; None if it checked out something else."""
    merged = _MERGE.search(log, 0, HEAD)
    commit = _COMMIT.search(log, merged.end(), merged.end() + 2000) if merged else None
    return commit[1] if commit else None


def read_steps(log: str) -> list[LogStep]:
    """The steps of a log in their order; a log without GitHub's marks is one step."""
    steps = [LogStep()]
    pending: list[str] = []  # title and lines of a group that may be a step's beginning
    for line in _lines(log):
        marked = _MARK.match(line)
        mark = marked[1] if marked else ""
        text = line[marked.end() :] if marked else line
        if pending and not mark and len(pending) <= 2000:
            pending.append(text)
            continue
        if pending and mark == "endgroup" and _begins_step(pending):
            steps.append(LogStep())
        else:
            steps[-1].lines += pending
        pending = []
        if mark == "group" and text.startswith(("Run ", "Starting ")):
            pending = [text]
            continue
        if mark in ("endgroup", "debug", "notice"):
            continue
        if line == "Post job cleanup.":
            steps.append(LogStep())
        step = steps[-1]
        step.lines.append(text)
        if mark == "error":
            step.errors.append(text)
            ending = _ENDINGS.match(text)
            if ending:
                step.ended = True
                step.exit_code = int(ending[1]) if ending[1] and len(ending[1]) < 6 else step.exit_code
    steps[-1].lines += pending
    return steps


def failed_step(steps: list[LogStep]) -> LogStep:
    """The first step that the runner ended as failed; else the first with an error marked; else all of it."""
    for wanted in (lambda step: step.ended, lambda step: bool(step.errors)):
        found = next((step for step in steps if wanted(step)), None)
        if found is not None:
            return found
    return LogStep([line for step in steps for line in step.lines])


def excerpt(log: str, limit: int = EXCERPT) -> str:
    """At most `limit` characters: what the failing step printed, from where it reports the failure."""
    lines = [line[:EXCERPT_LINE] for line in failed_step(read_steps(log)).lines]
    starts = (next((at for at, line in enumerate(lines) if head.search(line)), None) for head in _HEADS)
    start = next((at for at in starts if at is not None), 0)
    return clean("\n".join(lines[start:]).strip(), limit)


def read_seed(log: str) -> int | None:
    """The random seed of the run: the first one in its log."""
    found = _SEED.search(log)
    return int(found[1]) if found else None


def _begins_step(shown: list[str]) -> bool:
    """Whether a group begins a step, not one that a tool printed: it names an action or shows a shell."""
    return _ACTION.match(shown[0]) is not None or any(line.startswith("shell: ") for line in shown[1:])


def _lines(log: str) -> Iterator[str]:
    if len(log) > HEAD + TAIL:
        log = log[:HEAD] + _CUT + log[-TAIL:]
    for raw in _split(log):
        line = _STAMP.sub("", raw[: LINE + 300], count=1)[:LINE]
        if not line.isprintable():
            line = clean(line, LINE).replace("\n", " ")
        line = line.rstrip()
        if line.startswith("::"):
            line = _as_marked(line)
        yield line


def _split(log: str) -> Iterable[str]:
    for ended in log.split("\n"):
        line = ended.rstrip("\r")
        if "\r" in line:
            stamp = _STAMP.match(line[:500])
            yield from (part for part in line[stamp.end() if stamp else 0 :].split("\r") if part)
        else:
            yield line


def _as_marked(line: str) -> str:
    """A workflow command as GitHub shows it: "::error file=a.py,line=3::text" is "##[error]text"."""
    command = _COMMAND.match(line)
    return f"##[{command[1]}]{line[command.end() :].split('%0A')[0]}" if command else line
