"""Benchmarks in which code is written: measured for real with a scripted model, compared, reported and logged to MLflow."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.cli.bench import tracking
from tests.app.cli import program
from tests.standins.model import Asked, Reply, ScriptedModel, unauthorized

ROOT = Path(__file__).resolve().parents[4]
TASKS = {
    "T/0": ("top", "The larger one.", "return max(a, b)", "return min(a, b)"),
    "T/1": ("bottom", "The smaller one.", "return min(a, b)", "return min(a, b)"),
    "T/2": ("middle", "The mean.", "return None", "return None"),  # never right
}
MEASURED = (
    *("bench", "humaneval", "--data", "tasks.jsonl", "--model", "scripted:script.jsonl", "--oracle", "given"),
    *("--adversarial", "off", "--runs", "2", "--iters", "2", "--jobs", "2", "--resume", "results.jsonl", "--json"),
)
CHECKS = {
    "top": "candidate(4, 3) == 4",
    "bottom": "candidate(4, 3) == 3",
    "middle": "candidate(2, 4) == 3 and candidate(70, -20) == 25",
}


def selfheal(folder: Path, *arguments: str, seconds: float = 300.0, **variables: str) -> tuple[int, str, str]:
    done = program.run(list(arguments), folder, environment(folder) | variables, seconds)
    return done.returncode, done.stdout, done.stderr


def environment(folder: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SELFHEAL_", "MLFLOW_"))}
    return own | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache"), "LC_ALL": "C"}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of two runs of each task."""
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap (apt-get install bubblewrap)")
    folder = tmp_path_factory.mktemp("measured")
    lines, script = [], []
    for id_, (name, words, right, first) in TASKS.items():
        head = f"def {name}(a, b):\n"
        test = f"def check(candidate):\n    assert {CHECKS[name]}\n"
        prompt = f'{head}    """{words}"""\n'
        lines.append({"task_id": id_, "prompt": prompt, "test": test, "entry_point": name})
        wrong, good = (f"```python\n{prompt}    {body}\n```" for body in (first, right))
        script.append({"role": "write", "when": [head], "answers": [wrong]})
        script.append({"role": "repair", "when": [head], "answers": [f"solution.py\n{good}"]})
    script.append(
        {"role": "review", "answers": ['{"accept": true, "unnatural": false, "reason": "", "input": "f(9) gives 9"}']}
    )
    for name, told in (("tasks.jsonl", lines), ("script.jsonl", script)):
        (folder / name).write_text("".join(json.dumps(each) + "\n" for each in told))
    code, out, err = selfheal(folder, *MEASURED)
    assert code == 0, err
    (folder / "told.json").write_text(out)
    return folder


@pytest.mark.long
def test_base_stands_beside_healed_for_each_run_and_category(measured: Path) -> None:
    told = json.loads((measured / "told.json").read_text())
    summary = told["summary"]
    assert summary["tasks"] == 6
    assert (summary["base"], summary["healed"], summary["validated"], summary["unresolved"]) == (2, 2, 4, 2)
    assert summary["endings"]["first_answer"] == 2
    assert summary["means"]["base"]["mean"] == pytest.approx(1 / 3, abs=0.001)
    assert summary["quality"]["coverage"] == 1.0
    assert {"debugger": "on", "memory": "off", "critic": "on", "retry": "off", "design": "off"}.items() <= told[
        "options"
    ].items()
    assert {each["id"] for each in told["results"]} == {f"T/{n}{run}" for n in range(3) for run in ("", "@2")}


