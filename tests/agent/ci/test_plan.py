import platform
from typing import Any

import pytest

from agent.ci.job.selection import FailedJob
from agent.ci.plan import plan
from agent.ci.project.configuration import Configuration, read_configuration
from agent.contract.outcome import Outcome
from sandbox.base import Packages, Sandbox
from tests.agent.ci.runners.project import SandboxWith
from tests.agent.conftest import Repository

pytestmark = pytest.mark.asyncio(loop_scope="session")

NOXFILE = "import nox\n@nox.session\ndef tests(session):\n    session.install('attrs')\n    session.run('pytest', '-q')\n"
TESTS = {"tests/test_a.py": "import pytest\n"}
PYPROJECT = """
[build-system]
requires = ["hatchling"]
[project]
name = "x"
[project.optional-dependencies]
test = ["hypothesis"]
docs = ["sphinx"]
[dependency-groups]
dev = ["pytest-cov"]
docs = []
"""


def job(run: str, failed_step: str | None = None, before: str = "", name: str = "tests") -> FailedJob:
    indented = "\n".join(" " * 10 + line for line in run.split("\n"))
    head = "on: push\njobs:\n  tests:\n    runs-on: ubuntu-latest\n    steps:\n"
    workflow = f"{head}{before}      - name: Go\n        run: |\n{indented}\n"
    return FailedJob(name, workflow, ".github/workflows/ci.yml", failed_step)


async def test_the_failed_step_decides_what_is_run_and_the_installs_before_it_what_is_needed(repository: Repository) -> None:
    before = """\
      - uses: actions/setup-python@v5
        with: {python-version: 3.12}
      - run: pip install -r requirements-ci.txt
      - run: ruff check .
"""
    files = {**TESTS, "requirements-ci.txt": "", "requirements.txt": ""}
    found = await plan(await repository(files), jobs=(job("pip install -e .\npytest -q", "Go", before),))
    (check,) = found.checks
    assert (check.name, check.command, check.reader) == ("tests", "pytest -q", "pytest")
    assert check.source == "workflow .github/workflows/ci.yml, job tests, step 4"
    assert found.packages == Packages(("pytest",), ("requirements-ci.txt",), python="3.12")

    lint = await plan(await repository(files), jobs=(job("pytest", "Run ruff check .", before),))
    assert [(check.name, check.command, check.reader) for check in lint.checks] == [("ruff", "ruff check .", "findings")]
    assert "ruff" in lint.packages.requirements


async def test_the_same_failure_on_several_pythons_is_one_check(repository: Repository) -> None:
    jobs = (job("pytest", "Go", name="tests (3.11)"), job("pytest", "Go", name="tests (3.12)"))
    assert len((await plan(await repository(TESTS), jobs=jobs)).checks) == 1


async def test_what_cannot_be_replayed_falls_back_to_detection_with_a_note(repository: Repository) -> None:
    for failed, note in (
        (FailedJob("tests", None), "is unknown"),
        (FailedJob("gone", "on: push\njobs: {tests: {runs-on: x, steps: [{run: a}]}}"), "has the display name"),
        (FailedJob("tests", "jobs: [1, 2"), "is not valid YAML"),
    ):
        found = await plan(await repository(TESTS), jobs=(failed,))
        assert [check.command for check in found.checks] == ["python -m pytest"]
        assert note in found.notes[0]


async def test_a_repository_whose_tests_no_reader_knows_is_tested_as_it_says(repository: Repository, sandbox: Sandbox) -> None:
    files = {"Makefile": "test:\n\t@python checks.py\n", "checks.py": "assert True\n", "requirements.txt": "attrs\n"}
    found = await plan(await repository(files), sandbox=SandboxWith(sandbox, files))
    assert [(check.command, check.reader) for check in found.checks] == [("python checks.py", "exit")]
    assert found.packages.requirement_files == ("requirements.txt",)
    assert "`make test` counts as the tests" in found.notes[0]


async def test_tox_is_read_from_its_file(repository: Repository) -> None:
    tox = "[testenv]\ndeps =\n  -r{toxinidir}/test.txt\n  attrs\ncommands = pytest {posargs:tests}\n"
    found = await plan(await repository({**TESTS, "tox.ini": tox, "test.txt": ""}), jobs=(job("tox -e py", "Go"),))
    assert [check.command for check in found.checks] == ["pytest tests"]
    assert found.packages.requirement_files == ("test.txt",)
    assert set(found.packages.requirements) == {"attrs", "pytest"}
    assert "approximated" in found.notes[0]


