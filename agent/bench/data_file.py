"""Reads the data file of a benchmark: JSON Lines, gzipped or not, with one task in each line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from agent.bench.lab import BadInput

MOST = 64 * 1024 * 1024  # bytes of an unpacked file


class HasId(Protocol):
    @property
    def task_id(self) -> int | str: ...


T = TypeVar("T", bound=HasId)


class FunctionLine(msgspec.Struct):
    """What all forms of HumanEval have."""

    task_id: str
    prompt: str
    test: str
    entry_point: str

    def __post_init__(self) -> None:
        if not self.entry_point.isidentifier():
            raise ValueError(f"`entry_point` is {self.entry_point[:50]!r}, which is no name of a function")


def read_lines(file: Path, kind: type[T], name: str) -> list[T]:
    """The tasks. Raises `BadInput`, which names the line."""
    try:
        with gzip.open(file, "rb") if file.name.endswith(".gz") else file.open("rb") as stream:
            lines = stream.read(MOST).split(b"\n")
    except (OSError, EOFError, zlib.error) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise BadInput(f"{file} cannot be read: {why}; give the JSON Lines file of {name}") from error
    found: dict[int, T] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found[number] = msgspec.json.decode(line.decode(), type=kind)
            except UnicodeDecodeError as error:
                raise BadInput(f"{file}, line {number}: it is not UTF-8 text; give the JSON Lines file of {name}") from error
            except msgspec.DecodeError as error:  # also raised for a missing field
                raise BadInput(f"{file}, line {number}: {error}; give one JSON object per line, as in {name}") from error
    if not found:
        raise BadInput(f"{file} contains no task; give the JSON Lines file of {name}")
    check_ids(found, f"{file}, line")
    return list(found.values())


def check_ids(tasks: Mapping[int, HasId], where: str) -> None:
    """Raises `BadInput` if an id occurs twice; `tasks` are by their numbers in the file."""
    known: dict[int | str, int] = {}
    for number, task in tasks.items():
        if (first := known.setdefault(task.task_id, number)) != number:
            raise BadInput(f"{where} {number}: its id {task.task_id} is also that of {first}; remove one of the two")
