"""`selfheal bench` for real: its own process, the real engine in the real sandbox, on tasks of our own."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.app.cli import program
from tests.standins import extension
from tests.standins.model import Asked, ScriptedModel

ROOT = Path(__file__).resolve().parents[4]
PATIENCE = 240.0  # seconds


def task(id_: str, name: str, wrong: str, right: str, *asserts: str, kind: str = "value misuse") -> dict[str, str]:
    tests = "\n".join(f"    assert {text}" for text in asserts)
    return {
        "task_id": id_,
        "prompt": f'def {name}(a, b):\n    """Something of two numbers."""\n',
        "buggy_solution": f"    return {wrong}\n",
        "canonical_solution": f"    return {right}\n",
        "test": f"def check({name}):\n{tests}\n\ncheck({name})\n",
        "entry_point": name,
        "bug_type": kind,
    }


HEALABLE = task("T/1", "top", "a if a < b else b", "a if a > b else b", "top(3, 9) == 9", "top(4, 1) == 4", "top(2, 2) == 2")
GREEN = task("T/2", "fine", "a + b", "a + b", "fine(1, 2) == 3", "fine(0, 0) == 0")
HOPELESS = task("T/3", "spell", "0", "f'{a:x}-{b:o}'", "spell(255, 8) == 'ff-10'", "spell(16, 9) == '10-11'", kind="other")


SHELF = """\
def most(prices, least):
    found = least
    for price in prices:
        if price > found:
            found = price
    return found


def rest(have, gone=1):
    if gone > have:
        raise ValueError(gone)
    return have - gone
"""
SHELF_TESTS = """\
import pytest
from shelf import most, rest


@pytest.mark.parametrize("n", range(9))
def test_n(n):
    assert n < 9


def test_most():
    assert most([3, 9, 4], 0) == 9


def test_least():
    assert most([1], 5) == 5


def test_rest():
    assert rest(5, 2) == 3


def test_one():
    assert rest(4) == 3


def test_all():
    assert rest(2, 2) == 0


def test_too_much():
    with pytest.raises(ValueError):
        rest(1, 2)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap (apt-get install bubblewrap)")
    return tmp_path_factory.mktemp("cache")


def start(cache: Path, *argv: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "app", "bench", *argv],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(cache, variables), cwd=cache,
    )  # fmt: skip


def environment(cache: Path, variables: Mapping[str, str]) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
    return own | variables | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT), "LC_ALL": "C"}


