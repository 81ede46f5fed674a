import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from agent.ci.runners.context import Followed, Unfollowed
from agent.ci.runners.dispatch import follow, follow_script
from sandbox.base import Packages
from tests.agent.ci.runners.project import project

PYPROJECT = "[build-system]\n[project]\nname = 'x'\n"
TOX = """
[tox]
env_list = py{310,311}, lint
[gh-actions]
python =
    3.10: py310
    3.11: py311, lint
[testenv]
extras = test
deps =
    pytest
    -r requirements/ci.txt
    -c constraints.txt
setenv = PYTHONPATH = {toxinidir}/src
commands =
    pytest {posargs:tests}
    - coverage report
[testenv:lint]
skip_install = true
deps = ruff
commands = ruff check .
[testenv:docs]
changedir = docs
commands = python -m doctest {toxinidir}/README.md {envtmpdir}
[testenv:all]
commands = tox -e lint
[testenv:self]
commands = tox -e self
"""
FILES = {"tox.ini": TOX, "pyproject.toml": PYPROJECT}


def run(line: str, files: dict[str, str] = FILES, python: str | None = None, **env: str) -> Followed:
    found = follow(shlex.split(line), project(files), env, python=python)
    assert isinstance(found, Followed), found
    return found


def test_lines_of_other_environments_do_not_end_a_command() -> None:
    lines = (
        "",
        "python -m pytest \\",
        "py: -x \\",
        "pypy39: --no-cov \\",
        "pypy310: --no-cov \\",
        "  {posargs:tests}",
        "echo 1",
    )
    commands = "\n    ".join(lines)
    files = {"tox.ini": f"[testenv]\ncommands ={commands}\n"}
    assert run("tox -e py", files).command == "python -m pytest -x tests\necho 1"


def test_empty_brackets_are_the_arguments_of_the_command_line() -> None:
    files = {"tox.ini": "[testenv]\ncommands = python -m coverage run -m pytest []\n"}
    assert run("tox -e py", files).command == "python -m coverage run -m pytest"
    assert run("tox -e py -- -k a", files).command == "python -m coverage run -m pytest -k a"


def test_one_environment_gives_its_commands_packages_variables_and_python() -> None:
    found = run("tox -e py311 -- -k 'a or b'")
    assert found.command == "pytest -k 'a or b'\ncoverage report || true"
    assert found.env == {"PYTHONPATH": "src"}
    assert (found.cwd, found.python, found.notes) == (".", "3.11", ())
    assert found.packages == Packages(
        ("pytest",), ("requirements/ci.txt",), ("constraints.txt",), projects=(".[test]",), python="3.11"
    )


def test_an_environment_in_another_folder_sees_the_root_from_there() -> None:
    found = run("python3 -m tox run -e docs", {**FILES, "docs/index.rst": ""})
    assert found.cwd == "docs"
    assert found.command == "mkdir -p ../.tox/docs/tmp\npython -m doctest ../README.md ../.tox/docs/tmp"


def test_a_folder_that_is_missing_is_made_as_tox_makes_it() -> None:
    found = run("tox -e docs")
    assert found.cwd == "."
    assert found.command == "mkdir -p docs\ncd docs\nmkdir -p ../.tox/docs/tmp\npython -m doctest ../README.md ../.tox/docs/tmp"


def test_the_installed_package_is_tested_where_it_is_imported_from(tmp_path: Path) -> None:
    """In place, so that a repair in the checkout is what the tests see."""
    text = "[tox]\n[testenv]\nchangedir = .tox\ncommands = pytest --doctest-modules {envsitepackagesdir}/shop/a.py tests\n"
    command = run("tox -e py", {"tox.ini": text, "pyproject.toml": PYPROJECT}).command
    for folder in ("shop", "bin"):
        (tmp_path / folder).mkdir()
    (tmp_path / "shop/__init__.py").write_text("raise SystemExit(1)  # never imported")
    (tmp_path / "bin/pytest").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "bin/pytest").chmod(0o755)
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "PYTHONPATH": str(tmp_path)}
    said = subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["--doctest-modules", f"{tmp_path}/shop/a.py", "tests"]


