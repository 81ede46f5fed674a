"""Finds the locks of crates and Go modules that tests need. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from agent.ci.project import runtimes
from agent.ci.project.detection import Project
from agent.ci.project.tables import read_toml, table_at
from agent.contract.verdicts import Check
from sandbox.base import Packages

_CONFIGURATIONS = (".cargo/config.toml", ".cargo/config")
_ELSEWHERE = (
    "the crates are not fetched, because `.cargo/config.toml` replaces their registry by one that the sandbox cannot reach"
)


def locked_sources(checks: Sequence[Check], project: Project) -> tuple[Packages, tuple[str, ...]]:
    """The folders of the crates and Go modules that the tests among `checks` need, except where they are committed; and notes.

    Tests of Python need no crates: extensions are wheels, or are built in the install step.
    """
    tests = runtimes.tests_among(checks)
    crates, modules, notes = tuple[str, ...](), tuple[str, ...](), tuple[str, ...]()
    own = [check for check in tests if not check.is_python]
    if "Rust" in runtimes.needed(own, {}):
        crates, notes = _crates(_chains(own), project)
    if "Go" in runtimes.needed(tests, {}):
        modules = _modules(_chains(tests), project.paths)
    return Packages(crates=crates, go_modules=modules), notes


def _chains(checks: Sequence[Check]) -> list[list[PurePosixPath]]:
    """The folder of each check, and the root, each followed by its parents."""
    folders = dict.fromkeys(PurePosixPath(name) for name in (*(check.cwd for check in checks), "."))
    return [[folder, *folder.parents] for folder in folders]


def _crates(chains: list[list[PurePosixPath]], project: Project) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The folders with a lock (a workspace has its members'), and notes. Without one, the folder where cargo writes it."""
    every = list(dict.fromkeys(folder for chain in chains for folder in chain))
    replacement = _replacement(every, project.texts)
    if replacement is not None:
        is_committed = bool(replacement.keys() & {"directory", "local-registry"})
        return (), () if is_committed else (_ELSEWHERE,)
    locks = [folder for folder in every if str(folder / "Cargo.lock") in project.paths]
    return tuple(map(str, locks or _unlocked(chains, project))), ()


def _unlocked(chains: list[list[PurePosixPath]], project: Project) -> list[PurePosixPath]:
    """The first package without a lock, or the workspace above it."""
    for chain in chains:
        packages = [folder for folder in chain if str(folder / "Cargo.toml") in project.paths]
        for folder in packages:
            if "workspace" in (read_toml(project.texts.get(str(folder / "Cargo.toml"), "")) or {}):
                return [folder]
        if packages:
            return packages[:1]
    return []


def _replacement(folders: list[PurePosixPath], texts: Mapping[str, str]) -> Mapping[str, object] | None:
    """What replaces the registry of crates in cargo's configuration; None if nothing does."""
    sources: dict[str, object] = {}
    for folder in folders:
        for name in _CONFIGURATIONS:
            for source, table in table_at(read_toml(texts.get(str(folder / name), "")) or {}, "source").items():
                sources.setdefault(source, table)
    name, seen = "crates-io", set[str]()
    while name not in seen:
        seen.add(name)
        following = table_at(sources, name).get("replace-with")
        if following is None:
            break
        name = str(following)
    return None if name == "crates-io" else table_at(sources, name)


def _modules(chains: list[list[PurePosixPath]], paths: frozenset[str]) -> tuple[str, ...]:
    """The folders with a go.sum, of the module that each check runs in."""
    nearest = [next((folder for folder in chain if str(folder / "go.mod") in paths), None) for chain in chains]
    return tuple(
        str(folder)
        for folder in dict.fromkeys(nearest)
        if folder is not None and str(folder / "go.sum") in paths and str(folder / "vendor/modules.txt") not in paths
    )
