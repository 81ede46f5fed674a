"""The files of the last good commit, read from the failing one's workspace and GitHub's patches."""

from __future__ import annotations

from pathlib import Path

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from agent.case import Case
from agent.contract.budget import Budget
from agent.contract.last_good import ChangedFile, LastGood
from agent.edits import originals
from agent.edits.originals import read_originals
from agent.engine import Engine
from app.cli.checkout import checkout
from sandbox.base import Command, Limits
from sandbox.install.package_index import configured
from sandbox.install.packages import PackageStore
from sandbox.process import ProcessSandboxes
from tests.agent.workbench import sandbox_with

NOW = {"calc.py": "one\r\ntwo\n", "moved.py": "same\nnew\n", "empty.py": ""}
EDITED = ChangedFile("calc.py", patch="@@ -1,2 +1,2 @@\n one\r\n-three\n\\ No newline at end of file\n+two")


async def read(folder: Path, *files: ChangedFile) -> tuple[tuple[ChangedFile, ...], tuple[str, ...]]:
    async with sandbox_with(folder, NOW) as sandbox:
        good, notes = await read_originals(sandbox.base, (LastGood("commit 1234567890", files, passed_in_ci=True),))
    assert all(commit.name == "commit 1234567890" and commit.passed_in_ci for commit in good)
    return tuple(file for commit in good for file in commit.files), notes


async def test_every_kind_of_change_leads_back_to_the_exact_bytes(tmp_path: Path) -> None:
    gone = ChangedFile("gone.py", patch="@@ -1 +0,0 @@\n-was here")
    emptied = ChangedFile("empty.py", patch="@@ -1 +0,0 @@\n-full")
    renamed = ChangedFile("old.py", patch="@@ -1,2 +1,2 @@\n same\n-old\n+new", renamed_to="moved.py")
    only_renamed = ChangedFile("former.py", patch="", renamed_to="calc.py")
    known = ChangedFile("picture.png", b"\xff\x00")
    added = ChangedFile("moved.py")
    assert await read(tmp_path, EDITED, gone, emptied, renamed, only_renamed, known, added) == (
        (
            ChangedFile("calc.py", b"one\r\nthree"),
            ChangedFile("gone.py", b"was here\n"),
            ChangedFile("empty.py", b"full\n"),
            ChangedFile("old.py", b"same\nold\n"),
            ChangedFile("former.py", b"one\r\ntwo\n"),
            known,
            added,
        ),
        (),
    )


async def test_a_file_that_the_archive_leaves_out_is_left_out(tmp_path: Path) -> None:
    exported = ChangedFile("tests/never_exported.py", patch="@@ -1 +1 @@\n-a\n+b")
    assert await read(tmp_path, EDITED, exported) == ((ChangedFile("calc.py", b"one\r\nthree"),), ())


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (ChangedFile("moved.py", patch="@@ -1 +1 @@\n-a\n+b"), "moved.py: Line 1 of the text differs"),
        (ChangedFile("../outside", patch="@@ -1 +1 @@\n-a\n+b"), "is not a file in the repository"),
        (ChangedFile("moved.py", patch="@@ -1 +1 @@"), "moved.py: A hunk of the patch"),
        (ChangedFile("link.py", patch="@@ -1 +1 @@\n-moved.py\n\\ No newline\n+calc.py\n\\ No newline"), "link"),
    ],
)
async def test_a_file_that_cannot_be_read_costs_only_itself(tmp_path: Path, file: ChangedFile, says: str) -> None:
    async with sandbox_with(tmp_path, NOW) as sandbox:
        await sandbox.base.run(Command(("ln", "-s", "calc.py", "link.py"), 10.0))
        known = (LastGood("commit 1234567890", (EDITED, file)), LastGood("commit 2", (file,)))
        (good,), notes = await read_originals(sandbox.base, known)
    assert good.files == (ChangedFile("calc.py", b"one\r\nthree"),)
    assert good.unread == (file.path,)
    assert notes[0].startswith("The difference from commit 1234567890 was not read as a whole: ")
    assert notes[1].startswith("The difference from commit 2 could not be read: ")
    assert says in notes[0]


async def test_both_halves_of_a_renamed_file_stay_if_the_old_one_cannot_be_read(tmp_path: Path) -> None:
    renamed = ChangedFile("old.py", patch="@@ -1 +1 @@\n-a\n+b", renamed_to="moved.py")
    async with sandbox_with(tmp_path, NOW) as sandbox:
        known = LastGood("commit 1", (EDITED, renamed, ChangedFile("moved.py")))
        (good,), _ = await read_originals(sandbox.base, (known,))
    assert [file.path for file in good.files] == ["calc.py"]
    assert good.unread == ("old.py", "moved.py")


async def test_a_changed_file_with_the_same_content_changed_its_mode(tmp_path: Path) -> None:
    async with sandbox_with(tmp_path, NOW) as sandbox:
        await sandbox.base.write("run.sh", b"true\n", executable=True)
        files = (ChangedFile("run.sh", b"true\n"), ChangedFile("calc.py", NOW["calc.py"].encode()), ChangedFile("a.bin", b"\0"))
        (good,), _ = await read_originals(sandbox.base, (LastGood("commit 1", files),))
    assert [file.executable for file in good.files] == [False, True, None]


async def test_what_is_kept_in_memory_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(originals, "MOST_BYTES", 15)
    files, (note,) = await read(tmp_path, EDITED, ChangedFile("former.py", patch="", renamed_to="calc.py"))
    assert files == ()
    assert "larger than" in note


async def test_a_prepared_task_has_the_readable_commits_without_patches(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (repository / "test_calc.py").write_text(
        "import unittest, calc\n\nclass Tests(unittest.TestCase):\n    def test(self):\n        assert calc.add(2, 3) == 5\n"
    )
    patch = "@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a + b\n+    return a - b"
    right = LastGood("commit 1", (ChangedFile("calc.py", patch=patch),), passed_in_ci=True)
    wrong = LastGood("commit 2", (ChangedFile("calc.py", patch=patch.replace("-    return a", "-    return b") + "?"),))
    sandboxes = ProcessSandboxes(tmp_path / "open", PackageStore(tmp_path / "wheels", await configured()))
    engine = Engine(sandboxes, None, InMemorySaver(), Budget(seconds=120.0), Limits())
    case = Case("c", "sample", checkout.packed(repository), command="python -m unittest", good=(right, wrong))

    async def ignore(_: object) -> None:
        pass

    reproduction = await engine.reproduce(case, emit=ignore)

    assert reproduction.prepared is not None
    task = reproduction.prepared.task
    assert task.good == (
        LastGood("commit 1", (ChangedFile("calc.py", b"def add(a, b):\n    return a + b\n"),), passed_in_ci=True),
    )
    assert any(note.startswith("The difference from commit 2 could not be read") for note in task.approximated)
