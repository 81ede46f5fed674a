"""Where downloads and environments stay between attempts: one folder an answer, never changed once it is kept.

A folder is called by its question and when it was made (`QUESTION-NANOSECONDS-TOKEN`; `new-…` while it is being filled), and is
locked as long as somebody uses it: what is swept is what nobody holds. Knows nothing of packages. Everything here blocks.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from sandbox.host.folder_locks import abandoned, locked

BOUND = 5 * 1024**3  # bytes of all answers together, as far as nobody uses them
_NEW = "new-"


@dataclass(frozen=True, slots=True)
class Held:
    """A folder that stays until it is put back. `made` is in seconds since 1970."""

    folder: Path
    made: float
    lock: int


def newest(cache: Path, question: str) -> Held | None:
    """The last answer that was kept. Raises `OSError` where it cannot be held."""
    for folder in sorted(cache.glob(f"{question}-*"), reverse=True):
        if held := _hold(folder):
            return held
    return None


def begin(cache: Path, question: str) -> Held:
    """An empty folder for a new answer; unless it is kept, it goes when it is put back. Raises `OSError`."""
    cache.mkdir(0o755, parents=True, exist_ok=True)
    while True:
        folder = cache / f"{_NEW}{question}-{time.time_ns():020d}-{token_hex(6)}"
        folder.mkdir(0o755)
        if (held := _hold(folder)) is not None:  # else it was cleared away in this very moment
            return held


def keep(held: Held) -> Held:
    """Make the folder the answer to its question."""
    folder = held.folder.with_name(held.folder.name.removeprefix(_NEW))
    held.folder.rename(folder)
    return Held(folder, held.made, held.lock)


def put_back(held: Held | None) -> None:
    """Say that it is not used any more; one that was not kept is removed. Nothing is put back for nothing."""
    if held is None:
        return
    if held.folder.name.startswith(_NEW):
        shutil.rmtree(held.folder, ignore_errors=True)
    os.close(held.lock)


def clear(cache: Path) -> None:
    """Remove what dead workers left half done."""
    for folder in cache.glob(f"{_NEW}*"):
        _remove_unless_used(folder)


def sweep(cache: Path) -> None:
    """Remove what dead workers left half done, answers that have a newer one, and the oldest ones above `BOUND`."""
    clear(cache)
    answered: set[str] = set()
    total = 0
    kept = [folder for folder in cache.iterdir() if not folder.name.startswith(_NEW)]
    for folder in sorted(kept, key=_made, reverse=True):
        question = folder.name.rpartition("-")[0].rpartition("-")[0]
        is_left = question in answered
        answered.add(question)
        total += 0 if is_left else _size(folder)
        if is_left or total > BOUND:
            _remove_unless_used(folder)


def _made(folder: Path) -> float:
    """When it was made, in seconds since 1970, by its name; a folder of another form is older than any."""
    when = folder.name.rpartition("-")[0].rpartition("-")[2]
    return int(when) / 1e9 if when.isdecimal() else 0.0


def _size(folder: Path) -> int:
    try:
        return sum(path.lstat().st_size for path in folder.rglob("*"))
    except OSError:  # another worker sweeps too
        return 0


def _hold(folder: Path) -> Held | None:
    """None when it has gone, or is just being removed."""
    lock = locked(folder, fcntl.LOCK_SH)
    return None if lock is None else Held(folder, _made(folder), lock)


def _remove_unless_used(folder: Path) -> None:
    if (lock := abandoned(folder)) is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
