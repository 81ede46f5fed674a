"""Selects tests to run again for tracing, search and the challenge, and builds the guest's request. Judges nothing."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from agent.checks.runner import prelude_of
from agent.contract.verdicts import Check, CheckRun, Oracle, VerdictId


def red_check(oracle: Oracle) -> Check | None:
    """The first failing check with Python tests. The gate judges the others."""
    return next((check for check in oracle.checks if check.is_python and oracle.must_turn.get(check.name)), None)


def run_of(check: Check, runs: Sequence[CheckRun]) -> CheckRun:
    """The run of `check`, or an empty one."""
    return next((run for run in runs if run.check == check.name), CheckRun(check.name, "finished", {}, (), 0.0))


def test_files(ids: Sequence[str], reader: str) -> list[str]:
    """The files of these tests, in order (pytest only)."""
    return list(dict.fromkeys(i.split("::")[0] for i in ids)) if reader == "pytest" else []


def guest_request(check: Check, oracle: Oracle, run: CheckRun, *, red: int | None, green: int) -> Mapping[str, Any]:
    """The guest's request to collect and run up to `red` failing tests (None: all) and up to `green` passing ones."""
    failing = sorted(oracle.must_turn[check.name], key=lambda i: (run.durations.get(i, 0.0), i))[:red]
    passing = _near(check, oracle, run, failing, green)
    return {
        **prelude_of(check),
        "reader": check.reader,
        "cwd": check.cwd,
        "args": test_files(failing, check.reader),
        "red": failing,
        "green": passing,
        # Seconds at the base, for tests that finished.
        "durations": {i: run.durations[i] for i in [*failing, *passing] if run.verdicts.get(i) and i in run.durations},
    }


def _near(check: Check, oracle: Oracle, run: CheckRun, red: Sequence[VerdictId], limit: int) -> list[VerdictId]:
    """Passing tests of the same files: fast ones first, then those with the most similar names."""
    files = set(test_files(red, check.reader)) or {i.rpartition(".")[0] for i in red}
    near = [
        i for i in oracle.must_stay.get(check.name, frozenset()) if i.split("::")[0] in files or i.rpartition(".")[0] in files
    ]
    return sorted(
        near, key=lambda i: (run.durations.get(i, 0.0) > 1.0, -max(len(posixpath.commonprefix([i, r])) for r in red), i)
    )[:limit]
