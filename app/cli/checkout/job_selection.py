"""The job selected on the command line; `workflow_jobs` finds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class JobSelection:
    """Command-line options that select a job."""

    test: str | None = None  # a command, instead of a job
    workflow: str | None = None  # path in the checkout, or only the file name
    job: str | None = None
    matrix: Mapping[str, str] = field(default_factory=dict)
    step: str | None = None  # the failing step, as GitHub shows it

    @property
    def names_a_job(self) -> bool:
        return self.workflow is not None or self.job is not None or bool(self.matrix) or self.step is not None


class NoSuchJob(Exception):
    """The checkout has no such job; the message lists the available ones."""
