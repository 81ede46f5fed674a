import subprocess
import time

import pytest

from agent.ci.runners.context import Followed, Steps
from agent.ci.runners.dispatch import follow_script
from sandbox.base import Packages
from tests.agent.ci.runners.project import project

FILES = {
    "requirements.txt": "",
    "req/a.txt": "",
    "req/b.txt": "",
    "sub/setup.py": "",
    "poe_tasks.toml": "[tasks]\ntest = 'pytest -q'\nall = ['test', 'lint']\nlint = 'ruff check .'\n",
}
CONDITION = "depends on a condition"


def read(text: str) -> Followed:
    return follow_script(text, project(FILES), {})


@pytest.mark.parametrize(
    ("text", "command", "packages"),
    [
        # As in the workflow that GitHub offers to begin with.
        (
            "if [ -f requirements.txt ]; then pip install -r requirements.txt; fi",
            "",
            Packages(requirement_files=("requirements.txt",)),
        ),
        ("if test -e none.txt; then pip install -r none.txt; fi", "", Packages()),
        ("if [[ ! -d sub ]]\nthen\n  pip install a\nelse\n  pip install b\nfi", "", Packages(("b",))),
        (
            "if [ -f none ]; then pip install a; elif [ -f requirements.txt ]; then pip install b; else pip install c; fi",
            "",
            Packages(("b",)),
        ),
        ("if true; then\n  pip install a\n  make lint\nfi", "if true; then\n  :\n  make lint\nfi", Packages(("a",))),
        ("for r in req/*.txt; do pip install -r $r; done", "", Packages(requirement_files=("req/a.txt", "req/b.txt"))),
        ("for a in x y; do for b in 1 2; do\npip install $a==${b}; done\ndone", "", Packages(("x==1", "x==2", "y==1", "y==2"))),
        ("(cd sub && pip install -e .)\npip install .", "(cd sub && :)", Packages(projects=("sub", "."))),
        ("{ cd sub; pip install .; }\npip install .", "{ cd sub; :; }", Packages(projects=("sub",))),
        ("pip install a || exit 1", ": || exit 1", Packages(("a",))),
        ("pip install a || pip install b", "", Packages(("a",))),
        ("test -d none && pip install a", "test -d none && :", Packages()),
        ("[ -d sub ] && pip install ./sub || true", "[ -d sub ] && : || true", Packages(projects=("sub",))),
        ("pip install a; pip install b && pytest -q # why", ": && pytest -q # why", Packages(("a", "b"))),
        ("pip install a && pip install b\npytest", "pytest", Packages(("a", "b"))),
        ("pip install \"tomli; python_version<'3.11'\"", "", Packages(("tomli; python_version<'3.11'",))),
        ("pip install -q a > /dev/null 2>&1", "", Packages(("a",))),
        ("pip install a 2>&1 | grep -v already", "", Packages(("a",))),
        ("pip install 'a' \\\n  b", "", Packages(("a", "b"))),
        ("pip list | grep a\nif pip show a; then ls; fi", "pip list | grep a\nif pip show a; then ls; fi", Packages()),
        ("echo y | sudo apt-get install a && pytest", ": && pytest", Packages()),
        ("pytest\npython -m codecov -X pycov\ncoveralls || true\n./bin/codacy report | tail", "pytest", Packages()),
        ("pytest | aws s3 cp - s3://a", "pytest | cat", Packages()),
        (
            "pip list | while read x; do ls; done | pip install a",
            "pip list | while read x; do ls; done | cat",
            Packages(("a",)),
        ),
        ("pip install a | while read x; do ls; done", ": | while read x; do ls; done", Packages(("a",))),
        (
            "pip install -U pip wheel a>=1.0\npython -W error setup.py build_ext",
            "python -W error setup.py build_ext",
            Packages(("wheel", "a", "setuptools; python_version < '3.12'")),
        ),
        ("if ls; then\n sudo apt-get update\nfi", "if ls; then\n :\nfi", Packages()),
        ("until curl localhost; do sleep 1; done", "until curl localhost; do sleep 1; done", Packages()),
        ("sudo tee a <<EOF\nit's\nEOF\npytest", "pytest", Packages()),
        ("ls && sudo tee a <<EOF\nb\nEOF\npytest", "ls && : <<EOF\nb\nEOF\npytest", Packages()),
        ("poe test > log; poe test | tee log", "pytest -q > log; pytest -q | tee log", Packages()),
        ("if poe test; then ls; fi", "if pytest -q; then ls; fi", Packages()),
        (
            "while read x; do poe all; done < f",
            "while read x; do bash -e -o pipefail -c 'pytest -q\nruff check .'; done < f",
            Packages(),
        ),
    ],
)
def test_installs_are_taken_out_and_the_rest_keeps_its_meaning(text: str, command: str, packages: Packages) -> None:
    found = read(text)
    assert (found.command, found.packages) == (command, packages)
    assert CONDITION not in " ".join(found.notes)
    subprocess.run(["bash", "-n", "-c", found.command], check=True, timeout=30)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("python -c 'import a' || pip install a", "python -c 'import a' || :"),
        ("if ! command -v a; then pip install a; fi", "if ! command -v a; then :; fi"),
        ("f() {\n  pip install a\n}\nf", "f() {\n  :\n}\nf"),
        ("case $X in\n  a) pip install a ;;\nesac", ""),
        ('if [ "$X" = 1 ]; then pip install a; fi', ""),
        ("[ -f $X ] && pip install a", "[ -f $X ] && :"),
        ("[ -f $X ] && ! pip install a", "[ -f $X ] && ! :"),
    ],
)
def test_what_a_condition_that_is_not_known_would_install_is_there_with_a_note(text: str, command: str) -> None:
    found = read(text)
    assert (found.command, found.packages) == (command, Packages(("a",)))
    assert [note for note in found.notes if CONDITION in note] == [
        "`pip install a` depends on a condition; its packages are installed in either case"
    ]
    subprocess.run(["bash", "-n", "-c", found.command], check=True, timeout=30)


