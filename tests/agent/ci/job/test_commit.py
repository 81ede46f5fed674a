"""The commit that a workspace is made of: what tools that ask git see, and what it is left out for."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.ci.job import commit
from agent.ci.job.commit import commit_workspace
from agent.ci.job.contexts import Run
from sandbox.base import Command, Sandbox, Workspace
from tests.sandbox.conftest import make, tarball

FILES = {"a.py": b"x = 1\n", "kept.log": b"tracked all the same\n", ".gitignore": b"*.log\n", "win.txt": b"a\r\nb\r\n"}

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


@pytest.fixture(params=["local", "process"])
async def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with make(request.param, tmp_path).open("commit") as opened:
        await opened.unpack(tarball(FILES))
        yield opened


async def said(workspace: Workspace, script: str) -> tuple[int, str]:
    ended = await workspace.run(Command(("/bin/sh", "-c", script), 30.0))
    return ended.exit_code, ended.stdout.decode().strip()


async def test_it_is_clean_and_tells_what_changed(sandbox: Sandbox) -> None:
    assert await commit_workspace(sandbox, Run(branch="feature/one", repository="owner/name")) == ""
    async with sandbox.candidate() as workspace:
        assert await said(workspace, "git diff --exit-code && git diff-files --quiet && git status --porcelain") == (0, "")
        assert (await said(workspace, "git ls-files"))[1].split() == sorted(FILES)
        assert (await said(workspace, "git rev-list --count --all"))[1] == "1"
        assert (await said(workspace, "git rev-parse --is-shallow-repository"))[1] == "true"
        assert (await said(workspace, "git rev-parse --abbrev-ref HEAD"))[1] == "feature/one"
        assert (await said(workspace, "git remote get-url origin"))[1] == "https://github.com/owner/name"
        assert (await said(workspace, "git rev-parse origin/feature/one HEAD | uniq | wc -l"))[1] == "1"
        assert (await said(workspace, "git describe --tags"))[0] != 0
        assert (await said(workspace, "ls .git/hooks"))[0] != 0
        await workspace.write("a.py", b"x = 2\n")
        assert (await said(workspace, "git diff --exit-code --name-only"))[1] == "a.py"
    assert {entry.path for entry in await sandbox.base.files()} == FILES.keys()


async def test_the_newest_tag_is_found_as_a_release(sandbox: Sandbox) -> None:
    assert await commit_workspace(sandbox, Run(branch="main", tag="v1.2.3")) == ""
    assert await said(sandbox.base, "git describe") == (0, "v1.2.3")


@pytest.mark.parametrize("tag", ["-d", "a..b", "x y", "$(touch pwned)", "--help", "a~1"])
async def test_a_name_that_is_no_tag_is_left(sandbox: Sandbox, tag: str) -> None:
    assert await commit_workspace(sandbox, Run(branch="main", tag=tag)) == ""
    async with sandbox.candidate() as workspace:
        assert await said(workspace, "git tag && test ! -e pwned") == (0, "")


@pytest.mark.parametrize(
    "run", [Run(), Run(branch="main", event="pull_request"), Run(branch="no such..name", repository="$(x)")]
)
async def test_without_a_branch_the_head_is_detached(sandbox: Sandbox, run: Run) -> None:
    assert await commit_workspace(sandbox, run) == ""
    assert await said(sandbox.base, "git rev-parse --abbrev-ref HEAD; git for-each-ref; git remote") == (0, "HEAD")


async def test_the_same_files_are_the_same_commit(tmp_path: Path) -> None:
    ids = set()
    for number in range(2):
        async with make("process", tmp_path / str(number)).open("commit") as opened:
            await opened.unpack(tarball(FILES))
            await commit_workspace(opened, Run())
            ids.add(await said(opened.base, "git rev-parse HEAD"))
    assert len(ids) == 1


@pytest.mark.long
async def test_where_it_cannot_be_made_nothing_is_left_and_it_is_said(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit, "_SCRIPT", commit._SCRIPT.replace("git commit", "sleep 9; git commit"))
    monkeypatch.setattr(commit, "SECONDS", 3.0)
    assert "took longer than 3 s" in await commit_workspace(sandbox, Run())
    assert (await said(sandbox.base, "ls -d .git"))[0] != 0
    monkeypatch.setattr(commit, "_SCRIPT", "mkdir .git; echo out of luck >&2; exit 1")
    assert await commit_workspace(sandbox, Run()) == f"{commit.WITHOUT}: git failed (out of luck)"
    assert (await said(sandbox.base, "ls -d .git"))[0] != 0


async def test_a_sandbox_without_git_is_told(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(commit._ENVIRONMENT, "PATH", "/nowhere")
    assert await commit_workspace(sandbox, Run()) == f"{commit.WITHOUT}: the sandbox has no git"
