"""What processes hold and burn, from Linux's /proc."""

from __future__ import annotations

import os
from pathlib import Path


def pss(pid: int) -> float:
    """Megabytes of memory: what is its own, and its share of what it has in common with others. Raises `OSError`."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ProcessLookupError(pid)


def below(pid: int) -> list[int]:
    """All its descendants."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # it has just ended
        return []
    return children + [further for child in children for further in below(child)]


def total(pids: list[int]) -> float:
    """Megabytes of those that are still there."""
    megabytes = 0.0
    for pid in pids:
        try:
            megabytes += pss(pid)
        except OSError:
            continue
    return megabytes


def cpu_seconds(pid: int) -> float:
    """Of the process and its threads, in user and system mode, since it started. Raises `OSError`."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
