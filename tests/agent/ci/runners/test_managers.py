# ruff: noqa: E501 - files, written as text
import shlex

import pytest

from agent.ci.runners.context import Followed, Unfollowed
from agent.ci.runners.dispatch import follow, follow_script
from sandbox.base import Packages
from tests.agent.ci.runners.project import project

PYPROJECT = """
[build-system]
requires = []
[project]
name = "x"
[project.optional-dependencies]
cli = ["rich"]
[dependency-groups]
dev = ["pytest"]
lint = ["ruff"]
"""


def run(line: str, files: dict[str, str], python: str | None = None, cwd: str = ".") -> Followed:
    found = follow(shlex.split(line), project(files), {}, cwd, python)
    assert isinstance(found, Followed), found
    return found


@pytest.mark.parametrize(
    ("line", "command", "packages"),
    [
        ("uv run pytest -q", "pytest -q", Packages(groups=("dev",), projects=(".",))),
        (
            "uv run --frozen --extra cli --group lint --with 'attrs,six' --python 3.12 -- pytest -k 'a b'",
            "pytest -k 'a b'",
            Packages(("attrs", "six"), groups=("dev", "lint"), projects=(".[cli]",), python="3.12"),
        ),
        ("uv run --only-group lint ruff check", "ruff check", Packages(groups=("lint",))),
        ("uv run --no-dev --all-extras -m pytest", "python -m pytest", Packages(projects=(".[cli]",))),
        ("uv sync --all-groups --locked", "", Packages(groups=("dev", "lint"), projects=(".",))),
        ("uv --quiet run --no-project --with pytest pytest", "pytest", Packages(("pytest",))),
        ("uvx ruff@0.4.1 check .", "ruff check .", Packages(("ruff==0.4.1",))),
        (
            "uv tool run --from 'coverage[toml]' --with six coverage run x.py",
            "coverage run x.py",
            Packages(("six", "coverage[toml]")),
        ),
        ("uvx 'ruff==0.4.1' check .", "ruff check .", Packages(("ruff==0.4.1",))),
        ("pipx run ruff check .", "ruff check .", Packages(("ruff",))),
        ("pipx --quiet run --spec 'coverage[toml]' coverage run x.py", "coverage run x.py", Packages(("coverage[toml]",))),
        ("uv run scripts/test.py", "python scripts/test.py", Packages(groups=("dev",), projects=(".",))),
    ],
)
def test_uv(line: str, command: str, packages: Packages) -> None:
    found = run(line, {"pyproject.toml": PYPROJECT})
    assert (found.command, found.packages) == (command, packages)


def test_a_member_of_a_uv_workspace_brings_its_own_project_and_groups() -> None:
    member = '[build-system]\n[project]\nname = "the.member"\n[dependency-groups]\ndev = ["hypothesis", {include-group = "more"}]\nmore = ["six"]\n'
    files = {"pyproject.toml": PYPROJECT, "packages/m/pyproject.toml": member}
    named = run("uv run --package the-member pytest", files)
    assert (named.cwd, named.packages) == (".", Packages(("hypothesis", "six"), projects=("packages/m",)))
    assert run("uv run --directory packages/m pytest", files).cwd == "packages/m"
    assert run("uv run pytest", files, cwd="packages/m").packages == named.packages


@pytest.mark.parametrize(
    ("says", "projects"), [("", ()), ("[tool.uv]\npackage = true", (".",)), ("[tool.uv]\npackage = false", ())]
)
def test_a_project_without_a_build_is_a_package_where_uv_is_told_so(says: str, projects: tuple[str, ...]) -> None:
    text = f'[project]\nname = "tool"\ndependencies = ["attrs"]\n{says}\n'
    packages = run("uv run pytest", {"pyproject.toml": text}).packages
    assert (packages.projects, packages.requirements) == (projects, () if projects else ("attrs",))


