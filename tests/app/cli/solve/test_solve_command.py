"""`selfheal solve` as a user types it."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from app.cli.solve import saving
from app.cli.solve.run import show_code
from app.settings import SettingsError
from tests.app.cli import program

ROOT = Path(__file__).resolve().parents[4]
WORDS = "Merge overlapping or touching intervals of integers; the result is sorted."


def solve(folder: Path, *arguments: str, seconds: float = 60.0, **variables: str) -> tuple[int, str, str]:
    return selfheal(folder, "solve", *arguments, seconds=seconds, **variables)


def selfheal(folder: Path, *arguments: str, seconds: float = 60.0, **variables: str) -> tuple[int, str, str]:
    """What is remembered of runs is beside the folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
    environment |= {"PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(folder / "data")}
    done = program.run(list(arguments), folder, environment | variables, seconds)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["  ", "--fn", "add"], "the specification is empty"),
        (["Add.", "--signature", "add(a"], "does not parse"),
        (["Add.", "--fn", "1a"], "not a Python identifier"),
        (["Add.", "--doctests", "nowhere.txt"], "neither examples (lines with `>>>`) nor a file"),
        (["Add.", "--doctests", ">>> add(1, 2)\n3\n>>> add(1, 2)\n4"], "contradict each other"),
        (
            ["Add.", "--tests", "nowhere.py"],
            "nowhere.py cannot be read: No such file or directory; give the path of a text file",
        ),
        (["--file", "/"], "/ cannot be read: Is a directory; give the path of a text file"),
        (["Add.", "--file", "spec.txt"], "not both"),
        (["Add.", "--fn", "add", "--model", "scripted:nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (["Add.", "--fn", "add", "--model", "none"], "a model must write the code"),
        (["Add.", "--fn", "add", "--autonomy", "review-all"], "this is no terminal"),
        (["Add.", "--fn", "add", "--stream", "--json"], "give one of the two"),
        (["Add.", "--fn", "add", "--new-folder"], "give --out FOLDER too"),
    ],
)
def test_wrong_use_is_named_with_the_way_out(arguments: list[str], said: str, tmp_path: Path) -> None:
    code, out, err = solve(tmp_path, *arguments)
    assert (code, out) == (2, ""), err
    assert said in err
    assert "Traceback" not in err


def test_a_broken_script_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "script.jsonl").write_text('{"answers": ["x"]}\n{"answers": [}\n')
    code, _, err = solve(tmp_path, "Add.", "--fn", "add", "--model", "scripted:script.jsonl")
    assert code == 2
    assert "script.jsonl, line 2" in err


def test_a_model_that_can_answer_nothing_is_told_once_and_at_once(tmp_path: Path) -> None:
    given = ("Add.", "--signature", "add(a, b)", "--doctests", ">>> add(1, 2)\n3\n", "--yes")
    code, _, err = solve(tmp_path, *given, "--model", "scripted")
    assert code == 1
    assert err.splitlines()[-1].startswith("selfheal: the built-in script has no answer for the role 'challenge'")
    assert "Running the tests" not in err


def test_a_specification_of_a_megabyte_has_one_limit(tmp_path: Path) -> None:
    (tmp_path / "spec.txt").write_text("ä" * 1_000_000)
    for arguments in (["--file", "spec.txt"], ["ä" * 30_000]):
        code, _, err = solve(tmp_path, *arguments, "--fn", "add")
        assert code == 2
        assert "the specification is longer than 20,000 characters; keep what a developer must know" in err


def test_the_command_can_be_shown_with_its_profile_spelled_out(tmp_path: Path) -> None:
    code, out, _ = solve(tmp_path, WORDS, "--fn", "merge_intervals", "--profile", "fast", "--show-command")
    assert code == 0
    spelled = "--no-design --candidates 1 --decode greedy --iters 2 --adversarial off --retry off"
    assert out == f"selfheal solve '{WORDS}' --fn merge_intervals {spelled}\n"
    assert f"'{WORDS}' {spelled}" in solve(tmp_path, WORDS, "--profile", "fast", "--show-command")[1]
    own = ["--iters", "7", "--yes", "--temperature", "0.25", "--max-tokens", "9000", "--max-cost", "0.125", "--budget", "60.5"]
    own += ["--spec-tests", "off", "--critic", "off", "--debugger", "off", "--memory", "on", "--strategies", "2"]
    own += ["--form", "script", "--clean-doc", "--out", "here", "--model", "scripted", "--signature", "add(a: int)"]
    _, out, err = solve(tmp_path, "Add.", "--profile", "copy", *own, "--show-command")
    shown = shlex.split(out)
    assert set(own) < set(shown), err
    assert {"--no-test", "--code-only"} < set(shown)
    assert solve(tmp_path, *shown[2:], "--show-command")[1] == out, "the command stands for itself"


