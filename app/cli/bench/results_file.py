"""The file that stores a benchmark's results, so that a stopped run can be resumed.

JSON lines: a header with benchmark and options, then one entry per task. A file can be resumed only with the same header.
Truncated lines are left out; reports say so. If a task has several entries, the last one counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from agent.bench.lab import BadInput
from agent.bench.score import Entry
from agent.contract.words import counted


class ResultsNotSaved(Exception):
    """A result could not be saved; the message says where and why."""


class Header(msgspec.Struct, frozen=True):
    """First line of the file: what is measured, and how."""

    benchmark: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ResultsFile:
    """Entries of earlier runs, and the file to which new ones are appended. Without a file, nothing is saved."""

    file: Path | None = None
    known: Mapping[str, Entry] = field(default_factory=dict)

    def append(self, entry: Entry) -> None:
        """Save one entry immediately. Raises `ResultsNotSaved`."""
        if self.file is None:
            return
        try:
            _write(self.file, msgspec.json.encode(entry))
        except OSError as error:
            raise ResultsNotSaved(
                f"{self.file} can no longer be written: {error.strerror}; a rerun resumes from its saved results"
            ) from error


def open_results(file: Path | None, head: Header) -> ResultsFile:
    """Open or create the file. Entries with an error are dropped, so that their tasks run again. Raises `BadInput`."""
    if file is None:
        return ResultsFile()
    try:
        lines = file.read_bytes().split(b"\n") if file.exists() else []
        if not any(line.strip() for line in lines):
            _write(file, msgspec.json.encode(head))
            return ResultsFile(file)
    except OSError as error:
        raise BadInput(f"{file} cannot store results: {error.strerror}; pass a writable file") from error
    try:
        found = msgspec.json.decode(lines[0], type=Header)
    except msgspec.DecodeError as error:
        raise BadInput(f"{file} is not a results file; pass another file to --resume") from error
    if found != head:
        raise BadInput(
            f"{file} contains results of {_described(found)}, not of {_described(head)}; pass another file to --resume"
        )
    if lines[-1]:  # truncated: start the next entry on a new line
        _write(file, b"")
    return ResultsFile(file, {id_: entry for id_, entry in _last(lines[1:]).items() if entry.error is None})


def stored(file: Path) -> list[Entry]:
    """The results that a benchmark saved, one per task, also those with an error. Raises `BadInput`."""
    header(file)
    return list(_last(file.read_bytes().split(b"\n")[1:]).values())


def header(file: Path) -> Header:
    """What the results are about. Raises `BadInput`."""
    try:
        return msgspec.json.decode(file.read_bytes().split(b"\n")[0], type=Header)
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}; pass a file that `--resume` wrote") from error
    except msgspec.DecodeError as error:
        raise BadInput(f"{file} is not a results file; pass a file that `--resume` wrote") from error


def left_out(file: Path) -> str:
    """A sentence about the lines that cannot be read, or "". Raises `BadInput`."""
    header(file)
    lines = file.read_bytes().split(b"\n")
    numbers = [str(number) for number, line in enumerate(lines[1:], 2) if line and _entry(line) is None]
    named = ", ".join(numbers[:10]) + (" and more" if len(numbers) > 10 else "")
    return f"{file}: left out {counted(len(numbers), 'line')} that cannot be read: {named}." if numbers else ""


def _last(lines: Iterable[bytes]) -> dict[str, Entry]:
    """The last entry of each task, by its id."""
    return {entry.id: entry for line in lines if (entry := _entry(line)) is not None}


def _entry(line: bytes) -> Entry | None:
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(line, type=Entry)
    return None


def _write(file: Path, line: bytes) -> None:
    with file.open("ab") as stream:
        stream.write(line + b"\n")
        stream.flush()
        os.fsync(stream.fileno())


def _described(head: Header) -> str:
    return f"`{head.benchmark}` with " + ", ".join(f"{name} {value}" for name, value in sorted(head.options.items()))
