"""`selfheal runs`: what is recorded of each run, however it ends, and what can start again from it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from subprocess import PIPE
from typing import Any

import msgspec
import pytest

from agent.contract.events import Reproduced, StepStarted
from agent.solving.specification import specify
from app.cli.solve import records
from tests.app.cli.solve.test_solve_command import ROOT, WORDS, selfheal, solve
from tests.standins.model import ScriptedModel, hanging

BRIEF = ("--spec-tests", "off", "--adversarial", "off", "--critic", "off")  # how runs are kept does not depend on them
ADD = ("Add the numbers.", "--signature", "total(numbers: list[int]) -> int", "--doctests", ">>> total([1, 2])\n3\n")
DESIGN = """```python
def total(numbers: list[int]) -> int:
    \"\"\"Add the numbers.

    >>> total([1, 2])
    3
    \"\"\"
    raise NotImplementedError
```"""


def answer(body: str) -> str:
    return f"```python\ndef total(numbers: list[int]) -> int:\n    {body}\n```"


def repair(body: str) -> str:
    return f"Cause: it does not add\nChange: {body}\n\nFUNCTION solution.py::total\n{answer(body)}\n"


def script(folder: Path, **answers: str) -> str:
    lines = [json.dumps({"role": role, "answers": [text]}) + "\n" for role, text in answers.items()]
    (folder / "script.jsonl").write_text("".join(lines))
    return "scripted:script.jsonl"


def listed(folder: Path) -> list[dict[str, Any]]:
    code, out, err = selfheal(folder, "runs", "list", "--json")
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)
    return found


def environment(folder: Path, **more: str) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("SELFHEAL_")}
    return known | {"PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(folder / "data")} | more


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "app", "solve", *arguments]


def begun(folder: Path, monkeypatch: pytest.MonkeyPatch) -> records.Recorder:
    """A run that has started; its record is in the folder."""
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    started = datetime(2026, 11, 27, 22, 30, tzinfo=UTC)
    asked = specify("Add.", name="add")
    recorder = records.begin(records.Record("abc", started, asked, "scripted", {}, iterations=4, seconds=60.0))
    assert recorder is not None
    return recorder


def test_an_event_is_recorded_without_secrets_and_otherwise_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = begun(tmp_path, monkeypatch)
    for text in ('The answer has password: "hunter2" in it', "a\nb \u2028 c"):
        recorder.event(StepStarted(text=text, step="verify"))
    recorder.event(Reproduced(text="", red=["api_key = 'zzz-yyy-xxx'"], red_count=1, green_count=0, seconds=0.5))
    secret, plain, ids = records.events("abc")
    assert secret["text"] == 'The answer has password: "[redacted]" in it'
    assert plain["text"] == "a\nb \u2028 c"
    assert (ids["red"], ids["red_count"], ids["seconds"]) == (["api_key = '[redacted]'"], 1, 0.5)


TOKEN = f"ghp_{'a1' * 18}"


def test_a_record_holds_no_token_of_the_specification_and_its_code_stays_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    asked, code = specify(f"Send {TOKEN} home.", name="send"), {"token.py": "def f(tokens):\n    token = tokens.first\n"}
    now = datetime(2026, 11, 27, tzinfo=UTC)
    recorder = records.begin(records.Record("abc", now, asked, "scripted", {}, iterations=4, seconds=60.0))
    assert recorder is not None
    recorder.write(records.Result(files=code, reason=f"It sends {TOKEN}"))
    assert TOKEN not in (tmp_path / "selfheal/runs/abc/run.json").read_text()
    found = records.find("abc")
    assert found.spec.text == "Send [redacted] home."
    assert found.result is not None
    assert found.result.files == code


@pytest.mark.long
def test_what_is_said_about_an_answer_names_no_token(tmp_path: Path) -> None:
    asked = ("Send the token.", "--signature", "send() -> str", "--doctests", f">>> send()\n'{TOKEN}'\n", "--iters", "1")
    model = script(tmp_path, write="```python\ndef send() -> str:\n    return 'nothing'\n```")
    code, _, err = solve(tmp_path, *asked, "--model", model, "--retry", "off", "--no-design", *BRIEF, seconds=200)
    assert code == 1
    assert "Not solved: " in err
    assert "'[redacted]'" in err
    assert TOKEN[:10] not in err


def test_times_are_local_and_say_their_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(tmp_path, monkeypatch)
    happened = {"at": "2026-11-27T22:30:05.5+00:00", "text": "Writing"}
    (tmp_path / "data/selfheal/runs/abc/events.jsonl").write_text(f"{json.dumps(happened)}\n")
    here = datetime(2026, 11, 27, 22, 30, 5, tzinfo=UTC).astimezone()
    for arguments, said in (
        (("list",), f"{here:%Y-%m-%d %H:%M %Z}"),
        (("show", "abc"), f"{here:%Y-%m-%d %H:%M:%S %Z}  Writing"),
    ):
        code, out, err = selfheal(tmp_path, "runs", *arguments)
        assert code == 0, err
        assert said in out


@pytest.mark.long
def test_runs_are_listed_forked_from_a_round_and_repeated(tmp_path: Path) -> None:
    arguments = (WORDS, "--fn", "merge_intervals", "--model", "scripted", "--yes", "--stream", "--memory", "on", *BRIEF)
    code, out, err = solve(tmp_path, *arguments, seconds=200)
    assert code == 0, err
    lines = [json.loads(line) for line in out.splitlines()]
    id_ = lines[0]["run"]
    assert lines[-1]["result"]["solved"]
    assert {"step_started", "model_called"} <= {line["event"]["kind"] for line in lines[1:-1]}

    (run,) = listed(tmp_path)
    assert (run["id"], run["status"], run["rounds"], run["model"]) == (id_, "solved", 2, "scripted")
    code, out, err = selfheal(tmp_path, "runs", "show", id_[:8])
    assert code == 0, err
    assert "Round 2: " in out
    assert "sorted(intervals)" in out

    code, out, err = selfheal(
        tmp_path, "runs", "fork", id_[:8], "--from-iteration", "2", "--hint", "sort", "--json", seconds=200
    )
    assert code == 0, err
    assert json.loads(out)["iterations"][0]["title"] == "the earlier answer"
    code, out, err = selfheal(tmp_path, "runs", "replay", id_[:8], "--json", seconds=200)
    assert code == 0, err
    origins = [(each["origin"], each["forked_from"], each["rounds"]) for each in listed(tmp_path)]
    assert origins == [("replay", id_, 2), ("fork", id_, 1), (None, None, 2)]
    table = selfheal(tmp_path, "runs", "list")[1]
    assert f"replay of {id_[:12]} " in table
    assert f"fork of {id_[:12]}, round 2" in table
    replay = listed(tmp_path)[0]["id"]
    assert selfheal(tmp_path, "runs", "show", replay)[1].startswith(f"Replay of {id_[:12]}\n\n{WORDS}")

    code, _, err = selfheal(tmp_path, "runs", "fork", id_[:8], "--from-iteration", "9")
    assert code == 2
    assert "has 2 rounds" in err
    code, _, err = selfheal(tmp_path, "runs", "show", "nosuch")
    assert code == 2
    assert "selfheal runs list" in err


def test_a_model_that_fails_in_the_design_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    model = script(tmp_path, write=answer("return sum(numbers)"))
    code, out, err = solve(tmp_path, "Add the numbers.", "--model", model, "--stream", *BRIEF)
    assert code == 1, err
    (run,) = listed(tmp_path)
    assert (run["status"], run["rounds"]) == ("infrastructure", 0)
    told = json.loads(out.splitlines()[-1])["result"]
    assert (told["outcome"], told["next_step"] or "") == ("infrastructure", "")
    assert told["reason"][1:] == f"{run['reason']}."[1:]
    assert run["reason"] in err
    assert "has no answer for the role 'design'" in selfheal(tmp_path, "runs", "show", run["id"])[1]
    code, _, err = selfheal(tmp_path, "runs", "fork", run["id"])
    assert code == 2
    assert f"selfheal runs replay {run['id'][:12]}" in err


def test_a_budget_that_ends_in_the_design_is_the_outcome_of_the_run(tmp_path: Path) -> None:
    model = script(tmp_path, design="I would add them.")
    code, _, err = solve(tmp_path, "Add the numbers.", "--model", model, "--max-tokens", "10", *BRIEF)
    assert code == 1, err
    assert "Not solved: There is no code: the budget of 10 model tokens is used up." in err
    assert "Next: Allow more with --iters, --budget, --max-tokens or --max-cost" in err
    (run,) = listed(tmp_path)
    assert (run["status"], run["rounds"]) == ("out_of_budget", 0)
    code, _, err = selfheal(tmp_path, "runs", "fork", run["id"])
    assert code == 2
    assert f"selfheal runs replay {run['id'][:12]}" in err


def test_a_design_that_is_declined_ends_the_run(tmp_path: Path) -> None:
    model = script(tmp_path, design=DESIGN)
    person, terminal = pty.openpty()
    try:
        started = subprocess.Popen(
            command("Add the numbers.", "--model", model, *BRIEF),
            cwd=tmp_path,
            env=environment(tmp_path),
            stdin=terminal,
            stdout=PIPE,
            stderr=terminal,
        )
        said = b""
        while b"Is this what you mean?" not in said:
            said += os.read(person, 4096)
        os.write(person, b"n\n")
        started.communicate(timeout=60)
    finally:
        os.close(person)
        os.close(terminal)
    assert started.returncode == 1
    (run,) = listed(tmp_path)
    assert run["status"] == "cancelled"
    assert "the design was not confirmed" in run["reason"]


def test_an_id_that_matches_no_run_or_several_is_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = begun(tmp_path, monkeypatch)
    records.begin(msgspec.structs.replace(recorder.record, id="abd"))
    for prefix, said in (
        ("ab", "'ab' begins the ids of 2 runs; give more"),
        ("x", "no id of a run begins with 'x'; `selfheal"),
    ):
        with pytest.raises(records.NoSuchRun, match=said):
            records.find(prefix)
    assert records.find("abd").id == "abd"


def test_a_run_that_was_killed_before_its_design_is_listed_as_interrupted(tmp_path: Path) -> None:
    assert selfheal(tmp_path, "runs", "list")[1].startswith("No runs yet")
    folder = tmp_path / "data" / "selfheal" / "runs" / "abc"
    folder.mkdir(parents=True)
    record = {"id": "abc", "started_at": "2026-11-27T10:00:00Z", "spec": {"text": "Add."}, "model": "scripted"}
    (folder / "run.json").write_text(json.dumps({**record, "options": {}, "iterations": 4, "seconds": 60}))
    (folder / "events.jsonl").write_text('{"at": "2026-11-27T10:00:01+00:00", "text": "Writing tests"}\n{"at": "20')
    code, out, err = selfheal(tmp_path, "runs", "list")
    assert code == 0, err
    assert "interrupted" in out
    assert "Writing tests" in selfheal(tmp_path, "runs", "show", "abc")[1]
    code, _, err = selfheal(tmp_path, "runs", "fork", "abc", "--from-iteration", "1")
    assert code == 2
    assert "selfheal runs replay abc" in err


@pytest.mark.long
async def test_a_run_that_is_killed_in_a_round_goes_on_from_that_round(tmp_path: Path) -> None:
    said = [
        answer("return len(str(numbers)) * 7"),
        '{"1": {"right": "test", "why": ""}}',
        repair("return len(str(numbers)) * 9"),
    ]
    async with ScriptedModel([*said, hanging()]) as model:
        settings = {"SELFHEAL_MODEL": "openai/any", "SELFHEAL_MODEL_API_BASE": model.openai_url}
        arguments = (*ADD, "--stream", "--debugger", "off", "--iters", "5", *BRIEF)
        with subprocess.Popen(command(*arguments), cwd=tmp_path, env=environment(tmp_path, **settings), stdout=PIPE) as run:
            assert run.stdout is not None
            id_ = json.loads(run.stdout.readline())["run"]
            while len(model.asked) < 4:
                time.sleep(0.1)
                assert run.poll() is None
            (before,) = listed(tmp_path)
            run.kill()
    (after,) = listed(tmp_path)
    assert (before["status"], after["status"], after["rounds"]) == ("running", "interrupted", 2)
    code, _, err = selfheal(tmp_path, "runs", "fork", id_, "--from-iteration", "4")
    assert code == 2
    assert "has 2 rounds, so none can start at 4; give at most --from-iteration 3" in err
    model_ = script(tmp_path, repair=repair("return sum(numbers)"), diagnose='{"cause": "it does not add", "confidence": 0.9}')
    code, out, err = selfheal(tmp_path, "runs", "fork", id_, "--model", model_, "--json", seconds=200)
    assert code == 0, err
    first, *_, last = json.loads(out)["iterations"]
    assert first["title"] == "the earlier answer"
    assert "* 9" in first["diff"]
    assert "sum(numbers)" in last["diff"]
    assert (listed(tmp_path)[0]["forked_from"], listed(tmp_path)[0]["from_iteration"]) == (id_, 3)