async def test_a_runner_that_cannot_be_followed_is_detected_with_the_reason(repository: Repository) -> None:
    found = await plan(await repository(TESTS), jobs=(job("tox -e py", "Go"),))
    assert [check.command for check in found.checks] == ["python -m pytest"]
    assert "step 1: `tox -e py` is not followed: there is no tox configuration" in found.notes


async def test_without_a_workflow_the_tests_are_those_of_the_repositorys_own_runner(repository: Repository) -> None:
    tox = "[testenv]\nskip_install = true\ndeps = attrs\nsetenv = MODE=ci\ncommands = pytest -q tests\n"
    found = await plan(await repository({**TESTS, "tox.ini": tox}))
    (check,) = found.checks
    assert (check.command, check.env) == ("pytest -q tests", {"MODE": "ci"})
    assert set(found.packages.requirements) == {"attrs", "pytest"}
    assert found.notes == ("the tests were detected from `tox -e py`",)


async def test_tests_that_another_program_runs_there_get_what_that_runner_installs(repository: Repository) -> None:
    found = await plan(await repository({**TESTS, "tox.ini": "[testenv]\ndeps = attrs\ncommands = nose2 -v\n"}))
    assert [check.command for check in found.checks] == ["python -m pytest"]
    assert set(found.packages.requirements) == {"attrs", "pytest"}


async def test_what_the_repositorys_own_runner_installs_is_not_mixed_with_the_pins_of_other_environments(
    repository: Repository,
) -> None:
    tox = "[tox]\nenv_list = py3{13,11,8}\n[testenv]\ndeps = -r requirements/tests.txt\ncommands = pytest\n"
    pins = {"requirements/tests.txt": "attrs==1.0\n", "requirements/dev.txt": "attrs==2.0\n"}
    found = await plan(await repository({**TESTS, **pins, "tox.ini": tox, "setup.py": ""}))
    assert found.packages.requirement_files == ("requirements/tests.txt",)
    ours = ".".join(platform.python_version_tuple()[:2])
    assert found.packages.python == (ours if ours in ("3.11", "3.13") else "3.8")


@pytest.mark.long
async def test_make_and_nox_are_asked_and_followed_to_the_tests(sandbox: Sandbox, repository: Repository) -> None:
    files = {"Makefile": "test:\n\tMODE=ci nox -s tests\n", "noxfile.py": NOXFILE, **TESTS}
    with_files: Any = SandboxWith(sandbox, files)
    found = await plan(await repository(files), jobs=(job("make test", "Go"),), sandbox=with_files)
    (check,) = found.checks
    assert (check.command, check.reader, check.env["MODE"]) == ("pytest -q", "pytest", "ci")
    assert set(found.packages.requirements) == {"attrs", "pytest"}


@pytest.mark.parametrize(
    ("files", "line"),
    [({"Makefile": "test:\n\truff check\ncheck:\n\tpytest -q\n"}, "make check"), ({"noxfile.py": NOXFILE}, "nox -s tests")],
)
async def test_without_a_workflow_make_and_nox_are_asked_too(
    files: dict[str, str], line: str, sandbox: Sandbox, repository: Repository
) -> None:
    with_files: Any = SandboxWith(sandbox, files)
    found = await plan(await repository({**TESTS, **files}), sandbox=with_files)
    assert [check.command for check in found.checks] == ["pytest -q"]
    assert f"the tests were detected from `{line}`" in found.notes


async def test_a_project_is_installed_with_its_test_extras_and_groups(repository: Repository) -> None:
    found = await plan(await repository({**TESTS, "pyproject.toml": PYPROJECT, ".python-version": "3.11\n"}))
    assert found.packages == Packages(("pytest",), groups=("dev",), projects=(".[test]",), python="3.11")


@pytest.mark.parametrize(
    ("files", "python"),
    [
        ({"pyproject.toml": "[project]\nname = 'x'\nrequires-python = '>=3.99'\n"}, None),
        ({"pyproject.toml": "[project]\nname = 'x'\nrequires-python = '>=3.8'\n"}, None),
        ({"pyproject.toml": "[project]\nname = 'x'\nrequires-python = '>=3.15'\n"}, "3.15"),
        ({"pyproject.toml": "[tool.poetry.dependencies]\npython = '^3.15'\n"}, "3.15"),
        ({"pyproject.toml": "[tool.poetry.dependencies]\npython = '~3.15 || 3'\n"}, None),
        ({"setup.cfg": "[options]\npython_requires = <3.10\n"}, "3.9"),
    ],
)
async def test_a_python_that_the_project_does_not_support_is_not_used(
    repository: Repository, files: dict[str, str], python: str | None
) -> None:
    assert (await plan(await repository({**TESTS, **files}))).packages.python == python