def test_a_resolution_that_is_not_uvs_own_is_said() -> None:
    assert run("uv sync --resolution lowest-direct", {"pyproject.toml": PYPROJECT}).notes == (
        "the resolution strategy lowest-direct is not supported",
    )
    found = follow_script("uv sync", project({"pyproject.toml": PYPROJECT}), {"UV_RESOLUTION": "highest"})
    assert not found.notes


def test_uv_ends_in_other_runners() -> None:
    files = {"pyproject.toml": PYPROJECT, "tox.ini": "[testenv]\ncommands = pytest\nskip_install = 1\n"}
    assert run("pipx run 'tox==4.23' -e py312", files).command == "pytest"
    found = run("uvx --with tox-uv tox -e py312", files)
    assert (found.command, found.python, found.packages) == ("pytest", "3.12", Packages(("tox-uv",), python="3.12"))


POETRY = """
[build-system]
[tool.poetry]
name = "x"
[tool.poetry.dependencies]
python = "^3.9"
requests = "^2.31"
[tool.poetry.extras]
cli = ["rich"]
[tool.poetry.group.dev.dependencies]
pytest = "^8.1"
tomli = {version = ">=2", python = "<3.11"}
mine = {git = "https://git.example/mine"}
[tool.poetry.group.docs]
optional = true
[tool.poetry.group.docs.dependencies]
sphinx = "~7.2.1"
[tool.poe.tasks]
test = ["lint", "unit"]
unit = {cmd = "pytest", env = {MODE = "ci"}}
lint.shell = "ruff check . && ruff format --check ."
loop = {ref = "loop"}
late = {script = "x.y:main"}
[tool.poe.tasks.slow]
sequence = [{cmd = "echo start"}, {ref = "unit --slow"}]
"""


@pytest.mark.parametrize(
    ("line", "packages"),
    [
        ("poetry install", Packages(("pytest>=8.1,<9", "tomli>=2; python_version < '3.11'"), projects=(".",))),
        (
            "poetry install --with docs --without dev -E cli",
            Packages(("sphinx>=7.2.1,<7.3",), projects=(".[cli]",)),
        ),
        ("poetry install --only docs --no-root", Packages(("sphinx>=7.2.1,<7.3",))),
        ("poetry install --only main --no-root", Packages(("requests>=2.31,<3",))),
    ],
)
def test_the_groups_of_poetry(line: str, packages: Packages) -> None:
    found = run(line, {"pyproject.toml": POETRY})
    assert (found.command, found.packages) == ("", packages)


def test_what_comes_from_git_is_said() -> None:
    assert run("poetry install", {"pyproject.toml": POETRY}).notes == ("mine is not from a package index, so it is left out",)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("poetry run pytest -x", "pytest -x"),
        ("poetry run poe unit -k a", "pytest -k a"),
        ("poe lint", "ruff check . && ruff format --check ."),
        ("poe test", "ruff check . && ruff format --check .\n(\nexport MODE=ci\npytest\n)"),
        ("poe slow", "echo start\n(\nexport MODE=ci\npytest --slow\n)"),
        ("poe late", "python -c 'import x.y; x.y.main()'"),
    ],
)
def test_poetry_and_poe(line: str, command: str) -> None:
    assert run(line, {"pyproject.toml": POETRY}).command in (command, f"(\nexport MODE=ci\n{command}\n)")


PDM = (
    PYPROJECT
    + """
[tool.pdm.dev-dependencies]
old = ["hypothesis"]
[tool.pdm.scripts]
_.env = {MODE = "ci"}
test = "pytest {args:tests}"
pre_test = "echo before"
all = {composite = ["lint", "test --fast"]}
lint = {cmd = ["ruff", "check", "a b"]}
sh = {shell = "ls | cat"}
again = {composite = ["again"]}
"""
)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("pdm run test", "echo before\npytest tests"),
        ("pdm test -k 'a b'", "echo before\npytest -k 'a b'"),
        ("pdm run all", "ruff check 'a b'\necho before\npytest --fast"),
        ("pdm run -v sh", "ls | cat"),
        ("pdm run pytest", "pytest"),
    ],
)
def test_the_scripts_of_pdm(line: str, command: str) -> None:
    found = run(line, {"pyproject.toml": PDM})
    assert (found.command, found.env if "\n" not in found.command else {"MODE": "ci"}) == (command, {"MODE": "ci"})


