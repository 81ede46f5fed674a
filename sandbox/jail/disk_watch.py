"""Watches how much a command writes to folders on disk, which have no limit that the kernel keeps.

Measuring a large tree takes seconds. So the file system's free space, which the kernel always knows, decides when to measure:
at once if it fell by more than is left, and otherwise about once a second. Deleted files count too as long as a process has
them open. If a process hides its descriptors from us, which needs no permission, all that the file system lost since the start
counts. What only a memory mapping keeps is not seen.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from sandbox.base import LimitExceeded
from sandbox.jail.stage import TOP, Stage

LOOK_SECONDS = 0.1
_MEASURE_SECONDS = 1.0
_PAUSES = 4  # the time between two measurements, in multiples of the last one's: a large tree must not keep us busy
BLOCK = 512  # bytes in a unit of `st_blocks`


class DiskWatch:
    """Together, `folders` of the stage may grow to `limit` bytes."""

    def __init__(self, stage: Stage, folders: Sequence[str], limit: int) -> None:
        self._stage, self._folders, self._limit = stage, folders, limit
        self._used = self._free = 0  # bytes, at the last measurement
        self._free_before = 0
        self._due = self._earliest = 0.0  # of the next one
        self._process: int | None = None

    def started(self, process: int) -> None:
        """Tell it the process whose descendants write."""
        self._process, self._free_before = process, self._free_bytes()

    async def look(self) -> None:
        """Measure if it may be necessary. Raises `LimitExceeded`, `SandboxUnavailable`."""
        free, now = self._free_bytes(), time.monotonic()
        if now < (self._earliest if self._free - free > self._limit - self._used else self._due):
            return
        await self.measure()
        took = time.monotonic() - now
        self._free, self._earliest, self._due = free, now + 2 * took, now + max(_MEASURE_SECONDS, (1 + _PAUSES) * took)

    def _free_bytes(self) -> int:
        about = [os.statvfs(f"/proc/self/fd/{self._stage.top}/{each.removeprefix(TOP)}") for each in self._folders]
        return min(each.f_bfree * each.f_frsize for each in about)

    async def measure(self) -> None:
        """Raises `LimitExceeded`, `SandboxUnavailable`."""
        self._used = await self._stage.used_bytes(self._folders)
        if self._used <= self._limit and self._process is not None:
            deleted = await asyncio.to_thread(_deleted_bytes, self._process)
            self._used = max(self._used, self._free_before - self._free_bytes()) if deleted is None else self._used + deleted
        if self._used > self._limit:
            raise LimitExceeded("disk", self._limit)


def _deleted_bytes(process: int) -> int | None:
    """Space on disks of deleted files that the process or its descendants have open; None if one hides its descriptors."""
    found: dict[tuple[int, int], int] = {}
    for pid in _descendants(process):
        try:
            with suppress(FileNotFoundError, ProcessLookupError), os.scandir(f"/proc/{pid}/fd") as opened:  # it may have ended
                for entry in opened:
                    with suppress(OSError):
                        what = os.stat(entry.path)
                        if stat.S_ISREG(what.st_mode) and not what.st_nlink:
                            found[what.st_dev, what.st_ino] = what.st_blocks * BLOCK
        except PermissionError:
            if _is_of_the_code(pid):
                return None
    return sum(found.values())


def _is_of_the_code(pid: int) -> bool:
    """Whether a process is one of the sandbox's own processes, besides the first, which is ours and never readable."""
    with suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        pids = next((line.split()[1:] for line in file if line.startswith(b"NSpid:")), [])
        return len(pids) > 1 and pids[-1] != b"1"
    return False


def _descendants(process: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                children.setdefault(int(file.read().rpartition(b")")[2].split()[1]), []).append(int(name))
    waiting = [process]
    while waiting:
        yield (pid := waiting.pop())
        waiting += children.get(pid, ())