@pytest.mark.parametrize(
    ("own", "spelled"),
    [
        ([], "--yes --out outputs --new-folder"),
        (["--out", "here"], "--yes --out here"),
        (["--out", "here", "--new-folder"], "--yes --out here --new-folder"),
        (["--new-folder"], "--yes --out outputs --new-folder"),
    ],
)
def test_a_profile_makes_no_folder_in_one_that_the_user_names(own: list[str], spelled: str, tmp_path: Path) -> None:
    _, out, err = solve(tmp_path, "Add.", "--profile", "save", *own, "--show-command")
    assert out == f"selfheal solve Add. {spelled}\n", err


@pytest.mark.long
@pytest.mark.parametrize(
    "own",
    [
        ["Add.", "--fn", "add", "--profile", "save"],
        ["--file", "spec file.txt", "--fn", "add", "--out", "here", "--force", "--profile", "save"],
        ['Say "it\'s".\n\n>>> add(1, 2)\n3\n', "--temperature", "0.1234567890123", "--max-cost", "1e-7", "--budget", "60"],
        ["--profile", "fast", "--design", "--candidates", "2", "--iters", "7", "--signature", "add(a: int = -1)", "--", "-1."],
        ["Add.", "--doctests", ">>> add(1, 2)\n3\n", "--show-tests", "--retry", "on", "--profile", "copy"],
        ["Add.", "--doctests", "doctests.txt", "--tests", "test_add.py", "--out", "here", "--new-folder", "--stream"],
        ["Add.", "--fn", "add", "--out", "here", "--json", "--form", "script", "--no-test", "--profile", "copy"],
    ],
    ids=" ".join,
)
def test_the_command_that_is_shown_does_what_the_command_does(own: list[str], tmp_path: Path) -> None:
    (tmp_path / "spec file.txt").write_text("Add.")
    (tmp_path / "doctests.txt").write_text(">>> add(1, 2)\n3\n")
    (tmp_path / "test_add.py").write_text("def test_add():\n    assert add(0, 0) == 0\n")
    # Neither a design nor an answer: the run ends when all options were read.
    (tmp_path / "silent.jsonl").write_text('{"role": "review", "answers": ["."]}\n')
    typed = ["--model", "scripted:silent.jsonl", *own]
    code, shown, err = solve(tmp_path, "--show-command", *typed)
    assert code == 0, err
    runs = []
    for arguments in (typed, shlex.split(shown)[2:]):
        code, out, err = solve(tmp_path, *arguments)
        assert code == 1, err
        (record,) = tmp_path.glob("data/selfheal/runs/*/run.json")
        told = json.loads(record.read_text())
        asked = {name: told[name] for name in told if name not in ("id", "started_at", "result")}
        written = [log.relative_to(tmp_path) for log in tmp_path.glob("*/**/log.json")]
        folders = [re.sub(r"\d{4}-\d\d-\d\d-\d{6}", "TIME", str(path.parent)) for path in written]
        runs.append((asked, folders, bool(out)))
        for path in (record, *written):
            shutil.rmtree((tmp_path / path).parent)
    assert runs[0] == runs[1], shown
    made = "here" if "--out" in own else "outputs"
    is_new = ("save" in own and "--out" not in own) or "--new-folder" in own
    assert runs[0][1] == ([f"{made}/TIME"] if is_new else [made] if "--out" in own else [])


def test_the_specification_from_standard_input_is_in_the_command_that_is_shown() -> None:
    shown = subprocess.run(
        [sys.executable, "-P", "-m", "app", "solve", "--fn", "add", "--show-command"],
        input="Add\nthem.", capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert shlex.split(shown.stdout) == ["selfheal", "solve", "Add\nthem.", "--fn", "add"]


def test_the_command_is_shown_with_the_path_of_a_program_that_is_not_in_path(tmp_path: Path) -> None:
    program_ = Path(sys.executable).parent / "selfheal"
    for path, typed in ((str(tmp_path), str(program_)), (str(program_.parent), "selfheal")):
        shown = subprocess.run(
            [program_, "solve", "Add.", "--show-command"],
            capture_output=True, text=True, check=True, env={**os.environ, "PATH": path},
        )  # fmt: skip
        assert shown.stdout == f"{typed} solve Add.\n"


def test_runs_that_begin_in_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    found = {saving.fresh(tmp_path / "outputs") for _ in range(3)}
    assert len(found) == 3
    assert all(each.is_dir() for each in found)
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SettingsError, match="pass another folder"):
        saving.check(saving.fresh(tmp_path / "gone"), force=False)


def test_code_on_a_terminal_is_not_cut_at_its_width() -> None:
    shown = io.StringIO()
    code = f"def total(numbers):\n    return sum(numbers){' + 1' * 50}  # the end\n"
    show_code(Console(file=shown, force_terminal=True, width=40), "solution.py", code)
    assert Text.from_ansi(shown.getvalue()).plain == f"solution.py\n{code}"


