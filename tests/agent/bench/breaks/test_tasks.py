"""Breaks in real commits of a real repository, run in real sandboxes, and what the judge says about repairs of them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agent.bench.breaks import posing, tasks
from agent.bench.lab import BadInput, Labs, NoTask, Skipped, Specimen, Trial
from agent.contract import words
from agent.contract.budget import Usage
from agent.contract.last_good import Culprit
from agent.contract.outcome import Evidence, Iteration, NoRepair, Outcome, ReflectionLog, Repair
from agent.contract.proposal import Diagnosis, FileChange, Span

pytestmark = pytest.mark.asyncio(loop_scope="session")

OLD = """\
def total(prices, discount=0):
    result = 0
    for price in prices:
        result += price
    return result - discount


def label(name):
    return name.upper()


def unused(a, b):
    return a + b - 1
"""
NEW = OLD.replace("return name.upper()", 'if not name:\n        raise ValueError("no name")\n    return name.strip().upper()')
TESTS = """\
import pytest

from shelf import label, total


def test_empty():
    assert total([]) == 0


def test_two():
    assert total([2, 3]) == 5


def test_three():
    assert total([2, 3, 4]) == 9


def test_discount():
    assert total([2, 3], 1) == 4


def test_label():
    assert label("a") == "A"


def test_spaces():
    assert label(" b ") == "B"


def test_no_name():
    with pytest.raises(ValueError):
        label("")


@pytest.mark.parametrize("n", range(6))
def test_more(n):
    assert total([n]) + 0 == n or n == 0
