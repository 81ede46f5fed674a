"""A dependency is added the way the manifest is written, and nothing else changes."""

import tomllib

import pytest

from agent.proposers.tools.manifests import add, choose, is_manifest, requirement_lists
from agent.source.distributions import distribution_of, named


def added(path: str, text: str, table: str, name: str) -> str | None:
    target = next(target for target in requirement_lists({path: text}) if target.table == table)
    return add(text, target, name)


PROJECT = '[project]\nname = "x"\n'


@pytest.mark.parametrize(
    ("text", "table", "expected"),
    [
        (
            PROJECT + 'dependencies = [\n    "attrs>=22",  # why\n    "rich",\n]\n',
            "project.dependencies",
            PROJECT + 'dependencies = [\n    "attrs>=22",  # why\n    "PyYAML",\n    "rich",\n]\n',
        ),
        (
            PROJECT + "dependencies = [\n  'rich[all]>=1',\n  'attrs'  # last\n]\n[tool.x]\na = ['b']\n",
            "project.dependencies",
            PROJECT + "dependencies = [\n  'rich[all]>=1',\n  'attrs',  # last\n  'PyYAML',\n]\n[tool.x]\na = ['b']\n",
        ),
        (
            PROJECT + 'dependencies = ["attrs", "rich"]\n',
            "project.dependencies",
            PROJECT + 'dependencies = ["attrs", "PyYAML", "rich"]\n',
        ),
        (PROJECT + "dependencies = []\n", "project.dependencies", PROJECT + 'dependencies = ["PyYAML"]\n'),
        (
            PROJECT + 'dependencies = []\n\n[dependency-groups]\ndev = [\n    "ruff",\n    {include-group = "a"},\n]\n',
            "dependency-groups.dev",
            None,
        ),
        (
            '[project.optional-dependencies]\r\ntest = [\r\n\t"pytest",\r\n]\r\n',
            "project.optional-dependencies.test",
            '[project.optional-dependencies]\r\ntest = [\r\n\t"pytest",\r\n\t"PyYAML",\r\n]\r\n',
        ),
        (
            '[tool.poetry.dependencies]\npython = "^3.9"\nrich = "*"\n\n[tool.poetry.scripts]\na = "b:c"\n',
            "tool.poetry.dependencies",
            '[tool.poetry.dependencies]\npython = "^3.9"\nrich = "*"\nPyYAML = "*"\n\n[tool.poetry.scripts]\na = "b:c"\n',
        ),
    ],
)
def test_a_pyproject_gets_one_more(text: str, table: str, expected: str | None) -> None:
    made = added("pyproject.toml", text, table, "PyYAML")
    assert made == expected
    if made is not None:
        tomllib.loads(made)


def test_a_list_of_requirements_keeps_its_order() -> None:
    assert added("requirements.txt", "attrs==1\nrich>2\n", "", "PyYAML") == "attrs==1\nPyYAML\nrich>2\n"
    assert added("requirements.txt", "rich\n-r base.txt\nattrs", "", "PyYAML") == "rich\n-r base.txt\nattrs\nPyYAML\n"
    assert added("requirements-dev.txt", "", "", "PyYAML") == "PyYAML\n"


def test_a_setup_cfg_gets_one_more() -> None:
    text = "[metadata]\nname = x\n\n[options]\ninstall_requires =\n    attrs>=1\n    rich\npackages = find:\n"
    assert added("setup.cfg", text, "options.install_requires", "PyYAML") == text.replace(
        "    rich\n", "    rich\n    PyYAML\n"
    )


def test_what_only_tests_import_goes_where_tests_have_theirs() -> None:
    text = 'dependencies = ["rich"]\n\n[project.optional-dependencies]\ntest = ["pytest"]\ndocs = ["sphinx"]\n'
    found = requirement_lists({"pyproject.toml": PROJECT + text, "requirements-dev.txt": "ruff\n"})
    assert [target.label for target in choose(found, "freezegun", for_tests=True)] == [
        "`project.optional-dependencies.test` of pyproject.toml",
        "requirements-dev.txt",
    ]
    assert [target.table for target in choose(found, "PyYAML", for_tests=False)] == ["project.dependencies"]


def test_what_is_named_already_is_not_named_again() -> None:
    found = requirement_lists({"requirements.txt": "py_yaml\npyyaml>=5\n", "requirements-dev.txt": "pytest\n"})
    assert choose(found, "PyYAML", for_tests=False) == []
    assert choose(found, "PyYAML", for_tests=True) == []
    # Needed by the code itself, and so far only named for its tests.
    assert [target.path for target in choose(found, "pytest", for_tests=False)] == ["requirements.txt"]


def test_a_file_that_is_made_from_another_is_left_alone() -> None:
    assert [target.path for target in requirement_lists({"requirements.in": "rich\n", "requirements.txt": "rich==1\n"})] == [
        "requirements.in"
    ]


def test_a_manifest_that_cannot_be_read_has_no_place() -> None:
    assert requirement_lists({"pyproject.toml": "[project\n", "setup.cfg": "no section\n"}) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pyproject.toml", True), ("requirements.txt", True), ("requirements-dev.in", True), ("requirements/test.txt", True),
        ("dev-requirements.txt", True), ("docs/requirements.txt", False), ("notes.txt", False), ("LICENSE.txt", False),
    ],
)  # fmt: skip
def test_which_files_name_dependencies(path: str, expected: bool) -> None:
    assert is_manifest(path) is expected


def test_a_module_and_what_brings_it_may_have_different_names() -> None:
    assert distribution_of("yaml", {}) == "PyYAML"
    assert distribution_of("google.protobuf.message", {}) == "protobuf"
    assert distribution_of("sample_thing.inner", {}) == "sample-thing"
    assert distribution_of("odd", {"odd": ["Its-Real-Name"]}) == "Its-Real-Name"
    assert named("Its_Real.Name[extra] >= 1 ; python_version < '3'") == "its-real-name"