async def test_of_requirement_files_that_contradict_each_other_those_of_the_tests_are_installed(repository: Repository) -> None:
    files = {
        "requirements/dev.txt": "attrs==2.0\nmypy==1.0\n",
        "requirements/tests.txt": "Attrs==1.0 \\\n    --hash=sha256:00\nPyTest==8.0  # via nothing\n",
        "requirements.txt": "attrs==1.0\npytest>=7\n",
    }
    found = await plan(await repository({**TESTS, **files}))
    assert set(found.packages.requirement_files) == {"requirements/tests.txt", "requirements.txt"}
    assert "requirements/dev.txt is not installed: its pins contradict those of requirements/tests.txt" in found.notes


async def test_an_application_with_a_src_folder_gets_it_on_its_path(repository: Repository) -> None:
    files = {**TESTS, "src/x.py": "", "pyproject.toml": "[project]\nname='x'\ndependencies=['attrs']\n"}
    found = await plan(await repository(files))
    assert found.checks[0].env == {"PYTHONPATH": "src"}
    assert found.packages == Packages(("pytest", "attrs"))


async def test_plain_unittest_needs_no_pytest(repository: Repository) -> None:
    found = await plan(await repository({"tests/test_a.py": "import unittest\n", "requirements.txt": ""}))
    assert [(check.command, check.reader) for check in found.checks] == [("python -m unittest discover -s tests", "unittest")]
    assert found.packages == Packages(requirement_files=("requirements.txt",))


async def test_what_unittest_does_not_find_by_its_name_is_run_by_pytest(repository: Repository) -> None:
    found = await plan(await repository({"tests/a_test.py": "import unittest\n", "tests/__init__.py": ""}))
    assert [check.command for check in found.checks] == ["python -m pytest"]


async def test_a_repository_without_tests_has_no_checks_and_says_what_to_do(repository: Repository) -> None:
    found = await plan(await repository({"a.py": "", "pyproject.toml": "not [toml", "setup.cfg": "neither"}))
    assert found.checks == ()
    assert "The repository has no tests" in found.ending.reason
    assert ".github/selfheal.yml" in found.ending.next_step


async def test_a_command_and_the_configuration_come_first(repository: Repository) -> None:
    configuration = read_configuration("test: [{name: types, run: mypy .}]\ninstall: {requirements: [attrs]}\npython: '3.12'\n")
    assert isinstance(configuration, Configuration)
    found = await plan(await repository(TESTS), configuration=configuration, jobs=(job("pytest", "Go"),))
    assert [(check.name, check.reader, check.source) for check in found.checks] == [("types", "findings", "configuration")]
    assert found.packages == Packages(("attrs", "mypy"), python="3.12")
    asked = await plan(await repository(TESTS), configuration=configuration, command="pytest tests -q")
    assert [(check.command, check.reader, check.source) for check in asked.checks] == [
        ("pytest tests -q", "pytest", "command line")
    ]


async def test_files_that_an_install_names_but_nobody_has_are_left_out_with_a_note(repository: Repository) -> None:
    found = await plan(await repository(TESTS), jobs=(job("pip install -r gone.txt -e ../../etc\npytest", "Go"),))
    assert found.packages == Packages(("pytest",))
    assert any("gone.txt" in note for note in found.notes)


HOOKS = """\
repos:
  - repo: https://github.com/astral-sh/ruff-pre-commit
    rev: v0.6.9
    hooks:
      - {id: ruff, args: [--fix, --select, "E,F"]}
      - id: ruff-format
  - repo: https://github.com/pre-commit/pre-commit-hooks
    rev: v4.6.0
    hooks: [{id: check-yaml}]
"""


