"""Turns an install step's packages into names to download and arguments for the installer.

Reads the repository's files as data; executes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.base import Packages
from sandbox.install.python import requirements
from sandbox.install.python.requirements import Read, RequirementLines


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """`runtime` is what the code needs, `builds` what each own project needs to build, `targets` the installer's arguments."""

    runtime: RequirementLines
    builds: tuple[RequirementLines, ...]
    targets: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether `runtime` is everything, so that no installer needs to see the repository."""
        return not (self.runtime.partial or self.builds)


async def read(packages: Packages, files: Read) -> InstallPlan:
    """`files` reads one file of the repository."""
    named = requirements.named(packages.requirements)
    listed = await requirements.from_files(packages.requirement_files, packages.constraint_files, files)
    groups = await requirements.from_groups(packages.groups, files)
    projects = [await requirements.from_project(project, files) for project in packages.projects]
    runtime = RequirementLines(
        (*named.requirements, *listed.requirements, *groups.requirements, *(line for needs, _ in projects for line in needs)),
        listed.constraints,
        listed.hashes,
        named.partial or listed.partial or groups.partial,
    )
    targets = [*packages.requirements, *groups.requirements]
    for option, paths in (("--requirement", packages.requirement_files), ("--constraint", packages.constraint_files)):
        targets += [text for path in paths for text in (option, path)]
    for project in packages.projects:
        folder, extras = requirements.split_extras(project)
        targets += ["--editable", f"./{folder}" + (f"[{','.join(extras)}]" if extras else "")]
    return InstallPlan(runtime, tuple(RequirementLines(building) for _, building in projects), tuple(targets))
