"""Adds imported but undeclared dependencies to the manifest; reports lock files that are out of date.

Only proposes. The gate builds the environment with the new dependency and verifies the change there. Regenerating locks needs
the package index, which the sandbox cannot reach. Never edits a lock file: others trust its hashes.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Sequence

from agent.contract.proposal import Candidate, Edits
from agent.proposers.tools import imports, manifests
from agent.proposers.tools.missing import KnownNames, Missing
from agent.proposers.trials import Trials
from agent.source.distributions import distribution_of, named
from agent.source.test_files import is_test

MAX_LISTS = 2  # requirement lists to try, one candidate each
LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock")
# The tools' messages → the file, and the command that regenerates it.
_OUTDATED = (
    (r"lockfile at `?uv\.lock`? needs to be updated|uv\.lock.{0,40}needs to be updated", "uv.lock", "uv lock"),
    (r"pyproject\.toml changed significantly since poetry\.lock|poetry\.lock is not (?:up to date|consistent)",
     "poetry.lock", "poetry lock"),
    (r"pdm\.lock.{0,60}(?:out of date|hash doesn't match)|Lock file hash doesn't match", "pdm.lock", "pdm lock"),
    (r"Pipfile\.lock \(\w+\) out of date", "Pipfile.lock", "pipenv lock"),
    (r"package\.json and package-lock\.json.{0,60}are (?:not )?in sync",
     "package-lock.json", "npm install --package-lock-only"),
    (r"ERR_PNPM_OUTDATED_LOCKFILE", "pnpm-lock.yaml", "pnpm install --lockfile-only"),
    (r"lockfile would have been modified by this install|lockfile needs to be updated", "yarn.lock", "yarn install"),
    (r"Cargo\.lock.{0,80}needs to be updated but --locked", "Cargo.lock", "cargo update --workspace"),
)  # fmt: skip


async def name_dependencies(
    trials: Trials, left: Sequence[Missing], known: KnownNames, on: Edits
) -> tuple[list[Candidate], list[str]]:
    """Candidates that declare the missing distributions, in the likeliest lists first, and notes. Raises `SandboxError`."""
    wanted = await _wanted(trials, left, known)
    if not wanted:
        return [], []
    paths = [entry.path for entry in await trials.situation.sandbox.base.files() if not entry.link]
    texts = {path: text for path in paths if manifests.is_manifest(path) and (text := await trials.text(path, on)) is not None}
    found = manifests.requirement_lists(texts)
    made: list[Candidate] = []
    notes: list[str] = []
    for choice in range(MAX_LISTS):
        edits = on
        added: list[str] = []
        for distribution, for_tests in wanted.items():
            fitting = manifests.choose(found, distribution, for_tests=for_tests)
            if choice >= len(fitting):
                continue
            target = fitting[choice]
            text = manifests.add(await trials.text(target.path, edits) or "", target, distribution)
            if text is not None:
                edits = await trials.with_text(edits, target.path, text)
                added.append(f"`{distribution}` to {target.label}")
        if added:
            reasoning = "The code imports it, but no manifest declares it."
            made.append(Candidate("tools", edits, f"adds {', '.join(added)}"[:200], reasoning, prior=0.6 / (choice + 1)))
    if made:
        notes += [f"then {path} must be regenerated, which needs the package index" for path in LOCKS if path in paths]
    elif not found:
        notes.append(f"no manifest was found that could declare {', '.join(f'`{name}`' for name in wanted)}")
    return made, notes


async def _wanted(trials: Trials, left: Sequence[Missing], known: KnownNames) -> dict[str, bool]:
    """Missing distributions that the repository's files import; the value is True if only tests import one."""
    wanted: dict[str, bool] = {}
    for one in left:
        top = one.module.partition(".")[0]
        if one.kind != "module" or top in known.own or known.modules.get(top):
            continue
        source = await trials.text(one.path)
        if source is None or not imports.imports_module(source, top):
            continue  # imported by a dependency, or only mentioned in a text
        distribution = distribution_of(one.module, known.distributions)
        if named(distribution) and not _is_misspelt(top, distribution, known):
            wanted[distribution] = wanted.get(distribution, True) and is_test(one.path)
    return wanted


def _is_misspelt(top: str, distribution: str, known: KnownNames) -> bool:
    """Is it a misspelt module? Never install one: typosquatters register such names."""
    if distribution != distribution_of(top, {}) or named(distribution) != named(top):
        return False  # a known distribution with a different name is no typo
    modules = [name for name in {*sys.stdlib_module_names, *known.own, *known.distributions} if len(name) > 2]
    return bool(difflib.get_close_matches(top, modules, n=1, cutoff=0.8))


def lock_notes(hints: Iterable[str]) -> list[str]:
    """A note on the first lock file that the failing job's log reports as out of date."""
    text = "\n".join(hints)
    for pattern, file, command in _OUTDATED:
        if re.search(pattern, text, re.IGNORECASE):
            return [f"{file} is out of date and regenerating it needs the package index; run `{command}` and commit the result"]
    return []