@pytest.mark.long
def test_results_become_a_folder_that_can_be_published(measured: Path) -> None:
    code, _, err = selfheal(measured, "bench", "report", "results.jsonl", "--out", "report")
    assert code == 0, err
    report = (measured / "report" / "report.md").read_text()
    assert "6 runs of 3 tasks: intervals and tests are by task" in report
    assert "| first answers that the held-out tests accept | 2 | 33% | 6% to 79% |" in report
    assert "| reported as solved, and accepted by the held-out tests | 4 | 67% | 21% to 94% |" in report
    assert "Base 33.3% (95 % interval 0.0% to 100.0%, over tasks)" in report, "three tasks, however often they ran"
    assert "After healing, 1 task did better and 0 worse (exact sign test by task: p = 1)." in report
    assert "| [T/0](tasks/1/T_0/log.md) | wrong | healed | yes |" in report
    for name in ("comparison", "cost", "iterations"):
        assert f"](pictures/{name}.svg)" in report
        assert (measured / "report" / "pictures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (measured / "report" / "pictures" / f"{name}.svg").read_text()
    task = measured / "report" / "tasks" / "1" / "T_0"
    assert "max(a, b)" in (task / "code" / "solution.py").read_text()
    assert "min(a, b)" in (task / "first-answer" / "solution.py").read_text()
    assert "## Round 1" in (task / "log.md").read_text()
    assert "1 passed" in (task / "reference-tests.txt").read_text()
    assert "1 failed" in (task / "reference-tests-first-answer.txt").read_text()
    assert json.loads((measured / "report" / "summary.json").read_text())["humaneval"]["quality"]["complexity"] == 1.0
    other = (measured / "results.jsonl").read_text().replace('"iters":"2"', '"iters":"3"')
    (measured / "other.jsonl").write_text(other)
    code, _, err = selfheal(measured, "bench", "report", "results.jsonl", "other.jsonl", "--out", "both")
    assert code == 0, err
    assert "## iters 2 beside iters 3" in (measured / "both" / "report.md").read_text()
    code, _, err = selfheal(measured, "bench", "report", "results.jsonl")
    assert code == 2
    assert "--out FOLDER" in err
    (measured / "broken.jsonl").write_text(f"{other}cut off\n")
    for arguments in (("report", "broken.jsonl", "--out", "broken"), ("compare", "results.jsonl", "broken.jsonl")):
        code, _, err = selfheal(measured, "bench", *arguments)
        assert code == 0, err
        assert "broken.jsonl: left out 1 line that cannot be read: 8." in err


@pytest.mark.long
async def test_a_task_whose_model_cannot_be_asked_is_an_error_and_is_tried_again(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap (apt-get install bubblewrap)")
    lines = []
    for id_, name in (("T/0", "top"), ("T/1", "bottom")):
        prompt = f'def {name}(a, b):\n    """{TASKS[id_][1]}"""\n'
        test = f"def check(candidate):\n    assert {CHECKS[name]}\n"
        lines.append(json.dumps({"task_id": id_, "prompt": prompt, "test": test, "entry_point": name}) + "\n")
    (tmp_path / "tasks.jsonl").write_text("".join(lines))
    locked = {"bottom"}

    def answer(asked: Asked) -> Reply:
        name, body = ("top", "max(a, b)") if "def top" in asked.prompt else ("bottom", "min(a, b)")
        return unauthorized() if name in locked else Reply(f"```python\ndef {name}(a, b):\n    return {body}\n```")

    command = ("bench", "humaneval", "--data", "tasks.jsonl", "--model", "openai/scripted", "--oracle", "given", "--json")
    brief = ("--adversarial", "off", "--critic", "off", "--iters", "1", "--decode", "sample", "--resume")
    async with ScriptedModel(answer) as model:
        there = {"SELFHEAL_MODEL_API_BASE": model.openai_url, "SELFHEAL_MODEL_API_KEY": "none"}
        there |= {"SELFHEAL_MODEL": "openai/scripted"}

        async def measure(file: str) -> tuple[int, dict[str, Any], str]:
            code, out, err = await asyncio.to_thread(selfheal, tmp_path, *command, *brief, file, **there)
            return code, json.loads(out), err

        code, told, err = await measure("results.jsonl")
        assert code == 1, err
        summary = told["summary"]
        assert (summary["tasks"], summary["error"], summary["tried"], summary["unresolved"]) == (2, 1, 1, 0)
        assert (summary["base"], summary["intervals"]["plausible"]["of"]) == (1, 1)
        assert {asked.body["temperature"] for asked in model.asked} == {0.7}, "first answers are samples, too"
        assert {"decode": "sample", "temperature": "0.7"}.items() <= told["options"].items()
        assert told["results"][1]["error"].startswith("The model openai/scripted is misconfigured: ")
        code, _, err = await asyncio.to_thread(selfheal, tmp_path, "bench", "report", "results.jsonl", "--out", "report")
        assert code == 0, err
        report = (tmp_path / "report" / "report.md").read_text()
        assert "| of 1 that were tried | | share |" in report
        assert "Not measured." in (tmp_path / "report" / "tasks" / "1" / "T_1" / "log.md").read_text()
        assert "Errors: 1 of 2 tasks could not be measured, and the rates leave them out." in report

        locked.clear()
        model.asked.clear()
        code, told, err = await measure("results.jsonl")
        assert code == 0, err
        assert (told["summary"]["error"], told["summary"]["validated"]) == (0, 2)
        assert not any("def top" in asked.prompt for asked in model.asked), "it was measured before"

        locked |= {"top", "bottom"}
        code, told, err = await measure("other.jsonl")
        assert (code, told["summary"]["tried"]) == (1, 0)
        assert "no task could be measured, for one reason: The model openai/scripted is misconfigured: " in err


@pytest.mark.long
def test_a_task_that_the_script_does_not_know_is_an_error(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap (apt-get install bubblewrap)")
    test = f"def check(candidate):\n    assert {CHECKS['top']}\n"
    task = {"task_id": "T/0", "prompt": 'def top(a, b):\n    """The larger."""\n', "test": test, "entry_point": "top"}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task))
    (tmp_path / "script.jsonl").write_text('{"role": "write", "when": ["def bottom"], "answers": ["x"]}')
    command = ("bench", "humaneval", "--data", "tasks.jsonl", "--model", "scripted:script.jsonl", "--oracle", "given", "--json")
    code, out, err = selfheal(tmp_path, *command)
    assert code == 1, err
    summary = json.loads(out)["summary"]
    assert (summary["error"], summary["tried"], summary["unresolved"]) == (1, 0, 0)
    assert "has no answer for the role 'write' to this prompt; add a line that fits" in err


def test_a_long_error_of_mlflow_ends_with_a_sentence() -> None:
    assert tracking.shortened(f"It is{' very' * 40} old. Use a\ndatabase. See https://example.org/{'a' * 200} now.") == (
        f"It is{' very' * 40} old. Use a database"
    )
    assert tracking.shortened("refused.") == "refused"
    assert tracking.shortened("word " * 100) == "word " * 60 + "…"


@pytest.mark.long
@pytest.mark.parametrize("store", ["file:runs", "http://127.0.0.1:9"])
def test_a_store_of_mlflow_that_cannot_be_used_is_refused_before_the_run_starts(measured: Path, store: str) -> None:
    pytest.importorskip("mlflow")
    command = ("bench", "suite", "--model", "scripted", "--mlflow", "--resume", "never.jsonl")
    code, out, err = selfheal(measured, *command, MLFLOW_TRACKING_URI=store)
    assert (code, out) == (2, ""), err
    assert "MLflow cannot use" in err
    assert "set MLFLOW_TRACKING_URI to a running server, or to a database such as sqlite:///mlflow.db" in err
    assert not (measured / "never.jsonl").exists()


@pytest.mark.long
def test_results_are_printed_also_if_mlflow_loses_them(measured: Path, tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    (tmp_path / "artifacts").write_text("no folder")  # the database works, and no artifact can be stored
    store = {"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db", "MLFLOW_ARTIFACT_ROOT": str(tmp_path / "artifacts")}
    store |= {"_MLFLOW_SERVER_ARTIFACT_ROOT": str(tmp_path / "artifacts")}
    code, out, err = selfheal(measured, *MEASURED, "--mlflow", **store)
    assert json.loads(out)["summary"]["validated"] == 4, "all results are taken over from the file"
    assert code == 1
    assert "the results were not logged to MLflow" in err


@pytest.mark.long
def test_a_run_in_mlflow_has_a_nested_run_for_each_task(measured: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    store = f"sqlite:///{measured}/mlflow.db"
    variables = {"MLFLOW_TRACKING_URI": store, "MLFLOW_ARTIFACT_ROOT": str(measured / "artifacts")}
    code, out, err = selfheal(measured, "bench", "report", "results.jsonl", "--mlflow", **variables)
    assert code == 0, err
    assert "Logged to MLflow" in out
    client = mlflow.MlflowClient(tracking_uri=store)
    (experiment,) = [each for each in client.search_experiments() if each.name == "selfheal"]
    runs = client.search_runs([experiment.experiment_id])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    assert len(parents) == 1
    assert parents[0].data.metrics["validated"] == 4
    assert parents[0].data.params["model"] == "scripted:script.jsonl"
    tasks = {run.data.params["task"]: run for run in runs if "mlflow.parentRunId" in run.data.tags}
    assert len(tasks) == 6
    assert tasks["T/0"].data.metrics["retries"] == 0, "the search found the slip, so the model was not asked again"
    assert tasks["T/0"].data.tags["status"] == "healed"
    assert {"code", "log.json"} <= {each.path for each in client.list_artifacts(tasks["T/0"].info.run_id)}


@pytest.mark.long
def test_what_cannot_be_measured_is_refused_before_it_starts(tmp_path: Path) -> None:
    for arguments, said in (
        (("run", "nosuch", "--model", "scripted"), "no installed package adds the benchmark 'nosuch'"),
        (("report", "none.jsonl", "--out", "report"), "none.jsonl cannot be read"),
        (("suite", "--model", "none"), "a model must write the code"),
        (("suite", "--model", "scripted", "--autonomy", "review-all"), "a benchmark has nobody to ask"),
    ):
        code, _, err = selfheal(tmp_path, "bench", *arguments)
        assert code == 2, err
        assert said in err
        assert "Traceback" not in err


@pytest.mark.long
def test_the_examples_of_a_benchmark_a_metric_and_a_provider_work_together(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap (apt-get install bubblewrap)")
    shutil.copytree(ROOT / "docs" / "extending", tmp_path / "source")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", tmp_path / "site", tmp_path / "source"], check=True, timeout=120)
    book = tmp_path / "book"
    book.mkdir()
    (book / "double.py").write_text("def double(number: int) -> int:\n    return 2 * number\n")
    (book / "initials.py").write_text("def initials(name: str) -> str:\n    return name[0]\n")
    command = ("bench", "run", "katas", "--model", f"copybook:{book}", "--oracle", "given", "--iters", "1", "--json")
    path = f"{ROOT}{os.pathsep}{tmp_path / 'site'}"
    variables = {**environment(tmp_path), "PYTHONPATH": path}  # a new process, as packages are found when it starts
    argv = [sys.executable, "-m", "app", *command]
    done = subprocess.run(argv, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)["summary"]
    assert (summary["validated"], summary["unresolved"]) == (1, 1)
    assert summary["quality"]["longest_line"] > 20


@pytest.mark.long
def test_a_wrong_answer_that_passes_its_own_tests_is_told_apart(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap (apt-get install bubblewrap)")
    prompt = 'def top(a, b):\n    """The larger one."""\n'
    test = "def check(candidate):\n    assert candidate(1, 5) == 5\n    assert candidate(5, 1) == 5\n"
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"task_id": "T/0", "prompt": prompt, "test": test, "entry_point": "top"}))
    weak = "```python\nfrom solution import top\n\ndef test_it():\n    assert top(4, 3) == 4\n```"
    answers = {
        "challenge": weak,
        "attack": weak,
        "write": f"```python\n{prompt}    return a\n```",
        "review": '{"accept": true, "unnatural": false, "reason": "", "input": "f(9) gives 9"}',
    }
    lines = [json.dumps({"role": role, "answers": [answer]}) + "\n" for role, answer in answers.items()]
    (tmp_path / "script.jsonl").write_text("".join(lines))
    command = ("bench", "humaneval", "--data", "tasks.jsonl", "--model", "scripted:script.jsonl", "--oracle", "own", "--json")
    code, out, err = selfheal(tmp_path, *command)
    assert code == 0, err
    summary = json.loads(out)["summary"]
    assert (summary["self_reported"], summary["validated"], summary["reported_but_wrong"]) == (1, 0, 1)
    design = f"```python\n{prompt}    raise NotImplementedError\n```"
    refusal = "I would rather not."
    for designed, most, reported, ended in (
        (design, "100000", 1, "first_answer"),
        (refusal, "100000", 0, "gave_up"),
        (refusal, "1", 0, "out_of_budget"),
    ):
        script = [*lines, json.dumps({"role": "design", "answers": [designed]}) + "\n"]
        (tmp_path / "script.jsonl").write_text("".join(script))
        code, out, err = selfheal(tmp_path, *command, "--design", "on", "--retry", "on", SELFHEAL_MAX_TOKENS=most)
        assert code == 0, err
        told = json.loads(out)
        assert (told["summary"]["tried"], told["summary"]["self_reported"]) == (1, reported), "no design is no error of the run"
        assert told["summary"]["endings"] == {ended: 1}
        assert {"design": "on", "retry": "on", "autonomy": "full"}.items() <= told["options"].items()
