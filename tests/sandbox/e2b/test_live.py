"""The real E2B, once: where a key is at hand. The template must have been made (`python -m deploy.e2b.build`)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox.base import Command, DeadlinePassed, Packages
from sandbox.e2b.plan import Account
from sandbox.e2b.sandboxes import E2BSandboxes
from sandbox.install.package_index import configured
from sandbox.install.packages import PackageStore
from tests.sandbox.conftest import FILES, sh, tarball


@pytest.mark.optional(reason="needs E2B_API_KEY and the built template")
async def test_a_repository_is_installed_run_and_thrown_away_at_e2b(tmp_path: Path) -> None:
    if not (key := os.environ.get("E2B_API_KEY")):
        pytest.skip("E2B_API_KEY is not set")
    account = Account(key, os.environ.get("SELFHEAL_TEST_E2B_TEMPLATE", "selfheal"))
    sandboxes = E2BSandboxes(tmp_path / "open", PackageStore(tmp_path / "packages", await configured()), account)
    async with sandboxes.open("live smoke test") as sandbox:
        await sandbox.unpack(tarball(FILES))
        await sandbox.install(Packages(requirements=("iniconfig",)))
        async with sandbox.candidate() as one, sandbox.candidate() as other:
            ended = await one.run(Command((one.python, "-c", "import iniconfig, os; print(os.getcwd())"), 60.0))
            assert ended.stdout == f"{one.root}\n".encode(), ended.stderr
            await sh(one, "echo changed > a.txt")
            assert await other.read("a.txt") == FILES["a.txt"]
            out = "import socket; socket.create_connection(('1.1.1.1', 443), 5)"
            assert (await one.run(Command((one.python, "-c", out), 60.0))).exit_code == 1
            with pytest.raises(DeadlinePassed):
                await sh(one, "sleep 60", timeout=2.0)