"""


def git(root: Path, *argv: str) -> str:
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-C", str(root), *argv]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (root / name).write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "a change")
    return git(root, "rev-parse", "HEAD")[:12]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("shelf")
    git(root, "init", "-q")
    commit(root, {"shelf.py": OLD, "test_shelf.py": TESTS})
    commit(root, {"shelf.py": NEW})
    commit(root, {"README.md": "one\n"})
    return root


def log(*notes: str, verified: bool = False) -> ReflectionLog:
    rounds = (Iteration(1, "patterns", "", "", "verified"),) if verified else ()
    return ReflectionLog(None, rounds, (), (), notes)


def repair(specimen: Specimen, text: str) -> Repair:
    edits = (FileChange("shelf.py", specimen.files["shelf.py"].content.decode(), text),)
    return Repair(edits, "", Diagnosis("", "", 0.5, ""), Evidence((), ""), 0.95, Usage(), log())


async def given_up(trial: Trial, culprit: Culprit | None = None, *notes: str, verified: bool = False) -> dict[str, object]:
    ended = NoRepair(Outcome.GAVE_UP, "", "", Usage(), log(*notes, verified=verified), culprit=culprit)
    judgement = await trial.judged(ended)
    assert judgement is not None
    assert judgement.heldout_correct is None
    return {name: judgement.details[name] for name in ("located", "found", "withheld", "reversed")}


@pytest.mark.long
async def test_a_break_of_covered_code_is_a_task_and_its_repair_is_judged(labs: Labs, checkout: Path) -> None:
    bench = await tasks.load(checkout, 2, seed=4)
    first = git(checkout, "rev-parse", "HEAD~1")[:12]
    assert list(bench.groups) == [f"{first}-1", f"{first}-2", f"{first}-3"], (
        "the other commits change no code, or have no parent"
    )
    async with bench.trial(f"{first}-1", labs) as trial:
        files, broken = trial.specimen.files, trial.specimen.files["shelf.py"].content.decode()
        assert broken != NEW
        assert broken.endswith(NEW[NEW.index("def unused") :]), "no test covers it"
        (good,) = trial.specimen.good
        assert (good.name, good.passed_in_ci) == (f"the parent commit {git(checkout, 'rev-parse', 'HEAD~2')[:12]}", True)
        assert {file.path: file.before for file in good.files} == {"shelf.py": OLD.encode()}
        held_out = TESTS.count("\ndef test") - files["test_shelf.py"].content.decode().count("\ndef test")

        same = await trial.judge(repair(trial.specimen, NEW + "\n# The same program.\n"))
        assert (same.heldout_correct, same.details["located"], same.details["reversed"]) == (True, True, False)
        assert same.details["red"] > same.details["held_out"] >= held_out
        back = await trial.judge(repair(trial.specimen, OLD))
        assert (back.heldout_correct, back.details["reversed"]) == (False, True)
        assert back.how == "it takes the commit back"
        other = await trial.judge(
            repair(trial.specimen, broken.replace("def label(name):\n", "def label(name):\n    return 1\n"))
        )
        assert (other.heldout_correct, other.details["reversed"]) == (False, False)
        assert "differs from the original, of 13 results" in other.how

        nothing = {"located": False, "found": False, "withheld": False, "reversed": False}
        assert await given_up(trial) == nothing
        path, _, line = same.details["place"].partition(":")
        at = Span(path, int(line.split("-")[0]), int(line.split("-")[-1]), 1.0, "runs in failing tests only", "f")
        note = f"Suspicious locations, most suspicious first: {words.location(at)} ({at.reason})."
        assert await given_up(trial, None, "Failing: x.", note) == {**nothing, "located": True}
        assert await given_up(trial, verified=True) == {**nothing, "withheld": True}
        right = Culprit("", (FileChange("shelf.py", broken, NEW),), (at,), 2, 9)
        assert await given_up(trial, right) == {**nothing, "located": True, "found": True, "withheld": True}
        most = replace(right, lines=11, of=21)
        assert await given_up(trial, most) == {**nothing, "found": True, "withheld": True}, "most of the change is no line"
        wrong = replace(right, reversal=(FileChange("shelf.py", broken, OLD),), places=(Span(path, 15, 15, 1.0, ""),))
        assert await given_up(trial, wrong) == {**nothing, "withheld": True}


@pytest.mark.long
async def test_the_same_seed_sets_up_the_same_tasks(labs: Labs, checkout: Path) -> None:
    shown = []
    for seed in (1, 1, 2, 3):
        bench = await tasks.load(checkout, 3, seed)
        for id_ in list(bench.groups)[:2]:  # only two functions are covered
            async with bench.trial(id_, labs) as trial:
                shown.append((trial.group, trial.specimen.files["shelf.py"]))
    assert shown[0][1] != shown[1][1], "no break is there twice"
    assert shown[:2] == shown[2:4]
    assert shown[:2] != shown[4:6] or shown[:2] != shown[6:], "other seeds give other tasks"


@pytest.mark.long
async def test_a_commit_with_failing_tests_is_passed_over(labs: Labs, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    commit(tmp_path, {"shelf.py": OLD, "test_shelf.py": TESTS})
    red = commit(tmp_path, {"shelf.py": OLD.replace("return result", "return 7")})
    bench = await tasks.load(tmp_path, 1, seed=0)
    with pytest.raises(Skipped, match=r"\d of its tests fail without a break, such as test_shelf.py::test_"):
        async with bench.trial(f"{red}-1", labs):
            pass
    with pytest.raises(NoTask, match="of its tests fail"):
        async with bench.trial(f"{red}-2", labs):
            pass


@pytest.mark.long
async def test_few_failing_tests_are_left_out(labs: Labs, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    more = TESTS.replace("range(6)", "range(40)")
    commit(tmp_path, {"shelf.py": OLD, "test_shelf.py": more, "test_far.py": "import far_away\n"})
    red = commit(tmp_path, {"shelf.py": OLD.replace("name.upper()", "name.strip().upper()")})
    bench = await tasks.load(tmp_path, 1, seed=0)
    async with bench.trial(f"{red}-1", labs) as trial:
        (good,) = trial.specimen.good
        names = {file.path for file in good.files}
        assert names == {"shelf.py"} or names == {"shelf.py", "test_shelf.py"}
        assert "test_far.py" not in trial.specimen.files
        assert b"def test_no_name" not in trial.specimen.files["test_shelf.py"].content
        assert not any(b"def test_no_name" in (file.before or b"") for file in good.files)


@pytest.mark.long
async def test_after_two_suites_that_do_not_finish_no_more_are_tried(
    labs: Labs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posing, "SLOWEST", 1.0)
    git(tmp_path, "init", "-q")
    for number in range(4):
        slow = "import time\ntime.sleep(9)\n"
        commit(tmp_path, {"shelf.py": f"{OLD}\nN = {number}\n", "test_shelf.py": slow + TESTS})
    bench = await tasks.load(tmp_path, 1, seed=0)
    ends: list[type[Exception]] = []
    for id_ in list(bench.groups)[::3]:
        with pytest.raises(Skipped, match="its tests did not finish within 1 s") as raised:
            async with bench.trial(id_, labs):
                pass
        ends.append(raised.type)
    assert ends == [posing.Unfinished, posing.Unfinished, NoTask]


@pytest.mark.parametrize(
    ("history", "said"),
    [
        ([{"a.txt": "1"}, {"a.txt": "2"}], "has no Python code besides tests"),
        ([{"test_a.py": "x = 1\n"}], "has no Python code besides tests"),
        ([{"a.py": "x = 1\n"}, {"a.py": "x = 2\n"}], "has no Python tests; a break needs tests that notice it"),
        ([{"a.py": "x = 1\n", "test_a.py": ""}], "has no commit that changes Python code and has a parent"),
    ],
)
async def test_a_checkout_without_anything_to_break_is_refused(
    history: list[dict[str, str]], said: str, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q")
    for files in history:
        commit(tmp_path, files)
    with pytest.raises(BadInput, match=said):
        await tasks.load(tmp_path, 1, seed=0)


async def test_a_shallow_clone_says_how_to_get_the_history(checkout: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{checkout}", "clone")
    with pytest.raises(BadInput, match="is a shallow clone without the history that is needed; run `git fetch --unshallow`"):
        await tasks.load(tmp_path / "clone", 1, seed=0)
