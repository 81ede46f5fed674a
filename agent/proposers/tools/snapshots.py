"""Updates the snapshots of tests, if the repository's configuration allows it.

An updated snapshot passes whatever the code does: never do this unasked, nor for a test that fails for another reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.contract.proposal import Candidate
from agent.contract.verdicts import Check, Failure
from agent.proposers.tools.fixers import recordings
from agent.proposers.tools.fixes import fixes_of
from agent.proposers.tools.trials import Trials
from agent.source.test_files import is_snapshot

_SNAPSHOT = re.compile(r"\bsnapshots?\b", re.IGNORECASE)


async def record(trials: Trials, checks: Sequence[Check]) -> tuple[list[Candidate], list[str]]:
    """A candidate with the new snapshots, if they differ and are allowed, and notes. Raises `SandboxError`."""
    concerned = [check for check in checks if _is_concerned(check, trials.base_run(check).failures)]
    found = await fixes_of(trials, concerned, recordings)
    if not found:
        return [], []
    if not trials.situation.policy.allow_snapshots:
        return [], ["snapshots differ; `snapshots: true` in `.github/selfheal.yml` allows Selfheal to update them"]
    changed = await trials.changed_by([(check, fix.command) for check, fix in found], new=is_snapshot)
    edits = tuple(edit for edit in changed.edits if is_snapshot(edit.path))
    if not edits:
        return [], [changed.note or "the test runner updated no snapshot"]
    runs = await trials.judged(edits, concerned)
    if isinstance(runs, str) or not all(trials.is_green(check, runs) for check in concerned):
        return [], ["the tests still fail with updated snapshots"]
    where = edits[0].path if len(edits) == 1 else f"{len(edits)} files"
    why = "The output differs from the snapshot, and the configuration allows updating it. Check that it is intended."
    return [Candidate("tools", edits, f"updates the snapshots in {where}", why, prior=0.3)], []


def mentions_snapshots(failure: Failure) -> bool:
    """Does the failure mention a snapshot?"""
    return _SNAPSHOT.search(f"{failure.message}\n{failure.details}") is not None


def _is_concerned(check: Check, failures: Sequence[Failure]) -> bool:
    about = [mentions_snapshots(failure) for failure in failures]
    return bool(about) and (all(about) if check.runs_tests else any(about))