def test_the_groups_of_pdm() -> None:
    files = {"pyproject.toml": PDM}
    assert run("pdm install", files).packages == Packages(("hypothesis",), groups=("dev", "lint"), projects=(".",))
    assert run("pdm sync --prod -G cli", files).packages == Packages(projects=(".[cli]",))
    assert run("pdm install -G:all --without lint", files).packages == Packages(
        ("hypothesis",), groups=("dev",), projects=(".[cli]",)
    )


HATCH = (
    PYPROJECT
    + """
[tool.hatch.envs.default]
dependencies = ["pytest"]
features = ["cli"]
env-vars = {MODE = "{env:MODE:ci}"}
[tool.hatch.envs.default.scripts]
test = "pytest {args:tests}"
cov = ["test --cov", "- coverage report"]
[[tool.hatch.envs.test.matrix]]
python = ["3.10", "3.12"]
django = ["4.2"]
[tool.hatch.envs.test]
extra-dependencies = ["django~={matrix:django}.0"]
[tool.hatch.envs.lint]
detached = true
dependencies = ["ruff"]
scripts = {all = ["check", "ruff format --check {args:.}"], check = "ruff check {args:.}", loop = "loop"}
[tool.hatch.envs.hatch-test]
extra-dependencies = ["six"]
"""
)


def test_hatch() -> None:
    files = {"pyproject.toml": HATCH}
    plain = run("hatch run cov", files)
    assert (plain.command, plain.env) == ("pytest --cov\ncoverage report || true", {"MODE": "ci"})
    assert plain.packages == Packages(("pytest",), projects=(".[cli]",))
    of_matrix = run("hatch run test:test -x", files, python="3.10")
    assert (of_matrix.command, of_matrix.python) == ("pytest -x", "3.10")
    assert of_matrix.packages == Packages(("pytest", "django~=4.2.0"), projects=(".[cli]",), python="3.10")
    assert of_matrix.notes == ("environments of hatch's matrix are left out: test.py3.12-4.2",)
    lint = run("hatch -e lint run all src", files)
    assert (lint.command, lint.packages) == ("ruff check .\nruff format --check src", Packages(("ruff",)))
    tests = run("hatch test -py 3.12 --cover tests/unit", files)
    assert (tests.command, tests.python) == ("coverage run -m pytest tests/unit", "3.12")
    assert {"six", "pytest~=8.1"} <= set(tests.packages.requirements)
    assert run("hatch env create lint", files).packages == Packages(("ruff",))
    assert run("hatch fmt --check", files).command == "ruff check .\nruff format --check ."


PIPFILE = """
[packages]
requests = "*"
mine = {path = ".", editable = true}
[dev-packages]
pytest = ">=8"
[requires]
python_version = "3.11"
[scripts]
test = "pytest -q"
"""


def test_pipenv() -> None:
    files = {"Pipfile": PIPFILE}
    assert run("pipenv run test -x", files).command == "pytest -q -x"
    found = run("pipenv install --deploy --dev", files)
    assert found.packages == Packages(("requests", "pytest>=8"), projects=(".",), python="3.11")
    lock = (
        '{"default": {"requests": {"version": "==2.31.0"}}, "develop": {"pytest": {"version": "==8.1.0"}, "y": {"git": "u"}}}'
    )
    pinned = run("pipenv sync --dev", {**files, "Pipfile.lock": lock})
    assert pinned.packages == Packages(("pytest==8.1.0", "requests==2.31.0"), projects=(".",), python="3.11")
    assert pinned.notes == ("left out because they are not from a package index: y",)


