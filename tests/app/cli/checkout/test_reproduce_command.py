"""`selfheal reproduce` as a person meets it: what it asks back, what it prints, how it ends."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from platformdirs import user_cache_path

from tests.app.cli import program
from tests.sandbox.index import serving

ROOT = Path(__file__).resolve().parents[4]
RED = "def test_red(): assert 1 == 2\ndef test_green(): pass\n"
WORKFLOW = """
    on: [push, pull_request]
    jobs:
      lint:
        runs-on: ubuntu-latest
        steps: [{name: Style, run: echo fine}]
      tests:
        runs-on: ubuntu-latest
        strategy: {matrix: {part: [one, two]}}
        steps:
          - uses: actions/checkout@v5
          - {name: "Tests of ${{ matrix.part }}", run: "python -m unittest discover -s ${{ matrix.part }}"}
          - {name: Never, run: exit 1}
    """
UNITTEST = "import unittest\nclass Tests(unittest.TestCase):\n    def test_a(self): self.assertEqual(1, {})\n"
PARTS = {"one/test_one.py": UNITTEST.format(1), "two/test_two.py": UNITTEST.format(2)}

Checkout = Callable[..., Path]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    def make(workflow: str | None = None, **files: str) -> Path:
        """`files` are by path, "/" written as is."""
        folder = tmp_path / "shop"
        if workflow is not None:
            files[".github/workflows/ci.yml"] = textwrap.dedent(workflow)
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return folder

    return make


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
    return kept | {"XDG_CACHE_HOME": str(user_cache_path("selfheal-tests")), "COLUMNS": "120", "PYTHONPATH": str(ROOT)}


def reproduce(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return program.run(("reproduce", str(folder), *options), ROOT, environment(), seconds=120)


def told(folder: Path, *options: str) -> dict[str, Any]:
    done = reproduce(folder, *options, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if found["outcome"] == "reproduced" else 1), done.stderr
    return found


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--workflow", "other.yml"), "no workflow 'other.yml'; available: .github/workflows/ci.yml"),
        (("--job", "deploy"), "the jobs are: lint; tests (one); tests (two)"),
        (("--job", "tests", "--matrix", "part=three"), "part"),
        (("--job", "tests", "--matrix", "python=3.12"), "python"),
        (("--job", "tests", "--step", "Deploy"), "Available: Run actions/checkout@v5; Tests of ${{ matrix.part }}; Never"),
        (("--matrix", "part"), "--matrix 'part' is not KEY=VALUE"),
        (("--job", "tests", "--test", "pytest"), "--test cannot be combined with --workflow"),
    ],
)
def test_an_unknown_job_is_answered_with_the_available_ones(checkout: Checkout, options: tuple[str, ...], said: str) -> None:
    done = reproduce(checkout(WORKFLOW), *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wish_in_a_checkout_without_workflows_is_answered(checkout: Checkout) -> None:
    done = reproduce(checkout(**{"test_a.py": RED}), "--job", "tests")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the checkout has no workflow in .github/workflows" in done.stderr


def test_a_workflow_that_is_no_yaml_is_refused_with_its_place(checkout: Checkout) -> None:
    done = reproduce(checkout("on: push\n    jobs: [a"), "--workflow", "ci.yml")
    assert (done.returncode, done.stdout) == (2, "")
    assert ".github/workflows/ci.yml: " in done.stderr
    assert "line" in done.stderr.lower()


BROKEN = "on: push\njobs:\n  tests: [a\n"


def test_without_a_wish_a_workflow_that_cannot_be_read_is_refused_with_its_line_and_nothing_is_guessed(
    checkout: Checkout,
) -> None:
    found = told(checkout(BROKEN, **{"test_a.py": RED}))
    assert (found["outcome"], found["failing"], found["checks"]) == ("refused", [], [])
    assert ".github/workflows/ci.yml: " in found["reason"]
    assert "ine " in found["reason"]


@pytest.mark.long
def test_a_workflow_that_cannot_be_read_is_told_beside_the_job_that_is_taken(checkout: Checkout) -> None:
    found = told(checkout(WORKFLOW, **PARTS, **{".github/workflows/a.yml": BROKEN}))
    assert found["outcome"] in ("reproduced", "not_reproduced")
    (note,) = [note for note in found["approximated"] if "a.yml" in note]
    assert note.startswith("skipped an unreadable workflow: .github/workflows/a.yml: ")
    assert "ine " in note


@pytest.mark.long
def test_the_job_that_tests_is_taken_and_of_its_legs_the_one_that_is_named(checkout: Checkout) -> None:
    found = told(checkout(WORKFLOW, **PARTS), "--matrix", "part=two")
    assert (found["outcome"], found["failing"]) == ("reproduced", ["test_two.Tests.test_a"])
    assert (found["reason"], found["next_step"]) == (None, None)
    (job,) = found["jobs"]
    assert job["source"] == "workflow .github/workflows/ci.yml, job tests (two)"
    assert [(step["number"], step["title"], step["does"]) for step in job["steps"]] == [
        ("1", "Run actions/checkout@v5", "nothing"), ("2", "Tests of two", "fails"), ("3", "Never", "not reached"),
    ]  # fmt: skip
    (check,) = found["checks"]
    assert check["command"] == "python -m unittest discover -s two"
    (failure,) = found["failures"]
    assert "1 != 2" in failure["message"]
    assert found["environment"].startswith("Python 3.")


def test_what_is_printed_tells_the_steps_and_what_fails(checkout: Checkout) -> None:
    done = reproduce(checkout(WORKFLOW, **PARTS), "--job", "tests", "--matrix", "part=two")
    assert done.returncode == 0
    lines = [line.rstrip() for line in done.stdout.splitlines() if line.strip()]
    assert lines[0] == "Workflow .github/workflows/ci.yml, job tests (two)"
    assert lines[2].split() == ["2", "fails", "Tests", "of", "two", *["python", "-m", "unittest", "discover", "-s", "two"]]
    assert lines[-4:-1] == ["Reproduced: 1 failing result", "  test_two.Tests.test_a", "    AssertionError: 1 != 2"]


def test_a_green_checkout_is_not_reproduced(checkout: Checkout) -> None:
    done = reproduce(checkout(**{"test_a.py": "import unittest\n" + UNITTEST.format(1)}), "--test", "python -m unittest")
    assert done.returncode == 1
    assert "Not reproduced (not_reproduced): Nothing failed here: 1 result" in done.stdout
    assert "Next: If another check fails, name its command under `test:`" in done.stdout


@pytest.mark.long
def test_an_answer_that_cannot_be_written_is_an_error_with_a_way_out(checkout: Checkout) -> None:
    folder = checkout(**{"test_a.py": "import unittest\n" + UNITTEST.format(1)})
    argv = (sys.executable, "-c", "from app.cli.main import main; main()", "reproduce", str(folder), "--test", "true")
    command = f"{shlex.join(argv)} > /dev/full"
    done = subprocess.run(["/bin/sh", "-c", command], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("selfheal: the answer cannot be written: No space left on device. ")
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_without_options_the_job_that_tests_is_taken_and_the_others_are_named(checkout: Checkout) -> None:
    docs = "on: push\njobs: {docs: {runs-on: ubuntu-latest, steps: [{run: python -m pytest docs}]}}\n"
    folder = checkout(WORKFLOW, **PARTS, **{".github/workflows/build-docs.yml": docs})
    found = told(folder)
    assert [job["source"] for job in found["jobs"]] == ["workflow .github/workflows/ci.yml, job tests (one)"]
    (passed,) = [note for note in found["approximated"] if note.startswith("passed over: ")]
    assert "docs of build-docs.yml (its name says that it is not about the tests)" in passed
    assert "lint of ci.yml (it runs no tests)" in passed


@pytest.mark.parametrize(
    ("command", "lacks"),
    [
        ("python -c 'import urllib.request as r; r.urlopen(\\\"http://example.invalid/\\\")'", "the network"),
        ("python tests/fetch.py", "the network"),
        ("python -m pytest -k of_a_plugin", "a test that it selects"),
        ("python -m pytest --doctest-glob=*.txt", "a locale that its tests set"),
    ],
    ids=["network", "network, among tests", "no test", "locale"],
)
def test_a_step_that_lacks_something_here_is_no_failure(checkout: Checkout, command: str, lacks: str) -> None:
    steps = f"""
        on: push
        jobs:
          tests:
            runs-on: ubuntu-latest
            steps:
              - {{name: First, run: "{command}"}}
              - {{name: Tests, run: python -m unittest}}
        """
    sets = ">>> import locale\n>>> locale.setlocale(locale.LC_ALL, 'xx_XX.UTF-8')\n'xx_XX.UTF-8'\n"
    fetch = "import urllib.request as r\nr.urlopen('http://example.invalid/')\n"
    files = {"a.txt": sets, "tests/fetch.py": fetch, "pytest.ini": "[pytest]\npython_files = none.py\n"}
    files["test_a.py"] = UNITTEST.format(2)
    found = told(checkout(steps, **files))
    assert (found["outcome"], found["failing"]) == ("reproduced", ["test_a.Tests.test_a"])
    assert [step["does"] for step in found["jobs"][0]["steps"]] == ["left out", "fails"]
    assert f"step 1, `First`, fails here without {lacks}, so it is left out" in found["approximated"]


@pytest.mark.long
def test_a_set_up_step_without_what_a_step_left_out_provides_is_no_failure(checkout: Checkout) -> None:
    steps = """
        on: push
        jobs:
          tests:
            runs-on: ubuntu-latest
            steps:
              - {name: Download, uses: actions/download-artifact@v5}
              - {name: Unpack, run: tar xf dist/it.tar.gz}
              - {name: Tests, run: python -m unittest}
              - {name: Build, run: "echo broken; exit 3"}
        """
    found = told(checkout(steps, **{"test_a.py": UNITTEST.format(1)}))
    assert [step["does"] for step in found["jobs"][0]["steps"]] == ["left out", "left out", "runs", "fails"]
    assert (found["outcome"], found["failing"]) == ("reproduced", ["exit"])


@pytest.mark.long
def test_a_red_one_without_workflows_is_detected(checkout: Checkout) -> None:
    found = told(checkout(**{"test_a.py": RED}))
    assert found["failing"] == ["test_a.py::test_red"]
    assert found["jobs"] == []
    assert [check["source"] for check in found["checks"]] == ["detected"]
    assert list(found["timings"])[:4] == ["start", "unpack", "install", "reproduce"]
    assert abs(sum(found["timings"].values()) - found["seconds"]) < 0.1


@pytest.mark.parametrize(
    ("step", "outcome", "said"),
    [
        ("{name: Go, run: 'pytest --key ${{ secrets.API_KEY }}'}", "needs_secret", "`API_KEY`"),
        ("{name: Go, uses: someone/thing@v1}", "not_reproduced", "someone/thing@v1"),
        ("{name: Go, run: 'pytest ${{ fromJSON(matrix) }}'}", "refused", "fromJSON"),
    ],
)
def test_what_stands_in_the_way_is_named(checkout: Checkout, step: str, outcome: str, said: str) -> None:
    workflow = f"on: push\njobs: {{tests: {{runs-on: ubuntu-latest, steps: [{step}]}}}}"
    found = told(checkout(workflow, **{"test_a.py": RED}), "--job", "tests")
    assert (found["outcome"], found["failing"]) == (outcome, [])
    assert said in found["reason"]
    assert found["next_step"]


@pytest.mark.parametrize(
    ("fetched", "outcome"), [(True, "reproduced"), pytest.param(False, "infrastructure", marks=pytest.mark.long)]
)
def test_a_requirement_that_nobody_has_is_the_failure_and_an_index_out_of_reach_is_not(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fetched: bool, outcome: str
) -> None:
    steps = "{run: pip install no-such-thing==1.0}, {run: python -m unittest}"
    folder = checkout(f"on: push\njobs: {{tests: {{runs-on: ubuntu-latest, steps: [{steps}]}}}}", **{"test_a.py": RED})
    with serving(tmp_path / "index") as index:
        for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_INDEX_URL", index.url if fetched else "http://127.0.0.1:1/simple")
        monkeypatch.setenv("PIP_RETRIES", "0")
        found = told(folder)
    assert found["outcome"] == outcome
    if fetched:
        assert found["failing"] == ["no-such-thing"]
        assert "no-such-thing was not found" in found["failures"][0]["message"]
        assert [step["does"] for step in found["jobs"][0]["steps"]] == ["installs", "runs"]
    else:
        assert found["reason"].count("could not be installed") == 1
        assert not any("rror" in note for note in found["approximated"])


def test_services_that_cannot_be_had_are_named(checkout: Checkout) -> None:
    workflow = (
        "on: push\njobs: {tests: {runs-on: ubuntu-latest, services: {search: {image: 'elasticsearch:8'}}, "
        "steps: [{name: Go, run: pytest}]}}"
    )
    found = told(checkout(workflow, **{"test_a.py": RED}))
    assert found["outcome"] == "needs_services"
    assert "elasticsearch:8" in found["reason"]
