"""What an install step is asked for: the same wish as names for the download, and as arguments for the installer inside.

Reads the repository's files as data; executes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from sandbox.base import Packages
from sandbox.install.python import requirements
from sandbox.install.python.requirements import Lines, Read


@dataclass(frozen=True, slots=True)
class Wanted:
    """`runs` is what the code runs on, `builds` what each own project needs to be built, `targets` the installer's arguments.

    `whole`: `runs` says all there is, so that nothing is left for an installer that sees the repository.
    """

    runs: Lines
    builds: tuple[Lines, ...]
    targets: tuple[str, ...]

    @property
    def whole(self) -> bool:
        return not (self.runs.partial or self.builds)


async def read(packages: Packages, files: Read) -> Wanted:
    """`files` reads one file of the repository."""
    named = requirements.named(packages.requirements)
    listed = await requirements.from_files(packages.requirement_files, packages.constraint_files, files)
    groups = await requirements.from_groups(packages.groups, files)
    projects = [await requirements.from_project(project, files) for project in packages.projects]
    runs = Lines(
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
    return Wanted(runs, tuple(Lines(building) for _, building in projects), tuple(targets))
