"""What is planted, and marked, harms nothing that is there."""

from __future__ import annotations

import asyncio
import fcntl
import sys
from pathlib import Path

from sandbox.proof.canaries import planted

TRIES = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


async def test_a_file_that_is_marked_keeps_the_locks_that_this_process_has_on_it(tmp_path: Path) -> None:
    database, missing = tmp_path / "selfheal.db", tmp_path / "missing"
    database.write_bytes(b"rows")
    with database.open("r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        async with planted((tmp_path,), (database, missing)) as canaries:
            assert canaries.files[str(database)]["inode"] == database.stat().st_ino
            assert str(missing) not in canaries.files
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", TRIES, str(database), stderr=asyncio.subprocess.DEVNULL
        )
        assert await other.wait() == 1, "another process has its lock"
