"""Where the control groups are looked for; that they bound is shown by `test_local`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from sandbox.base import Limits
from sandbox.jail import cgroup
from tests.sandbox.conftest import until


def v2(mount: Path, own: str, parent: str) -> None:
    (mount / "a/b").mkdir(parents=True)
    (mount / "a/b/cgroup.subtree_control").write_text(own)
    (mount / "a/cgroup.subtree_control").write_text(parent)


@pytest.mark.parametrize(
    ("own", "parent", "where"),
    [("memory pids", "memory pids", "a/b"), ("", "cpu memory pids", "a"), ("", "memory", None), ("", "", None)],
)
def test_v2_uses_the_nearest_group_that_hands_its_controllers_on(
    tmp_path: Path, own: str, parent: str, where: str | None
) -> None:
    v2(tmp_path, own, parent)
    found = cgroup.find("x", tmp_path, "0::/a/b\n")
    assert (found and found.folders) == (where and (tmp_path / where / "selfheal-x",))


def test_v2_never_leaves_the_mount(tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    (tmp_path / "cgroup.subtree_control").write_text("memory pids")
    assert cgroup.find("x", mount, "0::/\n") is None


def test_v1_falls_back_to_the_top_of_the_mount_in_a_container(tmp_path: Path) -> None:
    for controller in ("memory", "pids"):
        (tmp_path / controller).mkdir()
    found = cgroup.find("x", tmp_path, "8:pids:/docker/abc\n4:memory:/docker/abc\n0::/\n")
    assert found is not None
    assert found.folders == (tmp_path / "memory/selfheal-x", tmp_path / "pids/selfheal-x")


def test_without_controllers_there_is_no_group(tmp_path: Path) -> None:
    assert cgroup.make("x", Limits(), tmp_path, "1:name=systemd:/\n") is None


@pytest.mark.optional(reason="needs a control group")
async def test_a_real_group_counts_kills_and_goes() -> None:
    group = cgroup.make(f"test-{os.getpid()}", Limits(memory=64 << 20, processes=50))
    if group is None:
        pytest.skip("no control group available here")
    try:
        below = group.child("one")
        process = await asyncio.create_subprocess_exec(*below.join, "sleep", "60")
        await until(lambda: bool((below.memory / "cgroup.procs").read_text()))
        assert below.memory_kills() == 0
    finally:
        await asyncio.to_thread(group.remove)
    assert await process.wait() == -9
    assert not any(folder.exists() for folder in group.folders)
