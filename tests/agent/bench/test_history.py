"""A checkout's own history: which commits are tasks, and how a repair stands beside the authors' commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agent.bench import history
from agent.bench.lab import BadInput, Labs, Skipped, text_of
from agent.contract.budget import Usage
from agent.contract.outcome import Evidence, ReflectionLog, Repair
from agent.contract.proposal import Diagnosis, FileChange

pytestmark = pytest.mark.asyncio(loop_scope="session")

CODE = "def add(a, b):\n    return a - b\n"
TESTS = "from calc import add\n\n\ndef test_nothing():\n    assert add(2, 0) == 2\n"
MORE = f"{TESTS}\n\ndef test_add():\n    assert add(2, 3) == 5\n"


def git(root: Path, *argv: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-C", str(root), *argv]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(root: Path, **files: str) -> str:
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "a change")
    return git(root, "rev-parse", "HEAD")[:12]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "-q")
    commit(root, calc__py=CODE, test_calc__py=TESTS, README__md="one\n")
    return root


def repair(after: str) -> Repair:
    edits = (FileChange("calc.py", CODE, after),)
    return Repair(edits, "", Diagnosis("", "", 0.5, ""), Evidence((), ""), 0.9, Usage(), ReflectionLog(None, (), (), ()))


@pytest.mark.long
async def test_a_fix_with_its_test_is_a_task_and_others_are_not(labs: Labs, checkout: Path, tmp_path: Path) -> None:
    feature = commit(checkout, other__py="x = 1\n")
    fix = commit(checkout, calc__py=CODE.replace("a - b", "a + b"), test_calc__py=MORE)
    commit(checkout, README__md="two\n")
    # None of these may run or be seen in what is read.
    git(checkout, "config", "filter.shout.smudge", f"touch {tmp_path}/smudged; tr a-z A-Z")
    git(checkout, "config", "diff.shout.textconv", f"touch {tmp_path}/converted; cat")
    git(checkout, "config", "core.fsmonitor", f"touch {tmp_path}/monitored; false")
    (checkout / ".git/info/attributes").write_text("*.py filter=shout diff=shout export-ignore\n")
    bench = await history.load(checkout, 5)
    assert bench.groups == {fix: "code and tests", feature: "code"}
    async with bench.trial(fix, labs) as trial:
        files = {path: file.content.decode() for path, file in trial.specimen.files.items()}
        assert (files["calc.py"], files["test_calc.py"], files["README.md"]) == (CODE, MORE, "one\n")
        same = await trial.judge(repair(CODE.replace("a - b", "a + b")))
        assert (same.heldout_correct, same.details["same_lines"]) == (True, True)
        longer = await trial.judge(repair(CODE.replace("return a - b", "c = a + b\n    return c")))
        assert (longer.heldout_correct, longer.details["same_lines"]) == (True, False)
        assert (longer.details["changed_lines"], longer.details["authors_changed_lines"]) == (3, 2)
        wrong = await trial.judge(repair(CODE.replace("a - b", "a * b")))
        assert (wrong.heldout_correct, wrong.details["target_green"]) == (False, False)
        assert "2 failed" in wrong.details["printed"]
    with pytest.raises(Skipped, match="pass on its parent too"):
        async with bench.trial(feature, labs):
            pass
    assert [file.name for file in tmp_path.iterdir()] == ["checkout"], "nothing that git's configuration names was run"


@pytest.mark.long
async def test_what_fails_at_the_commit_too_is_no_task(labs: Labs, checkout: Path) -> None:
    half = commit(checkout, calc__py="def add(a, b):\n    return a + 0\n", test_calc__py=MORE)
    with pytest.raises(Skipped, match=r"test_calc\.py::test_add fails after the fix too"):
        async with (await history.load(checkout, 1)).trial(half, labs):
            pass


async def test_files_come_as_they_were_committed(checkout: Path) -> None:
    odd = 'na\u00efve "file".py'
    (checkout / odd).write_bytes(b"\xff\x00\n")
    (checkout / "tool.sh").write_text("true\n")
    (checkout / "tool.sh").chmod(0o755)
    (checkout / "link").symlink_to("/etc/passwd")
    commit(checkout)
    (last, *_) = await history.commits(checkout, 5)
    files = await history.files(checkout, last.id)
    assert files[odd].content == b"\xff\x00\n"
    assert (files["tool.sh"].executable, files["calc.py"].executable) == (True, False)
    assert "link" not in files


async def test_links_inside_the_repository_come_as_links(checkout: Path) -> None:
    (checkout / "docs").mkdir()
    (checkout / "docs" / "index.rst").write_text("text\n")
    (checkout / "README.rst").symlink_to("docs/index.rst")
    commit(checkout)
    (last, *_) = await history.commits(checkout, 5)
    link = (await history.files(checkout, last.id))["README.rst"]
    assert (link.link, link.content) == (True, b"docs/index.rst")
    assert text_of(link) is None


async def test_the_newest_tag_before_a_commit_is_known(checkout: Path) -> None:
    first = commit(checkout, calc__py="x = 1\n")
    assert await history.tag_of(checkout, first) == ""
    git(checkout, "tag", "v2.10.3")
    last = commit(checkout, calc__py="x = 2\n")
    assert await history.tag_of(checkout, last) == "v2.10.3"


@pytest.mark.parametrize("made", [None, "folder", "empty"])
async def test_what_is_no_checkout_with_commits_is_named(made: str | None, tmp_path: Path) -> None:
    root = tmp_path / "here"
    if made:
        root.mkdir()
    if made == "empty":
        git(root, "init", "-q")
    with pytest.raises(BadInput, match="here is not a git checkout with commits"):
        await history.load(root, 3)


async def test_the_checkouts_configuration_is_followed_or_refused(checkout: Path) -> None:
    (checkout / ".github").mkdir()
    (checkout / ".github/selfheal.yml").write_text("test: python -m pytest -k nothing\n")
    commit(checkout, calc__py="x = 1\n")
    assert history.read_checkout(checkout).test[0].run == "python -m pytest -k nothing"
    (checkout / ".github/selfheal.yml").write_text("tests: 1\n")
    with pytest.raises(BadInput, match="unknown key; correct it"):
        await history.load(checkout, 1)
