"""What a person wants to see fail, in the words of the command line. Which job that is says `choosing`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person wants to see fail: options of the command line."""

    test: str | None = None  # a command, instead of a job

    workflow: str | None = None  # file below the checkout, or only its name
    job: str | None = None
    matrix: Mapping[str, str] = field(default_factory=dict)
    step: str | None = None  # the one that is red, as GitHub shows it

    @property
    def names_a_job(self) -> bool:
        return self.workflow is not None or self.job is not None or bool(self.matrix) or self.step is not None


class NoSuchJob(Exception):
    """What is wished for is not in the checkout; the message lists what is."""
