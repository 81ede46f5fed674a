import pytest

from agent.ci.runners.default_tests import detected, packages_of_tox, stated
from sandbox.base import Packages
from tests.agent.ci.runners.project import project


@pytest.mark.parametrize(
    ("files", "line", "command"),
    [
        (
            {"tox.ini": "[tox]\nenvlist=lint,py{310,311}\n[testenv]\ncommands=pytest\n[testenv:lint]\ncommands=ruff check\n"},
            "tox -e py310",
            "pytest",
        ),
        ({"setup.cfg": "[tox:tox]\nenvlist=py\n[testenv]\ncommands=python -m unittest\n"}, "tox -e py", "python -m unittest"),
        ({"pyproject.toml": "[tool.pdm.scripts]\ntest = 'pytest -x'\n"}, "pdm run test", "pytest -x"),
        (
            {"pyproject.toml": "[tool.hatch.envs.test]\ndetached = true\nscripts.unit = 'pytest a'\n"},
            "hatch run test:unit",
            "pytest a",
        ),
    ],
)
def test_the_tests_are_found_as_the_repositorys_runner_has_them(files: dict[str, str], line: str, command: str) -> None:
    found = detected(project(files), "3.10")
    assert found is not None
    assert (found[1], found[0].command) == (line, command)


def test_what_another_runner_needs_is_known_too() -> None:
    docs = "[testenv:docs]\ndeps = sphinx\ncommands = make html\n"
    tox = f"[tox]\nenvlist = docs, py310\n[testenv]\ndeps =\n    -r test.txt\n    nose2\ncommands = nose2\n{docs}"
    found = packages_of_tox(project({"tox.ini": tox, "test.txt": "attrs", "setup.py": ""}), "3.10")
    assert (found.requirements, found.requirement_files, found.projects) == (("nose2",), ("test.txt",), (".",))
    assert packages_of_tox(project({"tox.ini": f"[tox]\nenvlist = docs\n{docs}"})) == Packages()


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"tox.ini": "[testenv]\ncommands = ruff check\n"},
        {"tox.ini": "[broken", "noxfile.py": "def (", "pyproject.toml": "", "Makefile": "test:\n\techo none\n"},
    ],
)
def test_a_runner_without_tests_is_none(files: dict[str, str]) -> None:
    assert detected(project(files)) is None


@pytest.mark.parametrize(
    ("files", "line", "command"),
    [
        ({"justfile": "test:\n    ./checks\n"}, "just test", "./checks"),
        ({"Taskfile.yml": "tasks:\n  tests:\n    cmds: [python checks.py]\n"}, "task tests", "python checks.py"),
        ({"tox.ini": "[testenv]\ncommands = trial calc\n"}, "tox -e py", "trial calc"),
        ({"scripts/test": "#!/usr/bin/env bash\npython checks.py\n"}, "bash scripts/test", "bash scripts/test"),
        ({"run_tests.sh": "python checks.py\n", "tests/run_tests.sh": ""}, "sh run_tests.sh", "sh run_tests.sh"),
        ({"runtests.py": "import checks\n"}, "python runtests.py", "python runtests.py"),
    ],
)
def test_without_recognizable_tests_what_is_named_like_tests_counts(files: dict[str, str], line: str, command: str) -> None:
    found = stated(project(files), "3.10")
    assert found is not None
    assert (found[1], found[0].command) == (line, command)


@pytest.mark.parametrize(
    "files", [{}, {"justfile": "lint:\n    ruff check\n"}, {"justfile": "check:\n    ruff check\n"}, {"latest.sh": ""}]
)
def test_what_is_not_named_like_tests_or_is_a_linter_does_not_count(files: dict[str, str]) -> None:
    assert stated(project(files), "3.10") is None
