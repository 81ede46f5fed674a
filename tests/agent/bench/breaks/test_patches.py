"""Bugs that people put into a repository, given as patches."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from agent.bench.breaks import patches
from agent.bench.lab import BadInput, Labs, NotPosed
from agent.contract.budget import Usage
from agent.contract.outcome import Evidence, ReflectionLog, Repair
from agent.contract.proposal import Diagnosis, FileChange

pytestmark = pytest.mark.asyncio(loop_scope="session")

CODE = """\
RATE = 2


def total(prices):
    result = 0
    for price in prices:
        result += price
    return result
"""
TESTS = """\
from shop import total


def test_total():
    assert total([2, 3]) == 5


def test_none():
    assert total([]) == 0
"""
LOST = "--- a/shop.py\n+++ b/shop.py\n@@ -7,2 +7,2 @@\n-        result += price\n+        result = price\n     return result\n"


def git(root: Path, *argv: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-C", str(root), *argv]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "shop.py").write_text(CODE)
    (root / "version.py").write_text(CODE)  # code like any other for people, and none for a program that breaks code
    (root / "test_shop.py").write_text(TESTS)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "a shop")
    return root


def manifest(root: Path, **texts: str) -> Path:
    commit = git(root, "rev-parse", "HEAD")
    file = root.parent / "bugs.json"
    file.write_text(json.dumps([{"id": id_, "commit": commit, "patch": text} for id_, text in texts.items()]))
    return file


def repair(after: str) -> Repair:
    edits = (FileChange("shop.py", CODE.replace("result +=", "result ="), after),)
    return Repair(edits, "", Diagnosis("", "", 0.5, ""), Evidence((), ""), 0.9, Usage(), ReflectionLog(None, (), (), ()))


@pytest.mark.long
async def test_the_engine_gets_the_broken_commit_and_the_judge_knows_the_right_one(labs: Labs, checkout: Path) -> None:
    bench = patches.load(checkout, manifest(checkout, lost=LOST))
    async with bench.trial("lost", labs) as trial:
        assert b"result = price" in trial.specimen.files["shop.py"].content
        assert not trial.specimen.good, "no commit is known at which the tests pass"
        right = await trial.judge(repair(CODE.replace("result += price", "result = result + price")))
        assert right.heldout_correct is True, right.how
        wrong = await trial.judge(repair(CODE.replace("result += price", "result = 5 if price == 3 else price")))
        assert wrong.heldout_correct is False, wrong.how
        assert wrong.details["function"] == "total"


@pytest.mark.long
async def test_a_test_that_fails_without_the_bug_too_is_left_out(labs: Labs, checkout: Path) -> None:
    (checkout / "test_shop.py").write_text(
        f"{TESTS}\n\ndef test_here():\n    assert RATE == 3\n".replace("total\n", "RATE, total\n", 1)
    )
    git(checkout, "commit", "-qam", "a test that fails here")
    async with patches.load(checkout, manifest(checkout, lost=LOST)).trial("lost", labs) as trial:
        assert (
            trial.specimen.files["test_shop.py"].content.decode().rstrip() == TESTS.replace("total", "RATE, total", 1).rstrip()
        )
        right = await trial.judge(repair(CODE))
        assert right.heldout_correct is True, right.how


@pytest.mark.parametrize(
    ("patch", "told"),
    [
        (LOST.replace("-        result +=", "-        result -="), "does not apply"),
        (LOST.replace("+        result = price", "+        result += price  # so"), "must change the program"),
        (
            LOST.replace("+        result = price", "+        result += price  # so").replace("shop", "version"),
            "must change the program",
        ),
        (LOST.replace("shop.py", "test_shop.py"), "does not apply"),
        ("", "exactly one file"),
    ],
)
async def test_a_patch_that_is_no_bug_is_not_posed(labs: Labs, checkout: Path, patch: str, told: str) -> None:
    bench = patches.load(checkout, manifest(checkout, wrong=patch))
    with pytest.raises(NotPosed, match=told):
        async with bench.trial("wrong", labs):
            pass


@pytest.mark.parametrize(
    ("text", "told"), [("{", "not a list of patches"), ("[]", "at least one patch"), (None, "cannot be read")]
)
async def test_a_manifest_that_is_none_is_named(checkout: Path, tmp_path: Path, text: str | None, told: str) -> None:
    file = tmp_path / "bugs.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(BadInput, match=told):
        patches.load(checkout, file)
