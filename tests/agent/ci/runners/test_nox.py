import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.ci.project.asking import ask
from agent.ci.runners import nox
from agent.ci.runners.context import Followed, ShellContext, Unfollowed
from agent.ci.runners.dispatch import follow
from agent.ci.runners.nox import NoxCall, NoxSession
from sandbox.base import Packages, Sandbox
from tests.agent.ci.runners.project import FollowResult, SandboxWith, project

pytestmark = pytest.mark.asyncio(loop_scope="session")
RECORDED = json.loads((Path(__file__).parent / "nox_recorded.json").read_text())
CASES = RECORDED["cases"]


async def run(sandbox: Sandbox, line: str, files: Mapping[str, str], python: str | None = None) -> FollowResult:
    read = project(files)
    with_files: Any = SandboxWith(sandbox, files)
    while True:
        found = follow(shlex.split(line), read, {}, python=python)
        if not await ask(read.answers, with_files):
            return found


@pytest.mark.parametrize("name", CASES)
async def test_a_session_does_what_the_recorded_nox_did(name: str, sandbox: Sandbox) -> None:
    files = {"noxfile.py": CASES[name]["text"], "pyproject.toml": RECORDED["pyproject"]}
    context, with_files = ShellContext(project(files)), SandboxWith(sandbox, files)
    with pytest.raises(Unfollowed, match="not asked"):
        nox.sessions(CASES[name]["arguments"], context)
    await ask(context.project.answers, with_files)  # type: ignore[arg-type]
    found = nox.sessions(CASES[name]["arguments"], context)
    ours = [
        [one.name, "install" if call.installs else "run", call.words, {} if call.installs else call.env]
        for one in found
        for call in one.calls
    ]
    assert ours == CASES[name]["nox"]["told"]
    pythons = {one["session"]: one["python"] for one in CASES[name]["nox"]["list"]}
    assert [one.version for one in found] == [pythons[one.name] for one in found]


NOXFILE = """
import nox, shutil
@nox.session(python=["3.10", "3.11"])
def tests(session):
    session.install("-e.[test]", "-c", "constraints.txt")
    with session.chdir("sub"):
        session.run("pytest", *session.posargs, success_codes=[0, 5])
    session.run("tox", "-e", "py")
    session.notify("cover")
@nox.session(default=False)
def cover(session):
    session.install("coverage")
    session.run("coverage", "report")
@nox.session
def clear(session):
    if shutil.which("sh"):
        session.run("pytest", "--root", session.create_tmp(), f"--at={session.bin}/x", __file__)
    said = session.run("python", "-c", "print(1 + 1)", silent=True)
    session.run("echo", said.strip())
    raise ValueError
"""
FILES = {"noxfile.py": NOXFILE, "sub/x": "", "tox.ini": "[testenv]\ncommands = python -m unittest\nskip_install = 1\n"}


async def test_a_session_is_followed_to_what_it_notifies_and_calls(sandbox: Sandbox) -> None:
    found = await run(sandbox, "nox -s tests -- -x", FILES, "3.10")
    assert isinstance(found, Followed)
    assert found.command.split("\n") == [
        *("(", "(", "cd sub", "pytest -x || case $? in 0|5) ;; *) exit 1 ;; esac", ")", "python -m unittest", ")"),
        "coverage report",
    ]
    assert found.packages == Packages(("coverage",), (), ("constraints.txt",), projects=(".[test]",), python="3.10")
    assert found.notes == ("nox sessions for other Python versions are left out: tests-3.11",)


async def test_what_only_running_shows_is_followed_and_an_early_end_is_a_note(sandbox: Sandbox) -> None:
    found = await run(sandbox, "nox -s clear", FILES)
    assert isinstance(found, Followed)
    assert found.command.split("\n") == [
        *("mkdir -p .nox/clear/tmp", "pytest --root .nox/clear/tmp --at=x noxfile.py"),
        *("python -c 'print(1 + 1)'", "echo 2"),
    ]
    assert found.notes == ("nox session clear ended early: failed",)


@pytest.mark.parametrize(
    ("text", "arguments", "reason"),
    [
        ("", "", "no noxfile.py"),
        ("def (", "", "SyntaxError"),
        (NOXFILE, "-s none", "Sessions not found: none"),
        (NOXFILE, "--version", "nox says"),
        ("import nox\n@nox.session\ndef t(s):\n    s.log('nothing')\n", "", "session t runs nothing"),
        (
            "import nox\n@nox.session\ndef t(s):\n    print('\\0[]')\n    s.run('a')\n    import os; os._exit(0)\n",
            "",
            "nox says",
        ),
        ("# /// script\n# dependencies = ['not one!']\n# ///\nimport nox\n", "", "nox could not be installed"),
        ("import nox\nprint('\\0' + '[' * 100_000)\nimport os; os._exit(0)\n", "", "nox says"),
    ],
)
async def test_what_cannot_be_followed_says_why(text: str, arguments: str, reason: str, sandbox: Sandbox) -> None:
    found = await run(sandbox, f"nox {arguments}", {"noxfile.py": text})
    assert isinstance(found, Unfollowed)
    assert reason in found.reason


async def test_what_never_ends_is_stopped(sandbox: Sandbox) -> None:
    files = {"noxfile.py": "while True: pass\n"}
    context = ShellContext(project(files))
    with pytest.raises(Unfollowed, match="not asked"):
        nox.sessions([], context)
    context.project.answers.seconds = 1
    await ask(context.project.answers, SandboxWith(sandbox, files))  # type: ignore[arg-type]
    with pytest.raises(Unfollowed, match="within 1 s"):
        nox.sessions([], context)


async def test_a_call_is_one_line_of_shell_text() -> None:
    calls = [
        NoxCall(installs=True, words=["a b"], env={"X": "1"}, cwd=".", codes=[]),
        NoxCall(installs=False, words=["x", "$y"], env={"A": "1 2"}, cwd="sub", codes=[0]),
    ]
    assert NoxSession("s", "", calls, "").script() == "pip install 'a b'\n(\ncd sub\nA='1 2' x '$y'\n)"