def test_a_package_that_is_not_installed_is_looked_for_where_packages_are(tmp_path: Path) -> None:
    """Not in the current folder, whose `checks` are no installed package, nor in the root of the file system."""
    paths = " ".join(f"{{envsitepackagesdir}}/{path}" for path in ("checks", "gone/a.py", "sys"))
    text = f"[tox]\n[testenv]\ncommands = echo {paths}\n"
    command = run("tox -e py", {"tox.ini": text, "pyproject.toml": PYPROJECT}).command
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks/__init__.py").touch()
    env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    said = subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    where = sysconfig.get_path("purelib")
    assert said.stdout.split() == [f"{where}/checks", f"{where}/gone/a.py", f"{where}/sys"]


def test_several_environments_are_run_one_after_the_other_each_with_its_own_variables() -> None:
    found = run("tox -e py310,docs -p auto -- -x")
    first, second = found.command.split("\n(\n", 1)
    assert first == "(\nexport PYTHONPATH=src\npytest -x\ncoverage report || true\n)"
    assert second.startswith("export PYTHONPATH=../src\nmkdir -p docs\ncd docs\n")


@pytest.mark.parametrize(
    ("python", "env", "commands"),
    [
        ("3.10", {}, ["pytest tests"]),
        ("3.11", {}, ["pytest tests", "ruff check ."]),
        ("3.11", {"TOXENV": "lint"}, ["ruff check ."]),
        ("3.11", {"TOX_ENV": "lint"}, ["ruff check ."]),
    ],
)
def test_without_names_the_python_or_the_variable_decides(python: str, env: dict[str, str], commands: list[str]) -> None:
    command = run("tox", python=python, **env).command
    assert [line for line in command.split("\n") if line.startswith(("pytest", "ruff"))] == commands


def test_without_anything_one_environment_of_each_kind_is_run_and_the_rest_named() -> None:
    found = run("tox -q", {**FILES, "tox.ini": TOX.replace("[gh-actions]", "[unused]")})
    assert "pytest tests" in found.command
    assert "ruff check ." in found.command
    assert found.notes == ("tox environments for other Python versions are left out: py310",)


def test_a_dependency_from_git_is_named() -> None:
    deps = "deps =\n    git+https://git.invalid/a\n    -f https://b\n    c\n"
    text = f"[tox]\n[testenv]\nskip_install = true\n{deps}commands = pytest\n"
    found = run("tox -e py", {"tox.ini": text})
    assert found.packages.requirements == ("c",)
    assert found.notes == ("tox environment py: git+https://git.invalid/a is not from a package index, so it is left out",)


def test_an_environment_may_call_another_but_not_without_end() -> None:
    assert run("tox -e all").command == "ruff check ."
    assert "`tox -e self` is not followed: runners call each other more than" in " ".join(run("tox -e self").notes)


@pytest.mark.parametrize(
    ("line", "files", "reason"),
    [
        ("tox", {}, "no tox configuration"),
        ("tox -e py", {"tox.ini": "no section"}, "not valid"),
        ("tox list", FILES, "runs no tests"),
        ("tox -e py", {"tox.ini": "[testenv]\ncommands={[testenv]commands}"}, "circular"),
        ("tox -m nothing", FILES, "no environment"),
    ],
)
def test_what_cannot_be_followed_says_why(line: str, files: dict[str, str], reason: str) -> None:
    found = follow(line.split(), project(files), {})
    assert isinstance(found, Unfollowed)
    assert reason in found.reason


def test_in_a_script_installs_are_taken_out_and_what_is_no_runner_stays() -> None:
    text = "pip install tox\necho hello | tee log\ncd sub && tox -e lint\nif true; then tox -e lint; fi"
    found = follow_script(text, project({"sub/tox.ini": TOX}), {})
    assert found.command == (
        "echo hello | tee log\n"
        "cd sub && bash -e -o pipefail -c '(\nexport PYTHONPATH=src\nruff check .\n)'\n"
        "if true; then bash -e -o pipefail -c '(\nexport PYTHONPATH=src\nruff check .\n)'; fi"
    )
    assert found.packages == Packages(("tox", "ruff"))


def test_the_python_packages_of_a_subfolder_are_seen_from_the_root() -> None:
    found = follow(["tox", "-e", "py311"], project({"sub/tox.ini": TOX}), {}, "sub")
    assert isinstance(found, Followed)
    assert found.cwd == "sub"
    assert (found.packages.projects, found.packages.requirement_files) == (("sub[test]",), ("sub/requirements/ci.txt",))
