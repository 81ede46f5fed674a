import json
import shlex
import tomllib
from pathlib import Path

import pytest

from agent.ci.runners.context import Followed, Steps, Unfollowed
from agent.ci.runners.dispatch import follow
from agent.ci.runners.nox import noxfile
from agent.ci.runners.nox import session as nox_session
from sandbox.base import Packages
from tests.agent.ci.runners.project import project

RECORDED = json.loads((Path(__file__).parent / "nox_recorded.json").read_text())
CASES = RECORDED["cases"]


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("options", "default")])
def test_the_sessions_are_those_that_nox_lists(name: str) -> None:
    file = noxfile.read(CASES[name]["text"], {}, tomllib.loads(RECORDED["pyproject"]))
    ours = [{"session": one.signature, "name": one.name, "python": one.python, "tags": list(one.tags)} for one in file.sessions]
    assert ours == CASES[name]["nox"]["list"]


@pytest.mark.parametrize("name", CASES)
def test_a_session_does_what_nox_does(name: str) -> None:
    told = CASES[name]["nox"]["told"]
    arguments = CASES[name]["arguments"]
    posargs = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
    file = noxfile.read(CASES[name]["text"], {}, tomllib.loads(RECORDED["pyproject"]))
    for signature in dict.fromkeys(row[0] for row in told):
        (session,) = [one for one in file.sessions if one.signature == signature]
        script = nox_session.script(file, session, posargs, Steps())
        expected = []
        for _, kind, words, env in (row for row in told if row[0] == signature):
            before = ["pip", "install"] if kind == "install" else [f"{key}={value}" for key, value in env.items()]
            expected.append([*before, *words])
        assert [shlex.split(line) for line in script.text.split("\n")] == expected
        assert script.notes == ()


@pytest.mark.parametrize("name", [name for name in CASES if name != "several pythons"])
def test_the_command_line_chooses_what_nox_chooses(name: str) -> None:
    told = CASES[name]["nox"]["told"]
    files = {"noxfile.py": CASES[name]["text"], "pyproject.toml": RECORDED["pyproject"]}
    found = follow(["nox", *CASES[name]["arguments"]], project(files), {})
    assert isinstance(found, Followed), found
    runs = [shlex.join(row[2]) for row in told if row[1] != "install"]
    assert [line for line in found.command.splitlines() if not line.startswith(("(", ")", "export"))] == [
        f"A=1 B='x y' {line}" if line == "pytest" and name == "options" else line for line in runs
    ]


NOXFILE = """
import nox
@nox.session(python=["3.10", "3.11"])
def tests(session):
    session.install("-e", ".[test]", "-c", "constraints.txt")
    with session.chdir("sub"):
        session.run("pytest", *session.posargs, success_codes=[0, 5])
    session.run("tox", "-e", "py")
    session.notify("cover")
@nox.session(default=False)
def cover(session):
    session.install("coverage")
    session.run("coverage", "report")
@nox.session
def unclear(session):
    if shutil.which("x"):
        session.run("x")
    session.run("pytest", "--root", session.create_tmp())
    session.run("echo", "end")
"""


def test_a_session_is_followed_to_what_it_notifies_and_calls() -> None:
    files = {"noxfile.py": NOXFILE, "tox.ini": "[testenv]\ncommands = python -m unittest\nskip_install = 1\n"}
    found = follow(shlex.split("nox -s tests -- -x"), project(files), {}, python="3.10")
    assert isinstance(found, Followed)
    assert found.command.split("\n") == [
        *("(", "cd sub", "pytest -x || case $? in 0|5) ;; *) exit 1 ;; esac", "cd ..", "python -m unittest", ")"),
        "coverage report",
    ]
    assert found.packages == Packages(("coverage",), (), ("constraints.txt",), projects=(".[test]",), python="3.10")
    assert found.notes == ("sessions of nox for other Pythons are left out: tests-3.11",)


def test_what_only_running_would_tell_is_a_note_and_left_out() -> None:
    found = follow(["nox", "-s", "unclear"], project({"noxfile.py": NOXFILE}), {})
    assert isinstance(found, Followed)
    assert found.command == "echo end"
    assert [("only known when it is run" in note) for note in found.notes] == [True, True]


@pytest.mark.parametrize(
    ("text", "arguments", "reason"),
    [
        ("", "", "no noxfile.py"),
        ("def (", "", "not valid Python"),
        ("x = " + "(" * 5000, "", "not valid Python"),
        (NOXFILE, "-s none", "no session none"),
        (NOXFILE, "--list", "runs no tests"),
        ("import nox\nnox.options.sessions = f()\n", "", "only known when it is run"),
        ("import nox\n@nox.session\ndef t(s):\n    s.run(*f())\n", "", "only known when it is run"),
        ("import nox\nA = 'a' * 9\n" + "A = A + A\n" * 60 + "@nox.session\ndef t(s):\n    s.run(A)\n", "", "only known"),
        ("import nox\n@nox.session\ndef t(s):\n    go(s)\ndef go(s):\n    go(s)\n", "", "nested too deeply"),
    ],
)
def test_what_cannot_be_followed_says_why(text: str, arguments: str, reason: str) -> None:
    found = follow(["nox", *arguments.split()], project({"noxfile.py": text}), {})
    assert isinstance(found, Unfollowed)
    assert reason in found.reason