async def test_hooks_of_pre_commit_are_read_from_its_file(repository: Repository) -> None:
    files = {**TESTS, ".pre-commit-config.yaml": HOOKS}
    found = await plan(await repository(files), jobs=(job("pip install pre-commit\npre-commit run --all-files", "Go"),))
    (check,) = found.checks
    assert check.command == "status=0\nruff check --select E,F . || status=1\nruff format --check . || status=1\nexit $status"
    assert check.reader == "findings"
    assert "ruff==0.6.9" in found.packages.requirements
    assert any("not run: check-yaml" in note for note in found.notes)
    one = await plan(await repository(files), jobs=(job("pre-commit run ruff-format -a", "Go"),))
    assert [check.command for check in one.checks] == ["ruff format --check ."]
    none = await plan(await repository(files), jobs=(job("pre-commit run check-yaml -a", "Go"),))
    assert any("fetched with git" in note for note in none.notes)


async def test_a_step_that_uses_the_action_of_a_linter_is_run_as_its_command(repository: Repository) -> None:
    before = "      - uses: astral-sh/ruff-action@v3\n        with: {args: format --check, version: 0.6.9}\n"
    found = await plan(await repository(TESTS), jobs=(job("pytest", "Run astral-sh/ruff-action@v3", before),))
    assert [(check.command, check.reader) for check in found.checks] == [("ruff format --check .", "findings")]
    assert "ruff==0.6.9" in found.packages.requirements
    other = "      - uses: someone/else@v3\n"
    found = await plan(await repository(TESTS), jobs=(job("pytest", "Run someone/else@v3", other),))
    assert (found.checks, found.ending.outcome) == ((), Outcome.NOT_REPRODUCED)
    assert "the action someone/else@v3` is not available here" in found.ending.reason


VENDORED = '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "vendor"\n'


@pytest.mark.parametrize(
    ("files", "crates", "go_modules"),
    [
        ({"Cargo.toml": "", "Cargo.lock": ""}, (".",), ()),
        ({"Cargo.toml": ""}, (".",), ()),
        ({"Cargo.toml": "", "Cargo.lock": "", ".cargo/config.toml": "[alias]\n"}, (".",), ()),
        ({"Cargo.toml": "", ".cargo/config.toml": VENDORED}, (), ()),
        ({"Cargo.toml": "", ".cargo/config.toml": '[source.other]\nreplace-with = "vendored"\n'}, (".",), ()),
        ({"go.mod": "", "go.sum": "", "a_test.go": ""}, (), (".",)),
        ({"go.mod": "", "go.sum": "", "a_test.go": "", "vendor/modules.txt": ""}, (), ()),
        ({"Cargo.toml": "", "Cargo.lock": "", "test_a.py": "def test_a(): pass\n"}, (), ()),
    ],
)
async def test_crates_and_go_modules_are_fetched_for_tests_that_need_them(
    repository: Repository, files: dict[str, str], crates: tuple[str, ...], go_modules: tuple[str, ...]
) -> None:
    planned = await plan(await repository(files))
    assert (planned.packages.crates, planned.packages.go_modules) == (crates, go_modules)


async def test_a_mirror_of_the_registry_is_named(repository: Repository) -> None:
    mirror = '[source.crates-io]\nreplace-with = "mirror"\n[source.mirror]\nregistry = "sparse+https://mirror.invalid/"\n'
    planned = await plan(await repository({"Cargo.toml": "", "Cargo.lock": "", ".cargo/config.toml": mirror}))
    assert planned.packages.crates == ()
    assert any("the crates are not fetched" in note for note in planned.notes)


async def test_without_a_job_that_installs_the_versions_are_those_of_the_lock_file(repository: Repository) -> None:
    poetry = (
        "[tool.poetry]\nname = 'x'\n[tool.poetry.dependencies]\npygments = '^2.13'\n"
        "[tool.poetry.group.dev.dependencies]\npytest = '*'\n"
    )
    lock = "".join(
        f'[[package]]\nname = "{name}"\nversion = "{version}"\n'
        for name, version in (("pygments", "2.19.2"), ("pytest", "8.4.2"))
    )
    files = {**TESTS, "pyproject.toml": poetry, "poetry.lock": lock}
    found = await plan(await repository(files), command="python -m pytest -q")
    assert set(found.pins) == {"pygments==2.19.2", "pytest==8.4.2"}
    assert set(found.pins) <= set(found.packages.requirements)
    assert "no job says what to install, so the versions are those of poetry.lock" in found.notes
    asked = await plan(
        await repository({**files, "requirements.txt": ""}), jobs=(job("pip install -r requirements.txt\npytest"),)
    )
    assert asked.pins == ()