def bench(cache: Path, *argv: str, **variables: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    done = program.run(("bench", *argv), cache, environment(cache, variables), PATIENCE)
    assert not list((cache / "selfheal" / "open").glob("*")), "a sandbox was left"
    return done.returncode, done.stdout, done.stderr


def tasks(folder: Path, *told: dict[str, str]) -> str:
    file = folder / "tasks.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in told))
    return str(file)


@pytest.mark.long
def test_tasks_are_healed_scored_kept_and_not_done_twice(cache: Path, tmp_path: Path) -> None:
    state = tmp_path / "results.jsonl"
    options = ("--data", tasks(tmp_path, HEALABLE, GREEN, HOPELESS), "--budget", "20", "--resume", str(state), "--json")
    code, out, said = bench(cache, "humanevalfix", *options, "--jobs", "2")
    assert code == 0, said
    told = json.loads(out)
    summary, (healed, green, hopeless) = told["summary"], told["results"]
    assert told["complete"] is True
    assert [entry["id"] for entry in told["results"]] == ["T/1", "T/2", "T/3"]
    assert {name: summary[name] for name in ("tasks", "plausible", "heldout_correct", "tokens", "cost")} == {
        "tasks": 3, "plausible": 1, "heldout_correct": 1, "tokens": 0, "cost": 0.0,
    }  # fmt: skip
    assert {name: summary[name] for name in ("base", "healed", "unresolved", "validated")} == {
        "base": 0, "healed": 1, "unresolved": 2, "validated": 1,
    }  # fmt: skip
    assert summary["median_s"] == summary["p90_s"] == healed["seconds"]
    assert summary["candidates"] > 0
    assert (healed["outcome"], healed["heldout_correct"], healed["rung"]) == ("healed", True, "patterns")
    assert "the same as the reference" in healed["judged_by"]
    assert "+    return" in healed["diff"]
    assert (green["outcome"], green["plausible"]) == ("not_reproduced", False)
    assert (hopeless["outcome"], hopeless["plausible"], hopeless["error"]) == ("gave_up", False, None)
    assert hopeless["reason"]
    assert "T/1: healed, held-out correct" in said
    assert "only be printed" not in said

    # Cut off in the middle of a line: that task is done again, the others are not.
    lines = state.read_text().splitlines(keepends=True)
    state.write_text("".join(line for line in lines if '"T/2"' not in line) + lines[1][:40])
    code, out, said = bench(cache, "humanevalfix", *options)
    assert code == 0, said
    again = json.loads(out)["results"]
    assert (again[0], again[2]) == (healed, hopeless)
    assert (again[1]["id"], again[1]["outcome"]) == ("T/2", "not_reproduced")
    assert len(state.read_text().splitlines()) == 5

    code, out, said = bench(cache, "humanevalfix", *options, "--oracle", "half")
    assert (code, out) == (2, "")
    assert "results.jsonl contains results of `humanevalfix` with" in said
    assert "pass another file to --resume" in said


@pytest.mark.long
def test_unsure_changes_are_judged_and_the_confidence_is_fitted_on_them(cache: Path, tmp_path: Path) -> None:
    state, out_file = tmp_path / "small.jsonl", tmp_path / "confidence.json"
    options = ("--data", tasks(tmp_path, HEALABLE), "--budget", "20", "--resume", str(state), "--min-confidence", "1", "--json")
    code, out, said = bench(cache, "humanevalfix", *options)
    assert code == 0, said
    (entry,) = json.loads(out)["results"]
    assert (entry["outcome"], entry["plausible"], entry["details"]["withheld"]) == ("gave_up", False, True)
    assert True in [each["right"] for each in entry["details"]["verified"]]
    assert all(each["signals"] and each["rung"] == "patterns" for each in entry["details"]["verified"])

    code, out, said = bench(cache, "fit", str(state), "--out", str(out_file), "--json")
    assert code == 0, said
    assert json.loads(out)["patterns"]["observations"] == len(entry["details"]["verified"])
    assert set(json.loads(out_file.read_text())) == {"patterns", "history", "tools", "model", "other"}
    code, out, said = bench(cache, "fit", str(state))
    assert (code, "from 1 repositories: too few to fit it" in out) == (0, True), said


@pytest.mark.long
def test_files_that_cannot_be_fitted_on_are_named(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = tmp_path / "b" / "tasks.jsonl"
    other.write_text('{"benchmark": "breaks", "options": {}}\n')
    for files, problem in (
        ((str(tmp_path / "none.jsonl"),), "none.jsonl cannot be read: No such file or directory"),
        ((tasks(tmp_path, HEALABLE),), "tasks.jsonl is not a results file; pass a file that `--resume` wrote"),
        ((str(other),), "no file has a verified change that was judged"),
        ((str(other), str(tmp_path / "tasks.jsonl")), "two files are called 'tasks'"),
    ):
        code, out, said = bench(cache, "fit", *files)
        assert (code, out) == (2, ""), said
        assert problem in said.replace("\n", " ")


@pytest.mark.long
def test_what_cannot_be_measured_is_an_entry_and_the_exit_code_says_so(cache: Path, tmp_path: Path) -> None:
    broken = {**HEALABLE, "task_id": "T/4", "test": "nothing to check"}
    code, out, said = bench(cache, "humanevalfix", "--data", tasks(tmp_path, broken, GREEN), "--oracle", "half", "--json")
    assert code == 1, said
    told = json.loads(out)
    assert (told["summary"]["tasks"], told["summary"]["plausible"], told["summary"]["failed"]) == (2, 0, 2)
    assert [entry["error"] for entry in told["results"]] == [
        "the task could not be set up: its tests cannot be split: it is not Python: invalid syntax (<unknown>, line 1)",
        "the task could not be set up: none of its tests fails on the broken function",
    ]


@pytest.mark.long
async def test_a_model_is_asked_only_when_it_is_named(cache: Path, tmp_path: Path) -> None:
    def answer(asked: Asked) -> str:
        if "SEARCH" not in asked.prompt:
            return '{"cause": "It says nothing.", "category": "logic", "confidence": 0.9}'
        wanted = HOPELESS["canonical_solution"]
        return f"solution.py\n<<<<<<< SEARCH\n{HOPELESS['buggy_solution']}=======\n{wanted}>>>>>>> REPLACE\n"

    data = tasks(tmp_path, HOPELESS)
    async with ScriptedModel(answer) as model:
        there = {
            "SELFHEAL_MODEL_API_BASE": model.openai_url,
            "SELFHEAL_MODEL_API_KEY": "none",
            "SELFHEAL_MODEL": "openai/scripted",
        }
        options = ("humanevalfix", "--data", data, "--json", "--budget", "60")
        code, out, said = await asyncio.to_thread(bench, cache, *options, "--model", "openai/scripted", **there)
        assert code == 0, said
        told = json.loads(out)
        (healed,) = told["results"]
        assert (healed["outcome"], healed["heldout_correct"], healed["rung"]) == ("healed", True, "model:openai/scripted")
        assert healed["tokens"] > 100
        assert (told["summary"]["without_model"], told["summary"]["rungs"]) == (0, {"model:openai/scripted": 1})
        assert told["options"]["model"] == "openai/scripted"
        asked = len(model.asked)
        code, out, said = await asyncio.to_thread(bench, cache, *options, **there)
        assert (code, json.loads(out)["summary"]["plausible"], len(model.asked)) == (0, 0, asked), said


@pytest.mark.long
def test_rungs_of_other_packages_take_part_and_are_named(cache: Path, tmp_path: Path) -> None:
    wrong, right = HOPELESS["buggy_solution"].strip(), HOPELESS["canonical_solution"].strip()
    extension.install_rung(tmp_path / "site", "solution.py", wrong, right)
    options = ("--data", tasks(tmp_path, GREEN, HOPELESS), "--min-confidence", "0", "--limit", "2", "--runs", "2", "--json")
    argv = [sys.executable, "-m", "app", "bench", "humanevalfix", *options, "--jobs", "2", "--min-rate", "0.6"]
    variables = environment(cache, {}) | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path / 'site'}"}
    done = subprocess.run(argv, env=variables, cwd=cache, capture_output=True, text=True, timeout=PATIENCE)
    told = json.loads(done.stdout)
    assert told["options"]["extensions"] == "mine"
    assert [entry["id"] for entry in told["results"]] == ["T/2", "T/3", "T/2@2", "T/3@2"]
    assert told["summary"]["rungs"] == {"mine": 2}
    assert done.returncode == 1
    assert "50.0% of 4 tried tasks are right by held-out tests, and --min-rate asks for 60.0%" in done.stderr


@pytest.mark.long
def test_people_get_a_table(cache: Path, tmp_path: Path) -> None:
    code, out, said = bench(
        cache,
        "humanevalfix",
        "--data",
        tasks(tmp_path, HEALABLE, GREEN),
        "--task-ids",
        "T/1",
        "--oracle",
        "half",
        "--min-confidence",
        "0",
    )
    assert code == 0, said
    rows = [line.split() for line in out.splitlines()]
    assert ["value", "misuse", "1", "1", "21%", "to", "100%"] in [row[:7] for row in rows]
    assert any(row[:2] == ["confidence", "repairs"] for row in rows)
    assert "Repairs by rung: patterns 1; 1 without a model, 0 with one." in out
    assert "\x1b" not in out + said
    assert said.startswith("These results will only be printed: save them with --resume FILE"), "before hours have passed"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_it_tells_what_is_done(number: signal.Signals, cache: Path, tmp_path: Path) -> None:
    data = tasks(tmp_path, GREEN, {**HOPELESS, "task_id": "T/5"}, HEALABLE)
    with start(cache, "humanevalfix", "--data", data, "--json", "--budget", "600") as process:
        assert process.stderr is not None
        assert any("T/2" in line for line in process.stderr)
        process.send_signal(number)
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    told = json.loads(out)
    assert (told["complete"], told["summary"]["tasks"], told["results"][0]["id"]) == (False, 1, "T/2")
    assert not list((cache / "selfheal" / "open").glob("*")), "a sandbox was left"


@pytest.mark.long
def test_a_repositorys_history_is_replayed(cache: Path, tmp_path: Path) -> None:
    def commit(**files: str) -> None:
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        for argv in (["add", "-A"], ["commit", "-qm", "change"]):
            subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *argv], cwd=tmp_path, check=True)

    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    code = "def ready(count, wanted):\n    return wanted < count\n"
    tests = "from shelf import ready\n\n\ndef test_some():\n    assert ready(3, 2)\n    assert not ready(3, 4)\n"
    commit(shelf=code, test_shelf=tests)
    commit(shelf=code.replace("<", "<="), test_shelf=f"{tests}\n\ndef test_all():\n    assert ready(3, 3)\n")
    commit(other="x = 1\n")
    exit_code, out, said = bench(cache, "repo", "--path", str(tmp_path), "--last", "2", "--json", "--budget", "60")
    assert exit_code == 0, said
    told = json.loads(out)
    summary, (other, fixed) = told["summary"], told["results"]
    assert (summary["tasks"], summary["skipped"], summary["plausible"], summary["heldout_correct"]) == (1, 1, 1, 1)
    assert other["skipped"] == "its tests pass on its parent too"
    assert fixed["details"]["same_lines"] is True
    assert fixed["details"]["authors_changed_lines"] == 2


