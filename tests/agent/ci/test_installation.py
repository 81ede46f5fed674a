"""What the project declares and the sandbox cannot have."""

from __future__ import annotations

import math
from typing import cast

import pytest

from agent.ci.installation import install, with_what_tests_need
from agent.ci.plan import Plan
from agent.ci.project.detection import Project
from sandbox.base import Installed, InstallFailed, Packages, Sandbox


def test_only_a_module_of_the_left_out_distribution_excuses_a_test_and_none_of_the_repository() -> None:
    names = ("pyutils", "python-config", "PyYAML", "two-words", "bson", "Own", "near", "plain")
    lines = "".join(f"{name} @ git+https://git.invalid/{name}\n" for name in names)
    files = (
        "src/own/a.py",
        "tests/plain/__init__.py",
        "tools/near.py",
        "lib/__init__.py",
        "lib/bson.py",
        "docs/two_words/a.md",
    )
    project = Project.of_texts({"requirements-dev.txt": lines, **dict.fromkeys(files, "")})
    plan = Plan((), Packages(requirement_files=("requirements-dev.txt",)), project=project)
    assert with_what_tests_need(plan, failed_in_ci=False).absent == (
        "pyutils",
        "python_config",
        "yaml",
        "pyyaml",
        "two_words",
        "bson",
    )


class Index:
    """Installs all but one requirement."""

    def __init__(self, missing: str) -> None:
        self.missing = missing

    async def install(self, packages: Packages) -> Installed:
        if self.missing in packages.requirements:
            raise InstallFailed(f"no wheel of {self.missing} fits this Python")
        return Installed("3.11", 0.0)


@pytest.mark.parametrize("missing", ["pygments==1.0", "pytest"])
async def test_pins_that_cannot_be_installed_give_way_to_the_projects_own_ranges(missing: str) -> None:
    project = Project.of_texts({"pyproject.toml": "", "poetry.lock": ""})
    planned = Plan((), Packages(("pytest", "pygments==1.0", "pygments>=1")), project=project, pins=("pygments==1.0",))
    asked = install(planned, cast(Sandbox, Index(missing)), failed_in_ci=False, was_met=True, until=math.inf)
    if missing == "pytest":
        with pytest.raises(InstallFailed):
            await asked
    else:
        found, _ = await asked
        assert found.packages.requirements == ("pytest", "pygments>=1")
        assert "the project's own version ranges are used: " in found.notes[-1]