@pytest.mark.long
def test_a_model_that_cannot_be_reached_is_named_with_the_way_out(tmp_path: Path) -> None:
    where = {"SELFHEAL_MODEL_API_BASE": "http://127.0.0.1:9/v1", "SELFHEAL_MODEL_API_KEY": "none"}
    where |= {"SELFHEAL_MODEL": "openai/gone"}
    given = ("Add.", "--signature", "add(a, b)", "--doctests", ">>> add(1, 2)\n3", "--spec-tests", "off", "--json")
    code, out, err = solve(tmp_path, *given, seconds=200, **where)
    assert code == 1, err
    told = json.loads(out)
    assert (told["solved"], told["outcome"]) == (False, "infrastructure")
    assert told["reason"].startswith("The model openai/gone is not reachable: ")
    assert told["next_step"].startswith("Check that its server runs, and its address and key")

    code, out, err = solve(tmp_path, "Add.", "--fn", "add", "--json", seconds=200, **where)  # not even a design
    assert code == 1, err
    undesigned = json.loads(out)
    assert undesigned.keys() == told.keys()
    assert {name: undesigned[name] for name in ("solved", "outcome", "reason", "next_step")} == {
        name: told[name] for name in ("solved", "outcome", "reason", "next_step")
    }
    assert undesigned["usage"]["calls"] == 3
    assert re.search(r"\nselfheal: the model openai/gone is not reachable: .*\w\)\. Check that its server runs", err)
    assert err.count("Connection error (127.0.0.1:9)") == 2, "when it is seen first, and at the end"
    assert "InternalServerError" not in err, "what it is called within LiteLLM"


@pytest.mark.long
def test_the_built_in_script_fails_once_and_is_healed(tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs/mine.py").write_text("kept\n")
    arguments = (WORDS, "--fn", "merge_intervals", "--model", "scripted", "--profile", "save", "--json")
    code, out, err = solve(tmp_path, *arguments, seconds=200)
    assert code == 0, err
    (folder,) = (each for each in (tmp_path / "outputs").iterdir() if each.is_dir())
    told = json.loads(out)
    assert (told["solved"], told["first_passed"], told["name"]) == (True, False, "merge_intervals")
    assert "sorted(intervals)" in told["files"]["solution.py"]
    assert (folder / "solution.py").read_text() == told["files"]["solution.py"]
    assert (folder / "test_blind_1.py").exists()
    assert json.loads((folder / "log.json").read_text())["iterations"][-1]["result"] == "verified"


@pytest.mark.parametrize("there", ["a file in the place of the folder", "a folder with a file"])
def test_a_folder_that_cannot_take_the_code_is_named_before_the_run(there: str, tmp_path: Path) -> None:
    if there == "a folder with a file":
        (tmp_path / "outputs").mkdir()
        (tmp_path / "outputs/mine.py").write_text("kept\n")
    else:
        (tmp_path / "outputs").write_text("kept\n")
    code, out, err = solve(tmp_path, WORDS, "--fn", "merge_intervals", "--model", "scripted", "--out", "outputs")
    assert (code, out) == (2, ""), err
    assert (
        "outputs has files, such as mine.py; pass --force" if "folder with" in there else "outputs cannot be written"
    ) in err
    assert "Writing" not in err


@pytest.mark.long
@pytest.mark.parametrize("there", ["a folder", "a link"])
def test_code_that_cannot_be_saved_is_printed_and_nothing_outside_is_touched(there: str, tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outside.py").write_text("kept\n")
    if there == "a folder":
        (tmp_path / "outputs/solution.py").mkdir()
    else:
        (tmp_path / "outputs/solution.py").symlink_to(tmp_path / "outside.py")
    arguments = (WORDS, "--fn", "merge_intervals", "--model", "scripted", "--out", "outputs", "--force")
    code, out, err = solve(tmp_path, *arguments, seconds=200)
    assert code == 2, err
    assert "sorted(intervals)" in out
    said = "outputs/solution.py cannot be written" if there == "a folder" else "is a link to a place outside of outputs"
    assert said in err
    assert "Written to" not in err
    assert (tmp_path / "outside.py").read_text() == "kept\n"


@pytest.mark.long
def test_limits_of_tokens_end_a_run_and_its_repetition(tmp_path: Path) -> None:
    arguments = (WORDS, "--fn", "merge_intervals", "--model", "scripted", "--profile", "fast", "--max-tokens", "10")
    code, out, err = solve(tmp_path, *arguments, seconds=200)
    assert (code, out) == (1, ""), err
    reason = "Not solved: There is no code: the budget of 10 model tokens is used up."
    assert reason in err
    (listed,) = json.loads(selfheal(tmp_path, "runs", "list", "--json")[1])
    assert reason in selfheal(tmp_path, "runs", "replay", listed["id"], seconds=200)[2]


@pytest.mark.long
def test_a_pipe_gets_the_code_alone(tmp_path: Path) -> None:
    arguments = ("--fn", "merge_intervals", "--model", "scripted", "--yes", "--form", "function", "--clean-doc")
    (tmp_path / "spec.txt").write_text(WORDS)
    code, out, err = solve(tmp_path, *arguments, "--file", "spec.txt", seconds=200)
    assert code == 0, err
    assert out.startswith("def merge_intervals(")
    assert ">>>" not in out
    compile(out, "solution.py", "exec")
    design, _, solved = err.partition("Solved: merge_intervals, after 2 rounds; ")
    assert ">>> merge_intervals(" in design, "nobody is asked, but the drafted examples are shown"
    assert re.match(r"\d test files passed; confidence \d\d%\.", solved), solved
