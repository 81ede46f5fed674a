import json
from pathlib import Path

import pytest

from agent.ci.project import lockfiles
from agent.ci.project.lockfiles import LockError

RECORDED = json.loads((Path(__file__).parent / "locks_recorded.json").read_text())
UV, PIPENV = RECORDED["tools"]["uv"], RECORDED["tools"]["pipenv"]


@pytest.mark.parametrize(("case", "said"), list(zip(RECORDED["cases"], UV["said"], strict=True)))
def test_uv_lock_pins_what_uv_exports(case: list[list[str]], said: list[str]) -> None:
    extras, groups = case
    assert list(lockfiles.from_uv(UV["lock"], "", extras, groups, "3.11").requirements) == said


@pytest.mark.parametrize(("sections", "said"), list(zip((["default"], ["default", "develop"]), PIPENV["said"], strict=True)))
def test_pipfile_lock_pins_what_pipenv_lists(sections: list[str], said: list[str]) -> None:
    assert list(lockfiles.from_pipenv(PIPENV["lock"], sections, "3.11").requirements) == said


def test_the_wanted_python_decides_between_the_versions_of_one_lock() -> None:
    old, new = (lockfiles.from_uv(UV["lock"], "thing", [], ["dev"], python).requirements for python in ("3.9", "3.13"))
    assert any(pin.startswith("exceptiongroup==") for pin in old)
    assert not any(pin.startswith("exceptiongroup==") for pin in new)
    assert {pin for pin in old if pin.startswith("pytest==")} != {pin for pin in new if pin.startswith("pytest==")}


POETRY = """
[[package]]
name = "Requests"
version = "2.31.0"
[package.dependencies]
idna = ">=2.5"
PySocks = {version = ">=1.5", optional = true}
win = {version = "*", markers = "sys_platform == 'win32'"}
[package.extras]
socks = ["PySocks (>=1.5.6)"]
[[package]]
name = "idna"
version = "3.6"
[[package]]
name = "pysocks"
version = "1.7.1"
[[package]]
name = "win"
version = "1"
[[package]]
name = "two"
version = "1"
markers = "python_version < '3.10'"
[[package]]
name = "two"
version = "2"
markers = {main = "python_version >= '3.10'", dev = "python_version >= '3.11'"}
[[package]]
name = "mine"
version = "1"
[package.source]
type = "git"
"""


def test_poetry_lock_is_entered_by_the_projects_own_dependencies() -> None:
    found = lockfiles.from_poetry(POETRY, {"requests": ["socks"], "two": [], "mine": []}, "3.10")
    assert found.requirements == ("idna==3.6", "pysocks==1.7.1", "requests==2.31.0", "two==2")
    assert found.notes == ("left out because they are not from a package index: mine",)
    assert lockfiles.from_poetry(POETRY, {"requests": [], "two": []}, "3.9").requirements == (
        "idna==3.6",
        "requests==2.31.0",
        "two==1",
    )


def test_of_a_package_that_poetry_locked_twice_one_version_is_taken() -> None:
    package = '[[package]]\nname = "it"\nversion = "{}"\npython-versions = "{}"\n'
    lock = "".join(package.format(*each) for each in (("5.0", "*"), ("10.0", ">=3.5"), ("11.0", ">=3.12"), ("9.0", ">=3.5")))
    for python, version in (("3.10", "10.0"), ("3.13", "11.0")):
        assert lockfiles.from_poetry(lock, {"it": []}, python).requirements == (f"it=={version}",)


def test_pdm_lock_is_read_by_groups_and_markers() -> None:
    text = """
[[package]]
name = "a"
version = "1"
groups = ["default", "dev"]
[[package]]
name = "b"
version = "2"
groups = ["dev"]
marker = "python_version < '3.10'"
[[package]]
name = "c"
version = "3"
git = "u"
groups = ["dev"]
"""
    assert lockfiles.from_pdm(text, ["default"], "3.9").requirements == ("a==1",)
    found = lockfiles.from_pdm(text, ["dev"], "3.9")
    assert (found.requirements, found.elsewhere) == (("a==1", "b==2"), ("c",))


def test_a_lock_that_cannot_be_read_is_refused_with_the_reason() -> None:
    for read in (
        lambda: lockfiles.from_uv("not [toml", "", [], [], None),
        lambda: lockfiles.from_uv("version = 1", "", [], [], None),
        lambda: lockfiles.from_poetry("[[", {}, None),
        lambda: lockfiles.from_pipenv("[" * 100000, [], None),
    ):
        with pytest.raises(LockError, match=r"not valid|does not contain"):
            read()


def test_packages_that_need_each_other_end() -> None:
    text = '[[package]]\nname = "x"\nsource = {virtual = "."}\ndependencies = [{name = "a"}]\n'
    text += '[[package]]\nname = "a"\nversion = "1"\nsource = {registry = "r"}\ndependencies = [{name = "b"}]\n'
    text += '[[package]]\nname = "b"\nversion = "1"\nsource = {registry = "r"}\ndependencies = [{name = "a"}]\n'
    assert lockfiles.from_uv(text, "", [], [], "3.11").requirements == ("a==1", "b==1")
