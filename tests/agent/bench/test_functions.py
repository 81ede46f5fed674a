"""Single functions: what is shown, what is held out, and who decides."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from agent.bench import humanevalfix, quixbugs
from agent.bench.differential import Function, compare, mutations
from agent.bench.functions import CONFIGURATION
from agent.bench.lab import BadInput, Labs, NotPosed
from agent.contract.budget import Usage
from agent.contract.outcome import Evidence, ReflectionLog, Repair
from agent.contract.proposal import Diagnosis, FileChange
from agent.source.archive import File

pytestmark = pytest.mark.asyncio(loop_scope="session")

TASK = {
    "task_id": "Python/900",
    "prompt": 'def top(numbers):\n    """The largest of the numbers, 0 of none."""\n',
    "canonical_solution": "    return max(numbers, default=0)\n",
    "buggy_solution": "    return min(numbers, default=0)\n",
    "test": "def check(top):\n    assert top([]) == 0\n    assert top([1, 5, 2]) == 5\n    assert top([4]) == 4\n"
    "    assert top([-3, -1]) == -1\n    assert top([2, 2]) == 2\n\ncheck(top)\n",
    "entry_point": "top",
    "bug_type": "function misuse",
}


def data(folder: Path, *tasks: object) -> Path:
    file = folder / "tasks.jsonl"
    file.write_text("\n".join(json.dumps(task) for task in tasks) + "\n")
    return file


def repair(before: str, after: str, path: str = "solution.py") -> Repair:
    log = ReflectionLog(None, (), (), ())
    edits = (FileChange(path, before, after),)
    return Repair(edits, "", Diagnosis("", "", 0.5, ""), Evidence((), ""), 0.9, Usage(), log)


@pytest.mark.long
async def test_half_shows_a_failing_test_and_judges_by_the_rest(labs: Labs, tmp_path: Path) -> None:
    bench = humanevalfix.load(data(tmp_path, TASK), "half")
    assert bench.groups == {"Python/900": "function misuse"}
    async with bench.trial("Python/900", labs) as trial:
        files = {path: file.content.decode() for path, file in trial.specimen.files.items()}
        # Both failing tests are of the second parity.
        assert [name in files["test_solution.py"] for name in ("test_1", "test_2", "test_3", "test_4", "test_5")] == [
            False, True, False, True, False,
        ]  # fmt: skip
        buggy = files["solution.py"]
        assert buggy == str(TASK["prompt"]) + str(TASK["buggy_solution"])
        right = await trial.judge(repair(buggy, buggy.replace("min", "max")))
        assert (right.heldout_correct, right.how) == (
            True,
            "3 of 3 held-out tests pass; the same as the reference on 187 inputs",
        )
        wrong = await trial.judge(
            repair(buggy, "def top(numbers):\n    return {1: -1, 5: 5}[abs(numbers[1]) if numbers else 0]\n")
        )
        assert (wrong.heldout_correct, wrong.how) == (False, "0 of 3 held-out tests pass")
        assert "3 failed" in wrong.details["printed"]
        hanging = await trial.judge(repair(buggy, "def top(numbers):\n    while True:\n        pass\n"))
        assert hanging.heldout_correct is False


@pytest.mark.long
async def test_with_all_tests_shown_the_reference_decides(labs: Labs, tmp_path: Path) -> None:
    bench = humanevalfix.load(data(tmp_path, TASK), "all")
    async with bench.trial("Python/900", labs) as trial:
        assert trial.specimen.files["test_solution.py"].content.count(b"def test_") == 5
        assert b"max" not in b"".join(file.content for file in trial.specimen.files.values())
        right = await trial.judge(
            repair("", "def top(numbers):\n    return sorted([*numbers, *([] if numbers else [0])])[-1]\n")
        )
        assert right.heldout_correct is True, right.how
        # It passes every test, and is wrong for other lists.
        wrong = await trial.judge(repair("", "def top(numbers):\n    return max(numbers[1:2] or numbers, default=0)\n"))
        assert wrong.heldout_correct is False
        assert "differs from the reference on (([" in wrong.how


@pytest.mark.long
async def test_a_task_whose_tests_all_pass_is_not_posed(labs: Labs, tmp_path: Path) -> None:
    bench = humanevalfix.load(data(tmp_path, {**TASK, "buggy_solution": TASK["canonical_solution"]}), "half")
    with pytest.raises(NotPosed, match="none of its tests fails"):
        async with bench.trial("Python/900", labs):
            pass


@pytest.mark.long
async def test_answers_are_compared_by_value_and_exceptions_by_type(labs: Labs) -> None:
    async with labs.open({"a.py": File(b""), "test_a.py": File(b"")}, CONFIGURATION) as lab:
        calls = tuple(repr(((number,), {})) for number in range(-2, 4))
        function = Function("a", "f", calls=calls)

        async def same(reference: str, other: str) -> bool | None:
            agreement = await compare(lab, function, {"a.py": reference.encode()}, {"a.py": other.encode()})
            return None if agreement is None else agreement.difference is None

        raising = "def f(n):\n    if n < 0:\n        raise ValueError(n)\n    return {n, 1.0, n + 0.1}\n"
        assert await same(raising, raising.replace("{n, 1.0, n + 0.1}", "{1, n + 0.1 + 1e-13, float(n)}"))
        assert not await same(raising, raising.replace("ValueError", "KeyError"))
        assert not await same(raising, raising.replace("0.1", "0.1001"))
        assert not await same("def f(n):\n    return (n,)\n", "def f(n):\n    return [n]\n")
        assert await same("def f(n):\n    yield n\n", "def f(n):\n    print('[[]]')\n    yield float(n)\n")
        # Where the reference hangs nothing is compared; a repair that only hangs is not judged.
        hangs = "def f(n):\n    while n == 2:\n        pass\n    return n\n"
        assert await same(hangs, "def f(n):\n    return n\n")
        assert await same("def f(n):\n    return n\n", hangs) is None
        assert await same("def f(n):\n    return n\n", hangs.replace("return n", "return -n")) is False
        assert not await same("def f(n):\n    return n\n", "import os\nos._exit(0)\n")


async def test_mutations_are_the_same_every_time_and_stay_within_what_was_shown() -> None:
    calls = ["(([3, 9, 4], 'abba'), {})", "(([5], 'ab'), {})", "(([], 'c'), {'deep': True})"]
    made = mutations(calls, 100)
    assert made == mutations(calls, 100)
    assert len(set(made)) == len(made) == 100
    assert not set(made) & set(calls)
    for call in made:
        (numbers, text), _ = ast.literal_eval(call)
        assert len(numbers) <= 3
        assert all(3 <= number <= 9 for number in numbers)
        assert set(text) <= set("abc")
        assert len(text) <= 4
    assert mutations(["((), {})"], 5) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "contains no task"),
        ("{}\n", "line 1"),
        ('{"task_id": "x"}', "missing required field"),
        ("not json", "line 1"),
        (f"{json.dumps(TASK)}\n{json.dumps(TASK)}\n", "line 2: its id .* is also that of 1"),
        (json.dumps({**TASK, "entry_point": "a b"}), "line 1: `entry_point` is 'a b'"),
    ],
)
async def test_wrong_data_is_named(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text(text)
    with pytest.raises(BadInput, match=said):
        humanevalfix.load(file, "all")


# Two small programs of our own in QuixBugs' layout.
CLAMP = "def clamp(value, low, high):\n    return min(low, min(value, high))\n"
WALK = "def walk(node):\n    while node is not None:\n        yield node.value\n        node = node\n"
QUIXBUGS = {
    "python_programs/clamp.py": CLAMP,
    "correct_python_programs/clamp.py": CLAMP.replace("min(low", "max(low"),
    "json_testcases/clamp.json": "[[5, 0, 10], 5]\n[[-3, 0, 10], 0]\n[[12, 0,\n 10], 10]\n[[7, 7, 7], 7]\n",
    "python_programs/walk.py": WALK,
    "python_testcases/node.py": "class Node:\n    def __init__(self, value, next=None):\n"
    "        self.value = value\n        self.next = next\n",
    "python_testcases/test_walk.py": "import itertools\nimport pytest\nfrom node import Node\n\nif pytest.use_correct:\n"
    "    from correct_python_programs.walk import walk\nelse:\n    from python_programs.walk import walk\n\n\n"
    "def test1():\n    assert list(itertools.islice(walk(Node(1, Node(2))), 5)) == [1, 2]\n",
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for path, text in QUIXBUGS.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


@pytest.mark.long
async def test_a_program_with_cases_is_tested_by_them(labs: Labs, checkout: Path) -> None:
    bench = quixbugs.load(checkout, "half")
    assert bench.groups == {"clamp": "with cases", "walk": "graphs"}
    async with bench.trial("clamp", labs) as trial:
        shown = trial.specimen.files["python_testcases/test_clamp.py"].content
        assert b"clamp(*[5, 0, 10])" in shown
        assert b"clamp(*[-3, 0, 10])" not in shown
        assert not any(path.startswith("correct") for path in trial.specimen.files)
        right = await trial.judge(repair(CLAMP, CLAMP.replace("min(low", "max(low"), "python_programs/clamp.py"))
        assert (right.heldout_correct, right.how) == (
            True,
            "2 of 2 held-out tests pass; the same as the reference on 165 inputs",
        )
        wrong = await trial.judge(repair(CLAMP, CLAMP.replace("min(low, ", "min(11, "), "python_programs/clamp.py"))
        assert (wrong.heldout_correct, wrong.how) == (False, "1 of 2 held-out tests pass")


@pytest.mark.long
async def test_a_program_with_tests_of_its_own_runs_them(labs: Labs, checkout: Path) -> None:
    async with quixbugs.load(checkout, "half").trial("walk", labs) as trial:
        async with labs.open(trial.specimen.files, trial.specimen.configuration) as lab:
            (base,) = await lab.runs({})
            (fixed,) = await lab.runs({"python_programs/walk.py": WALK.replace("node = node\n", "node = node.next\n").encode()})
        assert base.red
        assert base.red == fixed.green
        judged = await trial.judge(repair(WALK, WALK, "python_programs/walk.py"))
        assert judged.heldout_correct is None


@pytest.mark.long
async def test_with_all_cases_shown_the_correct_program_decides(labs: Labs, checkout: Path) -> None:
    async with quixbugs.load(checkout, "all").trial("clamp", labs) as trial:
        right = await trial.judge(repair(CLAMP, CLAMP.replace("min(low", "max(low"), "python_programs/clamp.py"))
        assert right.heldout_correct is True
        wrong = await trial.judge(
            repair(CLAMP, "def clamp(value, low, high):\n    return abs(value)\n", "python_programs/clamp.py")
        )
        assert wrong.heldout_correct is False


async def test_another_layout_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"is not a checkout of QuixBugs: it needs python_programs/NAME.py"):
        quixbugs.load(tmp_path, "all")


async def test_cases_that_are_no_cases_are_named(labs: Labs, checkout: Path) -> None:
    (checkout / "json_testcases/clamp.json").write_text("[1, 2, 3]\n")
    with pytest.raises(NotPosed, match=r"clamp.json contains a case that is not \[arguments, expected\]"):
        quixbugs.load(checkout, "all").trial("clamp", labs)
