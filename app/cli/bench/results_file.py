"""The file in which a benchmark's results are kept as they come, so that a stopped run goes on where it was.

JSON lines: first what is measured and how, then one entry a task. Results of another benchmark, or under other options, are
never mixed. A line that was cut off by a kill is left out; the last entry of a task counts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from agent.bench.score import Entry
from agent.bench.specimen import BadInput


class StateLost(Exception):
    """A result could not be kept; the message says where and why."""


class Head(msgspec.Struct, frozen=True):
    """What the entries of a file have in common."""

    benchmark: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class State:
    """Entries of earlier runs, and where those of this one go; without a file they are only kept in memory."""

    file: Path | None = None
    known: Mapping[str, Entry] = field(default_factory=dict)

    def append(self, entry: Entry) -> None:
        """Write one entry down at once. Raises `StateLost`."""
        if self.file is None:
            return
        try:
            _write(self.file, msgspec.json.encode(entry))
        except OSError as error:
            raise StateLost(
                f"{self.file} cannot be written any more: {error.strerror}; what it holds can be gone on from"
            ) from error


def open_state(file: Path | None, head: Head) -> State:
    """Entries without an error are taken over; the others are tried again. Raises `BadInput`."""
    if file is None:
        return State()
    try:
        lines = file.read_bytes().split(b"\n") if file.exists() else []
        if not any(line.strip() for line in lines):
            _write(file, msgspec.json.encode(head))
            return State(file)
    except OSError as error:
        raise BadInput(f"{file} cannot be used to keep results: {error.strerror}; give a file that can be written") from error
    try:
        found = msgspec.json.decode(lines[0], type=Head)
    except msgspec.DecodeError as error:
        raise BadInput(f"{file} is not a file of earlier results; give another name to --resume") from error
    if found != head:
        raise BadInput(f"{file} holds results of {_told(found)}, not of {_told(head)}; give another name to --resume")
    if lines[-1]:  # cut off: the next entry begins on a line of its own
        _write(file, b"")
    return State(file, {entry.id: entry for line in lines[1:] if (entry := _entry(line)) is not None})


def _entry(line: bytes) -> Entry | None:
    try:
        entry = msgspec.json.decode(line, type=Entry)
    except msgspec.DecodeError:
        return None
    return entry if entry.error is None else None


def _write(file: Path, line: bytes) -> None:
    with file.open("ab") as stream:
        stream.write(line + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def _told(head: Head) -> str:
    return f"`{head.benchmark}` with " + ", ".join(f"{name} {value}" for name, value in sorted(head.options.items()))
