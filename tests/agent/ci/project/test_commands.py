import pytest

from agent.ci.project.commands import names_tests, only_looks, read_command, telling_line


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
        ("if [ -f x ]; then\n  ruff check .\nfi", "findings", "ruff"),
        ("for v in a b; do python -m unittest $v; done", "unittest", "unittest"),
        ("(cd sub && mypy .) || pytest -k 'a && b'", "pytest", "pytest"),
        ("echo 'ruff; mypy .'", "exit", "echo"),
        ("pytest" + " " * 400_000 + "x", "pytest", "pytest"),
        ("", "exit", ""),
    ],
)
def test_what_a_command_runs(text: str, reader: str, tool: str) -> None:
    scripts = {"Makefile": "test:\n\tpytest\n", "ci/run.sh": "python -m unittest\n"}
    reading = read_command(text, lambda path: scripts.get(path, ""))
    assert (reading.reader, reading.tool) == (reader, tool)


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("pytest -q", True),
        ("ruff check . && mypy src; python -m unittest", True),
        ("cd sub\nexport A=1\nX=2 pytest -k 'a; python gen.py'", True),
        ("if ruff check .; then pytest; fi", True),
        ("python manage.py migrate && pytest tests/smoke", False),
        ("ruff check . ; python gen.py", False),
        ("pytest | tee log", False),
        ("pytest > log", False),
        ("pytest $(python gen.py)", False),
        ("mkdir reports && pytest", False),
        ("for x in a b; do pytest $x; ./gen $x; done", False),
        ("pytest 'unclosed", False),
        ("cd sub", False),
        ("", False),
    ],
)
def test_what_leaves_nothing_behind(text: str, does: bool) -> None:
    assert only_looks(text) is does


def test_the_latest_version_of_a_tool_is_no_test() -> None:
    assert not names_tests("go install github.com/mitchellh/gox@latest")
    assert names_tests("make richtest")
    assert not names_tests("echo x=$(uvx nox --list-sessions --json | jq .)")
    assert not names_tests("tox -q -l; tox list")
    assert names_tests("nox --list; nox -s unit")
    assert all(map(names_tests, ("tox -- -l", "tox -e py311 -- --tb=short -l", "nox -s a -- -l", "tox -e list", "tox # -l")))
    assert names_tests("echo " + "tox " * 100_000)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("mkdir -p .tox/tmp\npytest -v --basetemp=.tox/tmp", "pytest -v --basetemp=.tox/tmp"),
        ("echo start\nnpm test", "npm test"),
        ("cargo build\ncargo test", "cargo test"),
        ("# all of them\npytest \\\n-x", "pytest  -x"),
        ("./generate\n./compare", "./generate"),
        ("", ""),
    ],
)
def test_people_are_shown_the_line_that_tests(text: str, line: str) -> None:
    assert telling_line(text) == line
