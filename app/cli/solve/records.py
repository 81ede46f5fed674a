"""The runs of `selfheal solve`, one folder each: what was asked, the events, and what came out.

`run.json` is written before anything is done, and again at the end, so a run that was killed is listed as unfinished. The
newest `KEPT` runs are kept.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from platformdirs import user_data_path

from agent.contract.events import AnyEvent
from agent.solving.draft import Draft
from agent.solving.solve import Solution
from agent.solving.specification import Specification
from app.redaction import redact

KEPT = 200


class NoSuchRun(Exception):
    """The run cannot be used; the message says why and what to do."""


class Round(msgspec.Struct, frozen=True):
    """One answer that was judged."""

    number: int
    rung: str
    title: str
    diff: str
    result: str
    lesson: str
    base: int  # index in `Result.bases`


class Result(msgspec.Struct, frozen=True):
    """What came out."""

    solved: bool
    outcome: str
    reason: str
    confidence: float | None
    draft: Draft
    files: dict[str, str]
    tests: dict[str, str]
    rounds: list[Round]
    bases: list[dict[str, str]]
    lessons: list[str]
    tokens: int
    cost: float | None
    seconds: float


class Record(msgspec.Struct, frozen=True):
    """One run. `result` is null until it ends."""

    id: str
    started_at: datetime
    spec: Specification
    model: str
    options: dict[str, Any]  # as `app.cli.solve.wish.Wish`, without `out`
    iterations: int
    seconds: float
    tokens: int | None = None  # null in older records
    cost: float | None = None
    forked_from: str = ""
    from_iteration: int = 0
    hint: str = ""
    result: Result | None = None

    @property
    def status(self) -> str:
        if self.result is None:
            return "unfinished"
        return "solved" if self.result.solved else self.result.outcome


@dataclass(frozen=True, slots=True)
class Recorder:
    """Writes one run. A full disk loses the record, never the run."""

    folder: Path
    record: Record

    def event(self, event: AnyEvent) -> None:
        line = json.dumps({"at": datetime.now(UTC).isoformat(), **msgspec.to_builtins(event)})
        try:
            with (self.folder / "events.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(redact(line) + "\n")
        except OSError:
            return

    def ended(self, found: Solution) -> None:
        _write(self.folder, msgspec.structs.replace(self.record, result=_result(found)))


def folder() -> Path:
    return user_data_path("selfheal") / "runs"


def begin(record: Record) -> Recorder | None:
    """Write the request. None if the folder cannot be written."""
    mine = folder() / record.id
    try:
        mine.mkdir(parents=True, mode=0o700)
        _write(mine, record)
        for old in sorted(_folders(), key=lambda each: each.stat().st_mtime, reverse=True)[KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError:
        return None
    return Recorder(mine, record)


def new_id() -> str:
    return uuid.uuid4().hex


def all_runs() -> list[Record]:
    """Newest first. Folders without a readable record are left out."""
    found = [record for each in _folders() if (record := _read(each)) is not None]
    return sorted(found, key=lambda record: record.started_at, reverse=True)


def find(prefix: str) -> Record:
    """The run whose id starts so. Raises `NoSuchRun`."""
    found = [record for record in all_runs() if prefix and record.id.startswith(prefix)]
    if len(found) != 1:
        raise NoSuchRun(f"{prefix!r} matches no run, or more than one; `selfheal runs list` shows the ids")
    return found[0]


def events(id_: str) -> list[dict[str, Any]]:
    """What happened, in order."""
    try:
        lines = (folder() / id_ / "events.jsonl").read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return []
    found = []
    for line in lines:
        try:
            found.append(dict(json.loads(line)))
        except (ValueError, TypeError):
            continue  # the run was killed while it wrote the line
    return found


def _folders() -> list[Path]:
    try:
        return [each for each in folder().iterdir() if each.is_dir()]
    except OSError:
        return []


def _read(mine: Path) -> Record | None:
    try:
        return msgspec.json.decode((mine / "run.json").read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError):
        return None


def _write(mine: Path, record: Record) -> None:
    """Replaces the record in one step, so that a reader never sees half of it."""
    new = mine / f".run.json.{os.getpid()}"
    new.write_bytes(msgspec.json.encode(record))
    new.replace(mine / "run.json")


def _result(found: Solution) -> Result:
    bases: list[dict[str, str]] = []
    rounds = []
    for each, base in zip(found.iterations, found.bases, strict=True):
        if dict(base) not in bases:
            bases.append(dict(base))
        at = bases.index(dict(base))
        rounds.append(Round(each.number, each.rung, each.title, each.diff, each.result, each.lesson, at))
    return Result(
        solved=found.solved,
        outcome=found.outcome.value,
        reason=found.reason,
        confidence=found.confidence,
        draft=found.draft,
        files=dict(found.files),
        tests=dict(found.tests),
        rounds=rounds,
        bases=bases,
        lessons=list(found.lessons),
        tokens=found.usage.tokens_in + found.usage.tokens_out,
        cost=found.usage.cost,
        seconds=found.seconds,
    )
