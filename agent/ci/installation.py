"""Installs what a plan needs. What cannot be had here costs only the tests that need it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import replace

from agent.ci.plan import Plan
from agent.ci.project import install_failure
from agent.ci.project.detection import absent_submodules
from agent.ci.project.imports import with_needed
from agent.ci.project.optional import from_elsewhere, optional_names
from agent.guest.text import one_line
from agent.source.distributions import modules_of
from sandbox.base import Installed, InstallFailed, Sandbox

LEFT_OUT = 5  # optional distributions that one installation may lack
RUNS_TESTS = ("pytest",)  # without which no test runs


def with_what_tests_need(planned: Plan, *, failed_in_ci: bool) -> Plan:
    """The plan with what the tests need: packages that they import, plugins of pytest, and submodules that are not here."""
    project = planned.project
    if project is None:
        return planned
    folders = absent_submodules(project)
    more = "" if failed_in_ci else ": in a checkout, run `git submodule update --init` first"
    notes = [f"the submodule {one_line(name, 100)} is not here, so tests that read it are skipped{more}" for name in folders]
    packages, imported = planned.packages, tuple[str, ...]()
    if not failed_in_ci:  # otherwise CI may have failed for want of them
        packages, imported = with_needed(project, packages, [check.command for check in planned.checks])
    planned = replace(planned, packages=packages, notes=(*planned.notes, *notes, *imported))
    for name in from_elsewhere(project, packages):
        planned = _without_package(planned, name, "is not from a package index, so tests that import it are skipped")
    return replace(planned, absent=(*planned.absent, *(f"{name}/" for name in folders)))


async def install(
    planned: Plan, sandbox: Sandbox, *, failed_in_ci: bool, was_met: bool, until: float
) -> tuple[Plan, Installed]:
    """Install the packages, without optional ones that cannot be had here.

    `was_met`: whether CI could install them. After `until` (of `time.monotonic()`), nothing more is left out.
    Raises `InstallFailed`, and `SandboxError`.
    """
    is_strict = failed_in_ci and not was_met  # CI may have failed for the same reason
    for _ in range(LEFT_OUT):
        try:
            return planned, await sandbox.install(planned.packages)
        except InstallFailed as error:
            project, name = planned.project, ""
            if not is_strict and project is not None and time.monotonic() <= until:
                optional = await asyncio.to_thread(optional_names, project, planned.packages)
                optional = optional.difference(planned.packages.without, RUNS_TESTS)
                name = install_failure.unavailable(error, optional, states=bool(planned.legs) and not failed_in_ci)
            if name:
                why = f"cannot be installed here, so tests that import it are skipped: {install_failure.in_words(error)}"
                planned = _without_package(planned, name, why)
            elif planned.pins:
                planned = _without_pins(planned, install_failure.in_words(error))
            else:
                raise
    return planned, await sandbox.install(planned.packages)


def _without_pins(planned: Plan, why: str) -> Plan:
    left = tuple(line for line in planned.packages.requirements if line not in planned.pins)
    note = f"what the lock file pins cannot be installed here, so the project's own version ranges are used: {why}"
    return replace(planned, packages=replace(planned.packages, requirements=left), pins=(), notes=(*planned.notes, note))


def _without_package(planned: Plan, name: str, why: str) -> Plan:
    own = _own_modules(planned.project.paths) if planned.project is not None else ()
    return replace(
        planned,
        packages=replace(planned.packages, without=(*planned.packages.without, name)),
        notes=(*planned.notes, f"`{name}` {why}"),
        # Without a module of its own, the repository is broken: that excuses no test.
        absent=(*planned.absent, *(module for module in modules_of(name) if module not in own)),
    )


def _own_modules(paths: Collection[str]) -> set[str]:
    """The top-level modules of the repository, in lower case: what is outside of any package."""
    files = [path.removesuffix(".py") for path in paths if path.endswith(".py")]
    packages = {file.removesuffix("/__init__") for file in files if file.endswith("/__init__")}
    folders = {file.removeprefix("src/").partition("/")[0] for file in files}  # also those without `__init__.py`
    outside = {each.rpartition("/")[2] for each in (*files, *packages) if each.rpartition("/")[0] not in packages}
    return {name.lower() for name in folders | outside}
