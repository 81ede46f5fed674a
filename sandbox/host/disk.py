"""Removes and measures trees that hostile code may have made. Everything here blocks and raises nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def remove(path: Path) -> bool:
    """Remove a file or a tree of any depth; returns whether it is gone."""
    subprocess.run(["/bin/rm", "-rf", "--one-file-system", "--", str(path)], check=False, stderr=subprocess.DEVNULL)
    return not os.path.lexists(path)


def size(path: Path, at_most: int) -> int:
    """Bytes of all files below `path`, counted until they exceed `at_most`. What vanishes meanwhile is not counted."""
    total, waiting = 0, [str(path)]
    while waiting and total <= at_most:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
    return total
