"""Writes the recorded outputs of tests anew, where the repository's configuration allows it.

A snapshot turns green whatever the code does: this is never done unasked, and never for a test that fails for another reason.
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

_SAYS_SO = re.compile(r"\bsnapshots?\b", re.IGNORECASE)


async def record(trials: Trials, checks: Sequence[Check]) -> tuple[list[Candidate], list[str]]:
    """A candidate with the new snapshots, when these differ and may be written, and notes. Raises `SandboxError`."""
    concerned = [check for check in checks if _is_concerned(check, trials.base_run(check).failures)]
    found = await fixes_of(trials, concerned, recordings)
    if not found:
        return [], []
    if not trials.situation.policy.allow_snapshots:
        return [], ["snapshots differ; with `snapshots: true` in `.github/selfheal.yml` they would be written anew"]
    changed = await trials.changed_by([(check, fix.command) for check, fix in found], new=is_snapshot)
    edits = tuple(edit for edit in changed.edits if is_snapshot(edit.path))
    if not edits:
        return [], [changed.note or "the tests' own tool wrote no snapshot anew"]
    runs = await trials.judged(edits, concerned)
    if isinstance(runs, str) or not all(trials.is_green(check, runs) for check in concerned):
        return [], ["the tests stay red with their snapshots written anew"]
    where = edits[0].path if len(edits) == 1 else f"{len(edits)} files"
    why = "The output differs from what was recorded, and the configuration allows to record it anew. Look whether it is meant."
    return [Candidate("tools", edits, f"records the snapshots anew in {where}", why, prior=0.3)], []


def is_about_snapshots(failure: Failure) -> bool:
    """Whether a failure tells of a recorded output."""
    return _SAYS_SO.search(f"{failure.message}\n{failure.details}") is not None


def _is_concerned(check: Check, failures: Sequence[Failure]) -> bool:
    told = [is_about_snapshots(failure) for failure in failures]
    return bool(told) and (all(told) if check.runs_tests else any(told))
