"""Intended changes with the tests from before: what is a task, and what the judge says about a repair."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.bench import stale
from agent.bench.lab import BadInput, Labs, Skipped
from agent.contract.budget import Usage
from agent.contract.outcome import Evidence, ReflectionLog, Repair
from agent.contract.proposal import Diagnosis, FileChange
from tests.agent.bench.test_history import commit, git

pytestmark = pytest.mark.asyncio(loop_scope="session")

OLD = "def greet(name):\n    return 'Hello ' + name\n"
NEW = "def greet(name):\n    return 'Hello, ' + name\n"
OLD_TEST = "from hello import greet\n\n\ndef test_greet():\n    assert greet('A') == 'Hello A'\n"
NEW_TEST = OLD_TEST.replace("'Hello A'", "'Hello, A'")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    root.mkdir()
    git(root, "init", "-q")
    commit(root, hello__py=OLD, test_hello__py=OLD_TEST)
    return root


def repair(after: str) -> Repair:
    edits = (FileChange("hello.py", NEW, after),)
    return Repair(edits, "", Diagnosis("", "", 0.5, ""), Evidence((), ""), 0.9, Usage(), ReflectionLog(None, (), (), ()))


@pytest.mark.long
async def test_a_repair_for_the_old_tests_undoes_the_change(labs: Labs, checkout: Path) -> None:
    changed = commit(checkout, hello__py=NEW, test_hello__py=NEW_TEST)
    commit(checkout, hello__py=NEW + "\n\nX = 1\n", test_hello__py=NEW_TEST + "\n\ndef test_x():\n    pass\n")
    renamed = commit(checkout, hello__py=NEW + "\n\nX = 2\n", test_hello__py=NEW_TEST + "\n\ndef test_y():\n    pass\n")
    bench = await stale.load(checkout, 2)
    assert list(bench.groups) == [renamed, changed], "a commit that only adds tests makes no test outdated"
    with pytest.raises(Skipped, match="its old tests pass with the new code"):
        async with bench.trial(next(iter(bench.groups)), labs):
            pass
    async with bench.trial(changed, labs) as trial:
        files = trial.specimen.files
        assert (files["hello.py"].content.decode(), files["test_hello.py"].content.decode()) == (NEW, OLD_TEST)
        (good,) = trial.specimen.good
        assert [(file.path, file.before) for file in good.files] == [("hello.py", OLD.encode())]
        undone = await trial.judge(repair(OLD))
        assert (undone.heldout_correct, undone.details["reversed"]) == (False, True)
        kept = await trial.judge(repair(NEW.replace("'Hello, '", '"Hello, "')))
        assert (kept.heldout_correct, kept.details["reversed"]) == (True, False)


async def test_a_history_without_such_commits_is_refused(checkout: Path) -> None:
    commit(checkout, hello__py=NEW)
    with pytest.raises(BadInput, match="no commit that changes code and existing tests"):
        await stale.load(checkout, 1)


@pytest.mark.long
async def test_a_test_that_always_fails_is_left_out(labs: Labs, checkout: Path) -> None:
    always = "\n\ndef test_net():\n    assert not 'reached'\n"
    commit(checkout, hello__py=OLD, test_hello__py=OLD_TEST + always)
    changed = commit(checkout, hello__py=NEW, test_hello__py=NEW_TEST + always)
    bench = await stale.load(checkout, 1)
    async with bench.trial(changed, labs) as trial:
        assert "test_net" not in trial.specimen.files["test_hello.py"].content.decode()
        assert [file.path for file in trial.specimen.good[0].files] == ["hello.py"]
