"""The runs of `selfheal solve`, one folder each: what was asked, the events, and what came out.

`run.json` is written before anything is done, after each round, and at the end. The run's process locks the folder, so a run
without an outcome whose folder is not locked was interrupted. The newest `KEPT` runs are kept.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
from platformdirs import user_data_path

from agent.contract.events import AnyEvent
from agent.contract.outcome import Outcome
from agent.models.values import ModelError
from agent.solving.draft import Draft
from agent.solving.solution import Declined, Progress, Solution
from agent.solving.specification import Specification
from app.redaction import hide_shaped, redact, redact_values
from sandbox.base import SandboxError
from sandbox.host.folder_locks import is_in_use, lock_if_abandoned, try_lock

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


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What came out, or what there is so far: then `outcome` is empty."""

    solved: bool = False
    outcome: str = ""
    reason: str = ""
    confidence: float | None = None
    draft: Draft | None = None  # None: the run ended before it had one
    files: dict[str, str] = {}
    tests: dict[str, str] = {}  # empty: not all of them are written
    rounds: list[Round] = []
    bases: list[dict[str, str]] = []
    lessons: list[str] = []
    tokens: int = 0
    cost: float | None = None
    seconds: float = 0.0

    @property
    def last_round(self) -> int:
        """The number of the last round that was judged; 0 without one."""
        return max((each.number for each in self.rounds), default=0)


class Record(msgspec.Struct, frozen=True):
    """One run."""

    id: str
    started_at: datetime
    spec: Specification
    model: str
    options: dict[str, Any]  # as `app.cli.solve.wish.Wish`, without `out`
    iterations: int
    seconds: float
    tokens: int | None = None  # null in older records
    cost: float | None = None
    forked_from: str = ""  # the run that it forks or replays
    from_iteration: int = 0  # 0: it is a replay, or made of no other run
    hint: str = ""
    result: Result | None = None  # None: there is nothing yet

    @property
    def origin(self) -> Literal["", "fork", "replay"]:
        return "" if not self.forked_from else "fork" if self.from_iteration else "replay"

    @property
    def has_ended(self) -> bool:
        return self.result is not None and bool(self.result.outcome)

    @property
    def status(self) -> str:
        """ "running", "interrupted", "solved", or an outcome. Blocks."""
        if self.result is not None and self.has_ended:
            return "solved" if self.result.solved else self.result.outcome
        return "running" if is_in_use(folder() / self.id) else "interrupted"


@dataclass
class Recorder:
    """Writes one run, and holds the lock on its folder until the process ends. A full disk loses the record, never the run."""

    folder: Path
    record: Record
    lock: int
    result: Result = field(default_factory=Result)

    def event(self, event: AnyEvent) -> None:
        told = redact_values({"at": datetime.now(UTC).isoformat(), **msgspec.to_builtins(event)})
        try:
            with (self.folder / "events.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(told) + "\n")
        except OSError:
            return

    def keep(self, progress: Progress) -> None:
        self.write(_result(progress))

    def ended(self, found: Solution) -> None:
        self.write(
            msgspec.structs.replace(
                _result(found),
                solved=found.solved,
                outcome=found.outcome.value,
                reason=redact(found.reason),
                confidence=found.confidence,
                files=dict(found.files),
                seconds=found.seconds,
            )
        )

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record an error that ends the run, with what there was before it."""
        started = time.monotonic()
        try:
            yield
        except BaseException as error:
            seconds = round(time.monotonic() - started, 3)
            self.write(
                msgspec.structs.replace(self.result, outcome=outcome_of(error).value, reason=_reason(error), seconds=seconds)
            )
            raise

    def write(self, result: Result) -> None:
        self.result = result
        with suppress(OSError):
            _write(self.folder, msgspec.structs.replace(self.record, result=result))


def outcome_of(error: BaseException) -> Outcome:
    if isinstance(error, Declined | asyncio.CancelledError | KeyboardInterrupt):
        return Outcome.CANCELLED
    is_outage = isinstance(error, SandboxError) or (isinstance(error, ModelError) and error.is_outage)
    return Outcome.INFRASTRUCTURE if is_outage else Outcome.ERROR


def _reason(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        return "The run was stopped."
    return redact(str(error) or type(error).__name__)


def folder() -> Path:
    return user_data_path("selfheal") / "runs"


def begin(record: Record) -> Recorder | None:
    """Write the request. None if the folder cannot be written or locked."""
    mine = folder() / record.id
    try:
        mine.mkdir(parents=True, mode=0o700)
        if (lock := try_lock(mine, fcntl.LOCK_EX)) is None:
            return None
        _write(mine, record)
        for old in sorted(_folders(), key=lambda each: each.stat().st_mtime, reverse=True)[KEPT:]:
            _remove(old)
    except OSError:
        return None
    return Recorder(mine, record, lock)


def _remove(old: Path) -> None:
    """Remove the folder of a run that does not go on."""
    if (lock := lock_if_abandoned(old)) is not None:
        shutil.rmtree(old, ignore_errors=True)
        os.close(lock)


def new_id() -> str:
    return uuid.uuid4().hex


def all_runs() -> list[Record]:
    """Newest first. Folders without a readable record are left out."""
    found = [record for each in _folders() if (record := _read(each)) is not None]
    return sorted(found, key=lambda record: record.started_at, reverse=True)


def find(prefix: str) -> Record:
    """The run whose id starts so. Raises `NoSuchRun`."""
    found = [record for record in all_runs() if prefix and record.id.startswith(prefix)]
    if len(found) > 1:
        raise NoSuchRun(f"{prefix!r} begins the ids of {len(found)} runs; give more of the id")
    if not found:
        raise NoSuchRun(f"no id of a run begins with {prefix!r}; `selfheal runs list` shows the ids")
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
    new.write_bytes(msgspec.json.encode(hide_shaped(msgspec.to_builtins(record))))
    new.replace(mine / "run.json")


def _result(found: Progress) -> Result:
    bases: list[dict[str, str]] = []
    rounds = []
    for each, base in zip(found.iterations, found.bases, strict=True):
        if dict(base) not in bases:
            bases.append(dict(base))
        at = bases.index(dict(base))
        rounds.append(Round(each.number, each.rung, each.title, each.diff, each.result, each.lesson, at))
    return Result(
        draft=found.draft if found.draft.files else None,
        tests=dict(found.tests),
        rounds=rounds,
        bases=bases,
        lessons=list(found.lessons),
        tokens=found.usage.tokens_in + found.usage.tokens_out,
        cost=found.usage.cost,
    )
