import pytest

from agent.ci.commands import read_command


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
        ("echo pytest-cov", "exit", "echo"),
        ("pytest | tee log", "pytest", "pytest"),
        ("echo 'unbalanced", "exit", "echo"),
        ("", "exit", ""),
    ],
)
def test_what_a_command_runs(text: str, reader: str, tool: str) -> None:
    scripts = {"Makefile": "test:\n\tpytest\n", "ci/run.sh": "python -m unittest\n"}
    reading = read_command(text, lambda path: scripts.get(path, ""))
    assert (reading.reader, reading.tool) == (reader, tool)
