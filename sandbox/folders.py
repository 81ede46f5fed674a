"""One folder per open sandbox, locked by the worker that made it: who finds it unlocked knows that its worker is dead.

The lock is on the folder itself, so that there is no moment, at its beginning or its end, when it is there without one to ask.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from sandbox.base import Limits
from sandbox.host.folder_locks import abandoned, locked
from sandbox.jail import cgroup
from sandbox.taking import taken

GROUP = "group"
SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Held:
    """A folder of ours and its descriptor, which holds the lock."""

    path: Path
    lock: int

    def note(self, group: cgroup.Group) -> None:
        """Write down which control group goes with it: a sweeper may itself be in another one, and look elsewhere."""
        (self.path / GROUP).write_text(f"{group.memory}\n{group.pids}\n")

    def remove(self) -> None:
        """Blocks. The lock goes last, so that a sweeper never meets a half-removed folder that looks abandoned."""
        remove(self.path)
        os.close(self.lock)


@asynccontextmanager
async def held(parent: Path, label: str, limits: Limits | None) -> AsyncIterator[tuple[Held, cgroup.Group | None]]:
    """A folder of ours with its control group (None where none can be had, or there are no `limits`) while the block runs.

    Whoever stops waiting while they are being made leaves nothing behind.
    """
    both = await taken(lambda: _make_both(parent, label, limits), _remove_both)
    try:
        yield both
    finally:
        await asyncio.to_thread(_remove_both, both)


def _make_both(parent: Path, label: str, limits: Limits | None) -> tuple[Held, cgroup.Group | None]:
    folder = make(parent, label)
    if limits is None:
        return folder, None
    name = folder.path.name
    try:
        if planned := cgroup.find(name):
            folder.note(planned)  # before it is made: whoever dies in between leaves no group that nobody knows of
        return folder, cgroup.make(name, limits)
    except BaseException:  # a full disk: as long as this worker lives, nobody else would remove what it holds
        folder.remove()
        raise


def _remove_both(both: tuple[Held, cgroup.Group | None]) -> None:
    folder, group = both
    if group is not None:
        group.remove()
    folder.remove()


def make(parent: Path, label: str) -> Held:
    """A fresh folder below `parent`, with a name that people recognise. Blocks. Raises `OSError`."""
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    beginning = re.sub("[^A-Za-z0-9]+", "-", label)[:40].strip("-") or "sandbox"
    while True:
        path = parent / f"{beginning}-{token_hex(6)}"
        path.mkdir(mode=0o711)
        if (lock := locked(path, fcntl.LOCK_EX)) is not None:  # else a sweeper met it in this very moment, and removes it
            return Held(path, lock)


def is_held(path: Path) -> bool:
    """Whether the worker that made the folder at `path` still has it. Blocks."""
    if (lock := abandoned(path)) is not None:
        os.close(lock)
        return False
    return path.is_dir()


def sweep(parent: Path) -> None:
    """Remove what dead workers left below `parent`: folders, and the control groups that go with them. Blocks."""
    for path in parent.glob("*/"):
        if (lock := abandoned(path)) is None:
            continue
        with suppress(OSError, ValueError):
            memory, pids = (Path(line) for line in (path / GROUP).read_text().splitlines())
            cgroup.Group(memory, pids, unified=memory == pids).remove()
        remove(path)
        os.close(lock)


def remove(path: Path) -> None:
    """Remove a tree. Blocks. By `rm`, which walks by descriptors and does not mind how deep a hostile tree is."""
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            ["/bin/rm", "-rf", "--one-file-system", "--", str(path)], timeout=SECONDS, check=False, stderr=subprocess.DEVNULL
        )
