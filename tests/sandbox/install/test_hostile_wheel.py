"""A wheel whose code runs while its bytecode is compiled: it costs the attempt that asked for it and nothing else."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from sandbox.backends import open_sandboxes
from sandbox.base import Command, InstallFailed, LimitExceeded, Packages
from sandbox.folders import leftovers
from tests.sandbox.conftest import FILES, LIMITS, make, tarball
from tests.sandbox.index import Index

DEEP = """
import os, sys
top = os.path.join(sys.prefix, "lib", ".git")
if not os.path.exists(top):
    os.mkdir(top)
    here = os.open(top, os.O_RDONLY)
    for _ in range({}):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
"""


@pytest.mark.long
@pytest.mark.parametrize("depth", [1200, 3000])
async def test_others_install_after_it_and_workers_start(depth: int, index: Index, hostile_path: Path) -> None:
    index.add_wheel("hostile", **{"hostile.pth": f"import sys; exec({DEEP.format(depth)!r})\n"})
    index.add_wheel("answering", "value = 42")
    sandboxes = make("local", hostile_path, index.access)
    async with sandboxes.open("hostile", LIMITS) as sandbox:
        await sandbox.unpack(tarball(FILES))
        with suppress(InstallFailed, LimitExceeded):  # its own attempt may fail
            await sandbox.install(Packages(requirements=("hostile",)))
    again = await open_sandboxes("local", hostile_path)
    assert again
    for _ in range(2):
        async with make("local", hostile_path, index.access).open("after", LIMITS) as sandbox:
            await sandbox.unpack(tarball(FILES))
            await sandbox.install(Packages(requirements=("answering",)))
            ran = await sandbox.base.run(Command((sandbox.base.python, "-c", "import answering; print(answering.value)"), 20.0))
            assert ran.stdout == b"42\n"
    assert leftovers(hostile_path) == []