def test_what_is_only_known_when_it_is_run_is_said() -> None:
    found = read("pip install a==$(cat v) -r $FILE b\npoe $(cat t)")
    assert (found.command, found.packages) == ("poe $(cat t)", Packages(("b",)))
    assert found.notes == (
        "`pip install a==$(cat v) -r $FILE b`: $FILE, a==$(cat v) is known only at run time",
        "`poe $(cat t)` is not followed: its arguments are known only at run time",
    )


def test_known_variables_of_the_job_name_what_a_runner_runs() -> None:
    def command(text: str, **env: str) -> str:
        return follow_script(text, project(FILES), env).command

    assert command("poe $TASK", TASK="test") == command('poe "${TASK}"', TASK="test") == "pytest -q"
    assert command("poe $TASK", TASK="test -- *") == "poe $TASK"  # several words, or a pattern
    assert command("poe '$TASK'", TASK="test") == "poe '$TASK'"
    assert command("TASK=lint\npoe $TASK", TASK="test") == "TASK=lint\npoe $TASK"  # not the job's value any more
    assert command("export TASK=test\npoe $TASK", TASK="lint") == "export TASK=test\npytest -q"


@pytest.mark.parametrize("text", ["rm -rf src", "rm --recursive src", "mv src src.bak", "cd pkg/..; rm -r -f pkg"])
def test_a_job_that_tests_the_wheel_does_not_remove_the_folder_of_the_editable_install(text: str) -> None:
    found = follow_script(f"{text}\npytest", project({"pkg/__init__.py": ""}), {})
    assert found.command.splitlines()[-1] == "pytest"
    assert "rm" not in found.command.split()
    assert "mv" not in found.command.split()
    assert any("installed from this folder" in note for note in found.notes)


@pytest.mark.parametrize(
    "text",
    [
        "rm -f pkg/x.py",
        "rm -rf tests",
        "rm -rf build dist",
        "rm --force pkg",
        "mv gen.py src",
        "mv build/x.so pkg/",
        "mv -t pkg x",
    ],
)
def test_a_command_that_leaves_the_packages_folder_there_is_run(text: str) -> None:
    assert follow_script(text, project({"pkg/__init__.py": ""}), {}).command == text


def test_text_that_is_not_closed_stays_as_it_is() -> None:
    found = read("pip install a\npoe test\necho 'it\npoe test")
    assert (found.command, found.packages) == ("pytest -q\necho 'it\npoe test", Packages(("a",)))
    assert "`echo 'it` is not read: a quote or a compound command is not closed" in found.notes


def test_several_texts_can_share_what_may_be_done() -> None:
    steps = Steps(150)
    assert follow_script("poe test", project(FILES), {}, steps=steps).command == "pytest -q"
    assert follow_script("poe test", project(FILES), {}, steps=steps).command == "poe test"


@pytest.mark.parametrize(
    "text",
    [
        "pytest" + " " * 400_000 + "x",
        "pip install a | " * 2_000 + "b",
        pytest.param("for a in *; do pip install $a; done\n" * 2_000, marks=pytest.mark.long),
        "{ ls; " * 20_000,
    ],
    ids=lambda text: repr(text[:8]),
)
def test_hostile_text_is_followed_in_bounded_time(text: str) -> None:
    files = FILES | {f"f{n}": "" for n in range(5_000)}
    began = time.monotonic()
    follow_script(text, project(files), {})
    assert time.monotonic() - began < 40
