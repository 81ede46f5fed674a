"""What a command of the install step writes to the disk counts, wherever it hides it, and is stopped in time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.base import MIB, Command, LimitExceeded, Limits
from tests.sandbox.conftest import FILES, make, tarball
from tests.tiers import long_but

LIMITS = Limits(memory=256 * MIB, disk=100 * MIB)
WRITE = "for n in $(seq 40); do head -c 20000000 /dev/zero > {}$n; done; sleep 60"
HIDDEN = {
    "in .git": f"mkdir .git; {WRITE.format('.git/x')}",
    "in a deep folder": "python3 -c 'import os\nfor _ in range(1500): os.mkdir(\"d\"); os.chdir(\"d\")\n"
    "for n in range(40): open(str(n), \"wb\").write(bytes(20000000))'; sleep 60",
    "in a folder that nobody may read": f"mkdir a; exec 5<a; cd a; chmod 0300 .; {WRITE.format('x')}",
    "in deleted files": "python3 -c 'import os, time\nfor n in range(40):\n f = os.open(\"x\", os.O_RDWR | os.O_CREAT); "
    "os.unlink(\"x\"); os.write(f, bytes(20000000))\ntime.sleep(60)'",
    "in deleted files of a process that hides them": "python3 -c 'import ctypes, os, time\nctypes.CDLL(None).prctl(4, 0)\n"
    "for n in range(40):\n f = os.open(\"x\", os.O_RDWR | os.O_CREAT); os.unlink(\"x\"); os.write(f, bytes(20000000))\n"
    "time.sleep(60)'",
    "in many empty files": "python3 -c 'for n in range(30000): open(str(n), \"w\")'; sleep 60",
}  # fmt: skip


@pytest.mark.parametrize("where", long_but(HIDDEN, *(HIDDEN.keys() - {"in many empty files"})))
async def test_what_is_written_counts(where: str, hostile_path: Path) -> None:
    limits = replace(LIMITS, disk=10 * MIB) if "empty" in where else LIMITS
    async with make("local", hostile_path).open("disk", limits) as sandbox:
        await sandbox.unpack(tarball(FILES))
        with pytest.raises(LimitExceeded, match="disk"):
            await sandbox.amend(Command(("/bin/sh", "-c", HIDDEN[where]), 50.0))


async def test_what_stays_below_the_limit_is_no_matter(hostile_path: Path) -> None:
    async with make("local", hostile_path).open("disk", LIMITS) as sandbox:
        await sandbox.unpack(tarball(FILES))
        script = "for n in 1 2 3 4 5 6; do head -c 60000000 /dev/zero > x; rm x; done; truncate -s 900M holes"
        assert (await sandbox.amend(Command(("/bin/sh", "-c", script), 50.0))).exit_code == 0
