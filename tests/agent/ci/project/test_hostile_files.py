"""Files of a hostile repository are read in bounded time: each of these took minutes with a pattern that tries again."""

from __future__ import annotations

import pytest

from agent.ci.project.detection import READ_LIMIT, Project, absent_submodules
from agent.ci.project.optional import from_elsewhere, optional_names
from sandbox.base import Packages

BLANKS = " " * (READ_LIMIT - 100)


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        ("path = here\n" + "\n" * READ_LIMIT + "\tpath = vendor/a b/ \n", ("here", "vendor/a b")),
        (f"path = x{BLANKS}y\n", (f"x{BLANKS}y",)),
        ("url = path\npath\npath =\npath = /\npath = present\n", ()),
    ],
    ids=["blank lines", "blanks", "none"],
)
def test_the_folders_of_submodules(text: str, absent: tuple[str, ...]) -> None:
    assert absent_submodules(Project.of_texts({".gitmodules": text, "present/a": ""})) == absent


@pytest.mark.parametrize(
    ("text", "optional"),
    [
        ("install_requires=[" * (READ_LIMIT // 18), set[str]()),
        ("extras_require={" * (READ_LIMIT // 16), set[str]()),
        ("(" * READ_LIMIT, set[str]()),
        ("NEEDED = 1\ninstall_requires = ['a[b]>1', 'c']\nsetup(extras_require={'test': ['c', 'd']})\n", {"test", "d"}),
        ("setup(install_requires=['a'] + MORE, extras_require=dict(test=['a', 'd']))\n", {"d"}),
        ("setup(install_requires=needed, extras_require=more)\n", set[str]()),
    ],
    ids=["never closed", "no dictionary", "parentheses", "variable", "arguments", "names"],
)
def test_what_setup_py_declares(text: str, optional: set[str]) -> None:
    assert optional_names(Project.of_texts({"setup.py": text}), Packages()) == optional


def test_a_requirement_with_many_blanks() -> None:
    lines = f"a{BLANKS}\nb @ https://example.invalid/b\n"
    project = Project.of_texts({"requirements-dev.txt": lines})
    assert from_elsewhere(project, Packages(requirement_files=("requirements-dev.txt",))) == ("b",)
