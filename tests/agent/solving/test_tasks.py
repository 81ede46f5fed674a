"""The benchmarks of specifications: their files, and that their reference tests can be passed."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from agent.bench.lab import BadInput, Lab, Labs, NotPosed
from agent.bench.score import Entry, repeated, task_of
from agent.contract.budget import Budget
from agent.contract.events import AnyEvent
from agent.engine import Engine
from agent.models.router import Models
from agent.models.values import ModelSettings, Timeout
from agent.solving import humaneval, mbpp, suite
from agent.solving.solution import Options
from agent.solving.tasks import coverage, figures
from sandbox.base import Completed, DeadlinePassed, LimitExceeded, Limits, SandboxError
from sandbox.install.package_index import configured
from sandbox.install.packages import PackageStore
from sandbox.local import LocalSandboxes
from tests.standins.model import ScriptedModel, hanging

LINE = {
    "task_id": "T/0",
    "prompt": 'def top(a, b):\n    """The larger one.\n\n    >>> top(1, 2)\n    2"""\n',
    "canonical_solution": "    return max(a, b)\n",
    "test": "def check(candidate):\n    assert candidate(1, 2) == 2\n    assert candidate(4, 3) == 4\n",
    "entry_point": "top",
}


def lines(*given: object) -> str:
    return "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in given)


@pytest.mark.parametrize("name", ["data.jsonl", "data.jsonl.gz"])
def test_humaneval_becomes_a_stub_examples_and_reference_tests(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(lines(LINE).encode()) if name.endswith(".gz") else lines(LINE).encode())
    task = humaneval.load(file, "own").task("T/0")
    assert task.draft.files["solution.py"].endswith('"""\n    raise NotImplementedError\n')
    assert [(each.source, each.want) for each in task.spec.examples] == [("top(1, 2)", "2")]
    assert "check(top)" in task.reference


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (lines(LINE, '{"task_id": 3'), "line 2:"),
        (lines({**LINE, "test": None}), "line 1: "),
        ("\n\n", "contains no task"),
        (lines(LINE, "\udcff"), "line 2: it is not UTF-8"),
        (lines(LINE, {**LINE, "task_id": "T/1"}, LINE), "line 3: its id T/0 is also that of 1"),
        (lines({**LINE, "entry_point": "top; import os"}), "line 1: `entry_point` is 'top; import os'"),
    ],
)
def test_a_broken_data_file_names_the_line(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(BadInput, match=r"data\.jsonl") as refused:
        humaneval.load(file, "own")
    assert said in str(refused.value)
    (tmp_path / "data.jsonl.gz").write_text("this is not gzipped")
    for missing in (tmp_path / "none.jsonl", tmp_path / "data.jsonl.gz"):
        with pytest.raises(BadInput, match="cannot be read"):
            humaneval.load(missing, "own")


def test_contradicting_examples_in_a_prompt_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text(
        lines({**LINE, "prompt": 'def top(a, b):\n    """\n    >>> top(1, 2)\n    2\n    >>> top(1, 2)\n    1\n    """\n'})
    )
    assert humaneval.load(file, "own").task("T/0").spec.examples == ()


def test_mbpp_shows_the_first_test_and_judges_by_all(tmp_path: Path) -> None:
    file = tmp_path / "mbpp.jsonl"
    line = {
        "task_id": 2,
        "text": "Write a function to find the shared elements of two lists.",
        "code": "def _h(x): return x\ndef shared(a, b=()):\n    return set(a) & set(b)",
        "test_list": ["assert shared([1], [1]) == {1}", "assert shared([], []) == set()"],
        "challenge_test_list": ["assert shared([1, 2], [2]) == {2}"],
    }
    file.write_text(lines(line, {**line, "task_id": 3, "test_list": ["assert other()"]}))
    known = mbpp.load(file, "both")
    task = known.task("MBPP/2")
    assert (task.spec.name, task.spec.signature) == ("shared", "def shared(a, b=())")
    assert (task.given.count("assert"), task.reference.count("assert")) == (1, 3)
    with pytest.raises(NotPosed):
        known.task("MBPP/3")


@pytest.mark.long
def test_the_suite_has_24_tasks_in_eight_categories_that_can_be_solved(tmp_path: Path) -> None:
    told = suite.read()
    assert Counter(Counter(each["category"] for each in told).values()) == {3: 8}
    assert len({each["id"] for each in told}) == 24
    assert (len(suite.load("own", "doctests").groups), len(suite.load("own", "everyday").groups)) == (9, 8)
    for at, each in enumerate(told):
        folder = tmp_path / f"task_{at}"
        folder.mkdir()
        task = suite.load("own").task(each["id"])
        assert bool(task.spec.examples) or "doctests" not in each.get("subsets", ())
        (folder / "test_it.py").write_text(f"{each['solution']}\n{each['reference']}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--import-mode=importlib"]
    done = subprocess.run([*command, "--rootdir", tmp_path, tmp_path], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout


def entry(*, solved: bool, base: bool, correct: bool, id_: str = "x", group: str = "all") -> Entry:
    ended = "first_answer" if solved and base else "healed" if solved else "gave_up"
    details = {"base": base, "correct": correct, "first_passed": solved and base, "ended": ended}
    return Entry(id=id_, group=group, outcome="healed", plausible=solved, heldout_correct=correct, details=details)


def test_what_is_reported_is_told_apart_from_what_is_right() -> None:
    found = figures(
        [
            entry(solved=True, base=True, correct=True),
            entry(solved=True, base=False, correct=True),
            entry(solved=True, base=False, correct=False),  # wrong, but it passes its own tests
            entry(solved=False, base=False, correct=False),
            entry(solved=False, base=True, correct=True),  # right, but refused
            Entry(id="y", group="all", outcome="infrastructure", plausible=False, error="lost"),
        ]
    )
    wanted = {"tasks": 6, "error": 1, "tried": 5, "base": 2, "healed": 1, "unresolved": 2}
    wanted |= {"self_reported": 3, "validated": 2, "reported_but_wrong": 1}
    assert {name: found[name] for name in wanted} == wanted
    assert found["categories"]["all"] == wanted | {"first_pass": 1}
    assert found["means"]["validated"]["mean"] == 0.4, "of those that were tried"


@pytest.mark.parametrize("stop", [DeadlinePassed(60.0), LimitExceeded("memory", 1)])
async def test_a_coverage_run_that_is_stopped_costs_only_that_figure(stop: SandboxError) -> None:
    class Stopped(Lab):
        def __init__(self) -> None: ...

        async def program(self, *_: object) -> Completed:
            raise stop

    assert await coverage(Stopped(), {"solution.py": "x = 1\n"}) is None


async def test_a_design_that_did_not_come_in_time_is_an_error_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text(json.dumps(LINE))
    benchmark = humaneval.load(tmp_path / "tasks.jsonl", "own")
    sandboxes = LocalSandboxes(tmp_path / "open", PackageStore(tmp_path / "wheels", await configured()))

    async def emit(_: AnyEvent) -> None: ...

    async with ScriptedModel([hanging()]) as server:
        models = Models(ModelSettings("openai/scripted", server.openai_url, "sk-of-the-test", timeout=0.5))
        engine = Engine(sandboxes, models, None, Budget(), Limits())
        with pytest.raises(Timeout):
            await benchmark.attempt("T/0", engine, Labs(sandboxes, Limits()), Options(design=True), emit)


def test_figures_tell_categories_endings_gain_and_the_mean_of_several_runs() -> None:
    found = figures(
        [
            entry(id_="a", group="text", solved=True, base=True, correct=True),
            entry(id_="a@2", group="text", solved=True, base=False, correct=True),
            entry(id_="b", group="dates", solved=False, base=True, correct=True),
            entry(id_="b@2", group="dates", solved=False, base=False, correct=False),
        ]
    )
    assert found["categories"]["text"]["validated"] == 2
    assert found["categories"]["dates"]["tasks"] == 2
    assert found["endings"] == {"first_answer": 1, "healed": 1, "gave_up": 2}
    assert (found["gain"]["gained"], found["gain"]["lost"]) == (1, 1)
    assert found["means"]["validated"]["mean"] == 0.5, "a is right in both runs, b in none"
    assert (found["means"]["validated"]["low"], found["means"]["validated"]["high"]) == (0.0, 1.0)


def test_many_runs_of_a_task_do_not_make_the_gain_significant() -> None:
    entries = [entry(id_=repeated("a", run), solved=True, base=False, correct=True) for run in range(1, 11)]
    found = figures(entries)
    assert (found["healed"], found["gain"]) == (10, {"gained": 1, "lost": 0, "p": 1.0})


def test_runs_of_a_task_have_ids_of_their_own() -> None:
    assert [task_of(repeated("T/1", run)) for run in (1, 2)] == ["T/1", "T/1"]
    assert repeated("T/1", 2) == "T/1@2"
    assert task_of("name@home") == "name@home"


def test_a_data_set_by_name_needs_the_library_and_names_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadInput, match=r"\.venv/bin/pip install -e '\.\[datasets\]'"):
        humaneval.load(Path("hf:openai/openai_humaneval"), "own")
