"""What the tests import and only another use of the project declares."""

from __future__ import annotations

from agent.ci.project.detection import Project
from agent.ci.project.imports import with_imported
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
    found, notes = with_imported(project, Packages(("pytest==8",), projects=(".",)))
    assert found == Packages(("pytest==8", "click>=8", "PyYAML"), projects=(".",))
    assert notes == (
        "the tests import `click`, so `click` is installed too, as the extra `cli` declares it",
        "the tests import `yaml`, so `pyyaml` is installed too, as the group `more` declares it",
    )
    assert with_imported(project, Packages(groups=("extra",), projects=(".[cli]",)))[1] == ()
    listed = Project.of_texts({**texts, "requirements-dev.txt": "-e .[cli]\npyyaml\npytest\n"})
    assert with_imported(listed, Packages(requirement_files=("requirements-dev.txt",)))[1] == ()


def test_a_file_that_is_not_python_imports_nothing() -> None:
    for text in ("import click\ndef (", "(" * 10_000 + "\nimport click", "import click\0"):
        project = Project.of_texts({"pyproject.toml": PYPROJECT, "test_a.py": text})
        assert with_imported(project, Packages(projects=(".",)))[1] == ()
