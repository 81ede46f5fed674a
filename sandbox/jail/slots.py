"""One uid per open sandbox, when the worker is root.

Per-user limits apply to everything under one uid, so each sandbox gets its own. Workers on one machine coordinate by file
locks, which the kernel releases when a worker dies.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.base import SandboxUnavailable

# A range that no distribution hands out: above ordinary users, below systemd's dynamic users (61184).
FIRST_UID = 60_600
SLOTS = 500
LOCKS = Path("/run/selfheal-slots")


@contextmanager
def uid_of_a_free_slot(locks: Path = LOCKS) -> Iterator[int]:
    """A uid exclusive to this context on this machine. Raises `SandboxUnavailable`."""
    locks.mkdir(mode=0o700, exist_ok=True)
    for slot in range(SLOTS):
        descriptor = os.open(locks / str(slot), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        try:
            yield FIRST_UID + slot
        finally:
            os.close(descriptor)
        return
    raise SandboxUnavailable(f"all {SLOTS} sandbox slots of this machine are in use", retry_after=30.0)
