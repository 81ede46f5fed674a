"""Names in the manifest what the code imports and no manifest names.

Only proposes: whether it helps shows in an environment that has the new dependency, which is the gate's to make.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence

from agent.contract.proposal import Candidate, Edits, FileChange
from agent.proposers.tools import imports, manifests
from agent.proposers.tools.missing import Missing
from agent.proposers.tools.origins import Known
from agent.proposers.tools.trials import Trials
from agent.source.distributions import distribution_of, named
from agent.source.test_files import is_test

PLACES = 2  # manifests that are tried, one candidate each
LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock")


async def name_dependencies(
    trials: Trials, left: Sequence[Missing], known: Known, on: Edits
) -> tuple[list[Candidate], list[str]]:
    """A candidate a place where all missing distributions may be named, likeliest first, and notes. Raises `SandboxError`."""
    wanted = await _wanted(trials, left, known)
    if not wanted:
        return [], []
    paths = [entry.path for entry in await trials.situation.sandbox.base.files() if not entry.link]
    texts = {path: text for path in paths if manifests.is_manifest(path) and (text := await trials.text(path, on)) is not None}
    found = manifests.places(texts)
    made: list[Candidate] = []
    notes: list[str] = []
    for choice in range(PLACES):
        edits = {edit.path: edit for edit in on}
        told: list[str] = []
        for distribution, for_tests in wanted.items():
            fitting = manifests.choose(found, distribution, for_tests=for_tests)
            if choice >= len(fitting):
                continue
            place = fitting[choice]
            before = await trials.text(place.path)
            now = edits[place.path].after if place.path in edits else before
            text = manifests.add(now or "", place, distribution)
            if text is not None:
                edits[place.path] = FileChange(place.path, before, text)
                told.append(f"`{distribution}` in {place.told}")
        if told:
            reasoning = "The code imports it and no manifest names it."
            made.append(
                Candidate("tools", tuple(edits.values()), f"names {', '.join(told)}"[:200], reasoning, prior=0.6 / (choice + 1))
            )
    if made:
        notes += [f"{path} has to be made anew for it, which needs the package index" for path in LOCKS if path in paths]
    elif not found:
        notes.append(f"no manifest was found to name {', '.join(f'`{name}`' for name in wanted)} in")
    return made, notes


async def _wanted(trials: Trials, left: Sequence[Missing], known: Known) -> dict[str, bool]:
    """Distributions that files of the repository import and that are not there; whether only tests import them."""
    wanted: dict[str, bool] = {}
    for one in left:
        top = one.module.partition(".")[0]
        if one.kind != "module" or top in known.own or known.modules.get(top):
            continue
        source = await trials.text(one.path)
        if source is None or not imports.imports_module(source, top):
            continue  # somebody else's import, or only words
        distribution = distribution_of(one.module, known.distributions)
        if named(distribution) and not _is_slip(top, distribution, known):
            wanted[distribution] = wanted.get(distribution, True) and is_test(one.path)
    return wanted


def _is_slip(top: str, distribution: str, known: Known) -> bool:
    """A module misspelt is not to be fetched: who registers such names wants exactly that."""
    if distribution != distribution_of(top, {}) or named(distribution) != named(top):
        return False  # known by a name of its own
    modules = [name for name in {*sys.stdlib_module_names, *known.own, *known.distributions} if len(name) > 2]
    return bool(difflib.get_close_matches(top, modules, n=1, cutoff=0.8))
