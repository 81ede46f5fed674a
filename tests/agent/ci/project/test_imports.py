"""What the tests import and only another use of the project declares."""

from __future__ import annotations

from agent.ci.project.detection import Project
from agent.ci.project.imports import with_needed
from sandbox.base import Packages

PYPROJECT = """
[project]
name = "mine"
dependencies = ["needed"]
[project.optional-dependencies]
cli = ["click>=8", "rich"]
[dependency-groups]
extra = [{include-group = "more"}]
more = ["PyYAML", "pytest"]
"""
TESTS = """
import os, click, helpers, mine.core
import yaml as y
from needed.part import x
from . import sibling
try:
    import rich
except ImportError:
    rich = None
def test():
    import unlisted
"""


def test_an_import_of_the_tests_is_installed_where_another_extra_or_group_declares_it() -> None:
    texts = {
        "pyproject.toml": PYPROJECT,
        "tests/test_a.py": TESTS,
        "tests/helpers.py": "",
        "tests/conftest.py": "import pytest",
    }
    project = Project.of_texts(texts)
    found, notes = with_needed(project, Packages(("pytest==8",), projects=(".",)))
    assert found == Packages(("pytest==8", "click>=8", "PyYAML"), projects=(".",))
    assert notes == (
        "the tests import `click`, so `click` is installed too, as the extra `cli` declares it",
        "the tests import `yaml`, so `pyyaml` is installed too, as the group `more` declares it",
    )
    assert with_needed(project, Packages(groups=("extra",), projects=(".[cli]",)))[1] == ()
    listed = Project.of_texts({**texts, "requirements-dev.txt": "-e .[cli]\npyyaml\npytest\n"})
    assert with_needed(listed, Packages(requirement_files=("requirements-dev.txt",)))[1] == ()


def test_a_file_that_is_not_python_imports_nothing() -> None:
    for text in ("import click\ndef (", "(" * 10_000 + "\nimport click", "import click\0"):
        project = Project.of_texts({"pyproject.toml": PYPROJECT, "test_a.py": text})
        assert with_needed(project, Packages(projects=(".",)))[1] == ()


def test_an_option_or_a_setting_of_pytest_installs_its_plugin() -> None:
    pyproject = """
[tool.pytest.ini_options]
addopts = "-v -W=error --durations=0 --asyncio-mode=strict"
asyncio_default_fixture_loop_scope = "function"
[dependency-groups]
cover = ["pytest-cov>=5"]
"""
    project = Project.of_texts({"pyproject.toml": pyproject, "tests/test_a.py": ""})
    found, notes = with_needed(project, Packages(("pytest-xdist",)), ["python -m pytest -n 2 --cov=mine", "tool --timeout=3"])
    assert found.requirements == ("pytest-xdist", "pytest-asyncio", "pytest-cov>=5")
    assert notes == (
        "pytest gets the option `--asyncio-mode=strict`, so `pytest-asyncio` is installed too",
        "pytest gets the option `--cov=mine`, so `pytest-cov` is installed too",
    )
    for name, text in (
        ("pytest.ini", "[pytest]\ntimeout = 20\n"),
        ("setup.cfg", "[tool:pytest]\naddopts = --timeout 20\n"),
        ("tox.ini", "[pytest]\naddopts =\n  --timeout=20\n"),
    ):
        assert with_needed(Project.of_texts({name: text}), Packages())[0].requirements == ("pytest-timeout",)
    for command in ("python -m pytest 2>&1 | tail -n 50", "xargs -n 1 pytest", "curl --timeout 4 x && pytest"):
        assert with_needed(Project.of_texts({}), Packages(), [command]) == (Packages(), ())
    unreadable = Project.of_texts(
        {"pytest.ini": "[pytest]\naddopts = 'a\n", "pyproject.toml": "[tool.pytest.ini_options]\naddopts = 3"}
    )
    assert with_needed(unreadable, Packages(), ["pytest -k 'x"]) == (Packages(), ())
