"""What every sandbox promises of files: the way in, the way out, and what hostile code may have left."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from sandbox.base import Command, LimitExceeded, Sandbox, UnsafeArchive
from sandbox.host.tree import INSTALLED
from tests.sandbox.conftest import MIB, chunks, sh, tarball
from tests.sandbox.contract.backends import Backend

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.long
async def test_writes_keep_or_set_the_mode_and_commands_see_them(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        await workspace.write("run.sh", b"#!/bin/sh\necho new\n")
        await workspace.write("deep/down/tool", b"#!/bin/sh\necho tool\n", executable=True)
        await workspace.remove("a.txt")
        await workspace.remove("never/was/there")
        ended = await sh(workspace, "./run.sh; deep/down/tool; ls")
        assert ended.stdout == b"new\ntool\ndeep\npkg\nrun.sh\n"
        modes = {entry.path: entry.executable for entry in await workspace.files()}
        assert modes == {"run.sh": True, "deep/down/tool": True, "pkg/b.bin": False}


@pytest.mark.parametrize("path", ["../up", "/etc/passwd", "a/../../b", "", ".", "nul\0"])
async def test_paths_that_leave_are_refused(sandbox: Sandbox, path: str) -> None:
    with pytest.raises(ValueError, match="inside the workspace"):
        await sandbox.base.read(path)
    with pytest.raises(ValueError, match="inside the workspace"):
        await sandbox.base.write(path, b"")


async def test_links_pipes_and_second_names_are_not_followed(sandbox: Sandbox, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("host")
    async with sandbox.candidate() as workspace:
        script = f"ln -s {secret} link; ln -s {tmp_path} dir; mkfifo pipe; ln run.sh second; ln -s .. up; mkdir folder"
        assert (await sh(workspace, script)).exit_code == 0
        # Where files are read through an engine, a second name can only be of a file that is inside as well.
        second_names = () if sandbox.isolation.name == "docker" else ("second", "run.sh")
        for path in ("link", "dir/secret", "pipe", *second_names, "up/a.txt", "folder"):
            with pytest.raises(ValueError, match=r".+"):
                await workspace.read(path)
        for path in ("link", "dir/secret", "dir/new", "up/new", "pipe"):
            with pytest.raises(ValueError, match=r".+"):
                await workspace.write(path, b"mine")
        await workspace.remove("link")
        with pytest.raises(FileNotFoundError):
            await workspace.read("missing")
        listed = {entry.path: entry.link for entry in await workspace.files()}
    assert secret.read_text() == "host"
    assert "pipe" not in listed
    assert listed["dir"] is True


async def test_of_node_modules_only_what_was_installed_is_not_listed(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        for folder in ("node_modules", "web/node_modules", "test/fixtures/node_modules", "my_node_modules"):
            await workspace.write(f"{folder}/x/index.js", b"")
            await workspace.write(f"{folder}/x/node_modules/y.js", b"")
        assert (await sh(workspace, f": >node_modules/{INSTALLED}; : >web/node_modules/{INSTALLED}")).exit_code == 0
        assert (await sh(workspace, f": >my_node_modules/{INSTALLED}")).exit_code == 0
        own = ("test/fixtures/node_modules", "my_node_modules")
        expected = {f"{folder}/x/{name}" for folder in own for name in ("index.js", "node_modules/y.js")}
        listed = {entry.path for entry in await workspace.files()}
        assert listed - {f"my_node_modules/{INSTALLED}", "a.txt", "run.sh", "pkg/b.bin"} == expected


async def test_a_file_larger_than_asked_for_is_refused(sandbox: Sandbox) -> None:
    async with sandbox.candidate() as workspace:
        await workspace.write("big", b"x" * 5_000_000)
        assert len(await workspace.read("big")) == 5_000_000
        with pytest.raises(LimitExceeded):
            await workspace.read("big", limit=4_999_999)


async def test_archives_are_unpacked_without_git_and_with_harmless_links(backend: Backend) -> None:
    async with backend.sandboxes.open("unpack") as sandbox:
        await sandbox.unpack(tarball({"a.txt": b"1", ".git/config": b"[core]\n", "sub/.GIT/hooks/x": b"", "x.sh": b""}))
        assert [entry.path for entry in await sandbox.base.files()] == ["a.txt", "x.sh"]
        assert [entry.executable for entry in await sandbox.base.files()] == [False, True]


async def test_an_unsafe_archive_is_refused(backend: Backend) -> None:
    async with backend.sandboxes.open("unsafe") as sandbox:
        with pytest.raises(UnsafeArchive):
            await sandbox.unpack(tarball({"../../x": b""}))
        with pytest.raises(UnsafeArchive):
            await sandbox.unpack(chunks(b"<html>not found</html>"))


async def test_a_tool_is_at_the_same_path_everywhere_and_cannot_be_changed(sandbox: Sandbox) -> None:
    path = await sandbox.provide("tool.py", b"print('tool')")
    with pytest.raises(ValueError, match="plain name"):
        await sandbox.provide("sub/tool.py", b"")
    async with sandbox.candidate() as one, sandbox.candidate() as other:
        for workspace in (one, other):
            assert (await workspace.run(Command(("cat", path), 10.0))).stdout == b"print('tool')"
        if sandbox.isolation.untrusted:
            assert (await sh(one, f"echo x > {path} || rm {path}")).exit_code != 0


@pytest.mark.long
async def test_a_file_of_64_mib_goes_both_ways(backend: Backend) -> None:
    content = random.Random(1).randbytes(64 * MIB)
    async with backend.sandboxes.open("contract") as sandbox, sandbox.candidate() as workspace:
        await workspace.write("big.bin", content)
        assert (await sh(workspace, "sha256sum < big.bin")).stdout.split()[0].decode() == hashlib.sha256(content).hexdigest()
        assert await workspace.read("big.bin", limit=64 * MIB) == content
        with pytest.raises(LimitExceeded):
            await workspace.read("big.bin", limit=64 * MIB - 1)
