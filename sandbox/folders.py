"""One folder per open sandbox, locked by its worker: an unlocked folder belongs to a dead worker.

The lock is on the folder itself, so the folder never exists without something to lock.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from sandbox.base import Limits
from sandbox.host import disk
from sandbox.host.folder_locks import acquire, is_left_over, lock_if_abandoned, try_lock
from sandbox.install import folder_cache
from sandbox.jail import cgroup

GROUP = "group"


@dataclass(frozen=True, slots=True)
class SandboxFolder:
    """A folder and the descriptor that holds its lock."""

    path: Path
    lock: int

    def record_group(self, group: cgroup.Group) -> None:
        """Record the control group's path, because a sweeper in another group could not derive it."""
        (self.path / GROUP).write_text(f"{group.memory}\n{group.pids}\n")

    def remove(self) -> None:
        """Remove the folder, then release the lock, so that no sweeper finds it half removed and unlocked. Blocks."""
        try:
            disk.remove(self.path)
        finally:
            os.close(self.lock)


@asynccontextmanager
async def open_folder(
    parent: Path, label: str, limits: Limits | None
) -> AsyncIterator[tuple[SandboxFolder, cgroup.Group | None]]:
    """A folder with its control group (None if unavailable, or without `limits`), removed after the block.

    Cancellation while they are created leaves nothing behind.
    """
    both = await acquire(lambda: _make_both(parent, label, limits), _remove_both)
    try:
        yield both
    finally:
        await asyncio.to_thread(_remove_both, both)


def _make_both(parent: Path, label: str, limits: Limits | None) -> tuple[SandboxFolder, cgroup.Group | None]:
    folder = make(parent, label)
    if limits is None:
        return folder, None
    name = folder.path.name
    try:
        if planned := cgroup.find(name):
            folder.record_group(planned)  # before creating it, so that a crash leaves no unknown group
        return folder, cgroup.make(name, limits)
    except BaseException:  # such as a full disk; no sweeper removes a folder that a live worker has locked
        folder.remove()
        raise


def _remove_both(both: tuple[SandboxFolder, cgroup.Group | None]) -> None:
    folder, group = both
    if group is not None:
        group.remove()
    folder.remove()


def make(parent: Path, label: str) -> SandboxFolder:
    """Create a folder below `parent`, named after `label`. Blocks. Raises `OSError`."""
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    prefix = re.sub("[^A-Za-z0-9]+", "-", label)[:40].strip("-") or "sandbox"
    while True:
        path = parent / f"{prefix}-{token_hex(6)}"
        disk.make_folder(path, 0o711)
        if (lock := try_lock(path, fcntl.LOCK_EX)) is not None:  # else a sweeper locked it first and removes it
            return SandboxFolder(path, lock)


def sweep(parent: Path) -> None:
    """Remove dead workers' folders below `parent`, with their control groups. Blocks."""
    for path in parent.glob("*/"):
        if (lock := lock_if_abandoned(path)) is None:
            continue
        try:
            with suppress(OSError, ValueError):
                memory, pids = (Path(line) for line in (path / GROUP).read_text().splitlines())
                cgroup.Group(memory, pids, unified=memory == pids).remove()
            disk.remove(path)
        finally:
            os.close(lock)


def abandoned(parent: Path) -> list[Path]:
    """Dead workers' folders below `parent`: those that no sweep has removed. Blocks."""
    return [path for path in sorted(parent.glob("*/")) if is_left_over(path)]


def leftovers(folder: Path) -> list[Path]:
    """What ended sandboxes of this folder left on this machine's disk and no sweep could remove yet. Blocks."""
    found = [path for parent in (folder / "open", folder / "e2b") for path in abandoned(parent)]
    caches = (folder / "packages").glob("*/")
    return [*found, *(path for cache in caches for path in folder_cache.unfinished(cache))]
