"""Reads missed coverage thresholds: pytest-cov, coverage.py, jest, vitest and nyc."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.ci.logs.model import Cause, ToolReport, failure

TOOL = "coverage"
_SIGNS = re.compile(
    r"^(?:(?:ERROR: |FAIL )(?:Required test coverage of|Coverage failure:)|Coverage failure: total of|"
    r"Jest: .{1,300} coverage threshold for .{1,80} not met|"
    r"ERROR: Coverage for .{1,80} does not meet (?:global )?threshold)"
)


def read(lines: Sequence[str]) -> tuple[ToolReport, ...]:
    found = next((line for line in lines if _SIGNS.match(line)), None)
    return (ToolReport(TOOL, Cause.TEST, found, (failure("coverage", found, TOOL),)),) if found else ()