def test_taskipy_rye_and_the_taskfile() -> None:
    tables = '[tool.taskipy.tasks]\ntest = "pytest"\npre_test = "ruff check"\n[tool.rye.scripts]\nt = { chain = ["a", "b"] }\na = "x"\nb = ["y", "z w"]\n'
    files = {"pyproject.toml": tables}
    assert run("task test", files).command == "ruff check\npytest"
    assert run("rye run t", files).command == "x\ny 'z w'"
    taskfile = """
version: '3'
vars: {ARGS: -q}
env: {MODE: ci}
tasks:
  test:
    deps: [lint]
    dir: sub
    cmds: ['pytest {{.ARGS}} {{.CLI_ARGS}}', {task: say, vars: {WHAT: end}}]
  lint: ruff check
  say: {cmds: [{cmd: 'echo {{.WHAT}}', ignore_error: true}]}
  loop: {deps: [loop]}
  what: "echo {{.GONE}}"
"""
    found = run("task test -- -x", {"Taskfile.yml": taskfile})
    assert found.command == "ruff check\n(\ncd sub\npytest -q -x\necho end || true\n)"


JUST = """
set dotenv-load
python := "python3"
export MODE := env_var_or_default("MODE", "ci")
default: test
# runs
test *args: lint (say "hi")
    @{{python}} -m pytest {{args}}
    -false
lint:
    ruff check
say what="none":
    echo {{what}}
loop: loop
    ls
odd:
    echo {{ uuid() }}
"""


def test_just() -> None:
    found = run("just test -k a", {"justfile": JUST})
    assert found.command == "ruff check\necho hi\npython3 -m pytest -k a\nfalse || true"
    assert run("just", {"justfile": JUST}).command == "ruff check\necho hi\npython3 -m pytest\nfalse || true"


@pytest.mark.parametrize(
    ("line", "files", "reason"),
    [
        ("poe loop", {"pyproject.toml": POETRY}, "calls itself"),
        ("poe gone", {"pyproject.toml": POETRY}, "no command `gone`"),
        ("pdm run again", {"pyproject.toml": PDM}, "calls itself"),
        ("hatch run lint:loop", {"pyproject.toml": HATCH}, "calls itself"),
        ("hatch run", {"pyproject.toml": HATCH}, "names no command"),
        ("just loop", {"justfile": JUST}, "calls itself"),
        ("just odd", {"justfile": JUST}, "not supported"),
        ("task loop", {"Taskfile.yml": "tasks: {loop: {deps: [loop]}}"}, "calls itself"),
        ("task what", {"Taskfile.yml": "tasks: {what: 'echo {{.GONE}}'}"}, "not known"),
        ("task x", {"Taskfile.yml": "a: &a [1]\nb: *a"}, "aliases"),
        ("task x", {"Taskfile.yml": "a: [\n"}, "not valid YAML"),
        ("inv test", {}, "Python code"),
        ("uv run", {}, "names no command"),
    ],
)
def test_what_cannot_be_followed_says_why(line: str, files: dict[str, str], reason: str) -> None:
    found = follow(line.split(), project(files), {})
    assert isinstance(found, Unfollowed), found
    assert reason in found.reason


def test_a_step_of_installs_and_runs_is_one_reading() -> None:
    text = "poetry install --with docs\npoetry run pytest -q\npoetry run ruff check . && poe unit\nuv pip install six\n"
    found = follow_script(text, project({"pyproject.toml": POETRY}), {})
    assert found.command == "pytest -q\nruff check . && bash -e -o pipefail -c '(\nexport MODE=ci\npytest\n)'"
    assert found.packages.requirements == ("pytest>=8.1,<9", "tomli>=2; python_version < '3.11'", "sphinx>=7.2.1,<7.3", "six")


def test_variables_that_are_known_are_filled_in_where_something_is_installed() -> None:
    text = 'export EXTRA=cli\npip install "django==${DJANGO}" "six>=$UNKNOWN" ".[$EXTRA]"'
    found = follow_script(text, project({"pyproject.toml": PYPROJECT}), {"DJANGO": "5.1"})
    assert found.packages == Packages(("django==5.1",), projects=(".[cli]",))
