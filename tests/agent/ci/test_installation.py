"""What the project declares and the sandbox cannot have."""

from __future__ import annotations

from agent.ci.installation import with_declared
from agent.ci.plan import Plan
from agent.ci.project.detection import Project
from sandbox.base import Packages


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
    assert with_declared(plan, failed_in_ci=False).absent == ("pyutils", "python_config", "yaml", "pyyaml", "two_words", "bson")
