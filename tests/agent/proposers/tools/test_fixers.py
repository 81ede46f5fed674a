"""How a check's command becomes the command that fixes its findings."""

import pytest

from agent.proposers.tools.fixers import fixes

MAKEFILE = (
    "SRC = src tests\n.PHONY: lint\nlint: fmt\n\t@ruff check $(SRC)\n\nfmt:\n\truff format --check .\n\ntest:\n\tpytest\n"
)
PACKAGE = '{"scripts": {"lint": "eslint . && prettier --check \\"src/**/*.ts\\"", "test": "jest"}}'
TEXTS = {"Makefile": MAKEFILE, "package.json": PACKAGE, "scripts/lint.sh": "#!/bin/sh\nset -e\nisort -c .\nblack --check .\n"}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ruff check .", ["ruff check --fix ."]),
        ("ruff check --no-fix --output-format github src", ["ruff check --fix src"]),
        ("uv run --group lint ruff format --check --diff src", ["uv run --group lint ruff format src"]),
        ("ruff check . && ruff format --check .", ["ruff check --fix .", "ruff format ."]),
        ("python -m black --check -l 100 .", ["python -m black -l 100 ."]),
        ("black . --check  # style", ["black ."]),
        ("isort -c --profile black .", ["isort --profile black ."]),
        ("FOO=1 autoflake --check -r src", ["FOO=1 autoflake --in-place -r src"]),
        ("autopep8 -d -r --exit-code .", ["autopep8 --in-place -r ."]),
        ("git ls-files '*.py' | xargs ruff check", []),
        ("pyupgrade --py39-plus a.py", ["pyupgrade --py39-plus a.py"]),
        ("npx prettier --check 'src/**/*.ts'", ["npx prettier --write 'src/**/*.ts'"]),
        ("yarn exec eslint --max-warnings 0 src", ["yarn exec eslint --fix --max-warnings 0 src"]),
        ("npm exec -- prettier -l .", ["npm exec -- prettier --write ."]),
        ('test -z "$(gofmt -l .)"', ["gofmt -w ."]),
        ("cargo fmt --all -- --check", ["cargo fmt --all"]),
        ("if ! ruff format --check .; then echo no; exit 1; fi", ["ruff format ."]),
        ("ruff check . 2>&1 | tee lint.txt", ["ruff check --fix ."]),
        ("ruff check . > report.txt", ["ruff check --fix ."]),
        ("ruff check 2> errors.txt >>report.txt src < /dev/null", ["ruff check --fix src"]),
        ("djlint --check --profile jinja templates", ["djlint --reformat --profile jinja templates"]),
        ("pre-commit run --all-files", ["pre-commit run --all-files"]),
        ("make lint", ["ruff format .", "ruff check --fix src tests"]),
        ("npm run lint", ["npx --no-install eslint --fix .", 'npx --no-install prettier --write "src/**/*.ts"']),
        ("bash scripts/lint.sh", ["isort .", "black ."]),
        ("make test", []),
        ("pytest -q", []),
        ("echo ruff check", []),
        ("ruff", []),
        ("'unbalanced", []),
    ],
)
def test_the_options_that_only_look_become_those_that_write(command: str, expected: list[str]) -> None:
    assert [fix.command for fix in fixes(command, TEXTS)] == expected


def test_scripts_that_call_each_other_come_to_an_end() -> None:
    assert fixes("make a", {"Makefile": "a: b\n\tmake a\nb: a\n\tmake b\n"}) == ()