@pytest.mark.long
def test_breaks_of_a_repository_are_set_up_until_enough_are_measured(cache: Path, tmp_path: Path) -> None:
    """The latest commit's tests fail, so it is passed over; the one before has both tasks."""

    def commit(**files: str) -> str:
        for name, text in files.items():
            (root / f"{name}.py").write_text(text)
        for argv in (["add", "-A"], ["commit", "-qm", "change"]):
            subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *argv], cwd=root, check=True)
        return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=root, text=True)[:12]

    root = tmp_path / "shelf"
    root.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    commit(shelf="# Nothing.\n", test_shelf="")
    good = commit(shelf=SHELF, test_shelf=SHELF_TESTS)
    red = commit(shelf=SHELF.replace("have - gone", "have"))
    state = tmp_path / "state.jsonl"
    options = ("breaks", "--path", str(root), "--count", "2", "--seed", "3", "--json", "--budget", "40", "--resume", str(state))
    exit_code, out, said = bench(cache, *options, "--jobs", "2")
    assert exit_code == 0, said
    told = json.loads(out)
    summary, entries = told["summary"], {entry["id"]: entry for entry in told["results"]}
    assert (told["options"]["seed"], told["complete"]) == ("3", True)
    posed = [entry for entry in entries.values() if entry["skipped"] is None]
    assert [entry["id"].split("-")[0] for entry in posed] == [good, good]
    assert entries[f"{red}-1"]["skipped"].startswith("3 of its tests fail without a break, such as test_shelf.py::test_")
    assert summary["tasks"] == 2
    assert summary["healed"] == summary["right"] + summary["wrong"] == sum(entry["plausible"] for entry in posed)
    assert summary["reversed"] == summary["very_sure"]["reversed"] == 0
    assert 0 < summary["located"] == sum(entry["details"]["located"] for entry in posed)
    for entry in posed:
        assert entry["group"] == entry["details"]["kind"]
        assert entry["details"]["place"].startswith("shelf.py:")

    more = (*options[:4], "3", *options[5:])
    exit_code, out, said = bench(cache, *more)
    again = json.loads(out)
    assert (exit_code, again["summary"]["tasks"]) == (0, 2), "only two functions are covered"
    measured = {entry["id"]: entry for entry in again["results"]}
    assert all(measured[id_] == entry for id_, entry in entries.items()), "nothing is measured twice"
    assert "Only 2 of 3 tasks could be set up; the list above says why commits were passed over." in said
    exit_code, out, said = bench(
        cache, *options[:-2], "--task-ids", posed[0]["id"], "--without", "history,patterns,tools,model"
    )
    assert exit_code == 0, said
    (bare,) = json.loads(out)["results"]
    assert (bare["outcome"], bare["candidates"], bare["details"]["place"]) == ("gave_up", 0, posed[0]["details"]["place"])


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("humanevalfix", "--data", "/no/such.jsonl"), "/no/such.jsonl cannot be read: No such file"),
        (("humanevalfix", "--data", __file__), "line 1: "),
        (("humanevalfix", "--data", "{data}", "--oracle", "third"), "'third' is not one of"),
        pytest.param(
            ("humanevalfix", "--data", "{data}", "--task-ids", "T/9"),
            "unknown task 'T/9'; ids look like T/2",
            marks=pytest.mark.long,
        ),
        (("humanevalfix", "--data", "{data}", "--jobs", "0"), "--jobs"),
        (("humanevalfix", "--data", "{data}", "--resume", "{data}"), "is not a results file"),
        pytest.param(
            ("humanevalfix", "--data", "{data}", "--resume", "/no/such/state"), "cannot store results", marks=pytest.mark.long
        ),
        (("humanevalfix",), "--data"),
        (("quixbugs", "--path", "x", "--limit", "0"), "--limit"),
        (("packages", "--manifest", "x", "--min-rate", "2"), "--min-rate"),
        (("repo", "--path", "x", "--limit", "3"), "No such option"),
        (("humanevalfix", "--data", "{data}", "--without", "magic"), "--without names the unknown rung 'magic'"),
        pytest.param(("quixbugs", "--path", "/no/such"), "/no/such is not a checkout of QuixBugs", marks=pytest.mark.long),
        (("packages", "--manifest", "{data}"), "is not a manifest of package bugs"),
        pytest.param(("repo", "--path", "/no/such"), "/no/such is not a git checkout with commits", marks=pytest.mark.long),
        (("breaks", "--path", "/no/such"), "/no/such is not a git checkout with commits"),
        (("breaks", "--path", "/no/such", "--count", "0"), "--count"),
        (("breaks", "--path", "/no/such", "--without", "magic"), "--without names the unknown rung 'magic'; there are tools,"),
        (("olympics",), "No such command"),
    ],
)
def test_wrong_use_is_one_line_and_ends_with_2(argv: tuple[str, ...], said: str, tmp_path: Path) -> None:
    data = tasks(tmp_path, GREEN)
    with start(tmp_path, *(part.format(data=data) for part in argv)) as process:
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (2, ""), err
    assert said in err
    assert "Traceback" not in err
    assert [file.name for file in tmp_path.iterdir()] == ["tasks.jsonl"], "wrong use leaves nothing behind"
