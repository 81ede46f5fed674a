"""Finds the locks of crates and Go modules that tests need. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.ci.project import runtimes
from agent.ci.project.detection import Project
from agent.contract.verdicts import Check
from sandbox.base import Packages


def locked_sources(checks: Sequence[Check], project: Project) -> Packages:
    """The folders of the crates and Go modules that the tests among `checks` need, except where the sources are committed.

    Tests of Python need none: their packages are wheels, or are built in the install step.
    """
    tests = runtimes.tests_among(checks)
    if any(check.is_python for check in tests):
        return Packages()
    needed = runtimes.needed(tests, {})
    prefixes = {folder: "" if folder in ("", ".") else f"{folder}/" for folder in (".", *(check.cwd for check in tests))}

    def with_file(name: str) -> tuple[str, ...]:
        return tuple(folder for folder, prefix in prefixes.items() if prefix + name in project.paths)

    crates = with_file("Cargo.lock") or with_file("Cargo.toml")[:1]
    is_vendored = any("replace-with" in project.texts.get(f"{prefix}.cargo/config.toml", "") for prefix in prefixes.values())
    modules = () if with_file("vendor/modules.txt") else with_file("go.sum")
    return Packages(
        crates=crates if "Rust" in needed and not is_vendored else (),
        go_modules=modules if "Go" in needed else (),
    )
