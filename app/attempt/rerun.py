"""Asks GitHub to rerun the failed jobs of a run: once, no matter who asks and how often a worker dies meanwhile.

The database records the request before it is made, and GitHub's own count of a run's attempts is checked too.
"""

from __future__ import annotations

from collections.abc import Iterable

from app.github import GitHub, GitHubError
from app.github.types import RERUNNING, WorkflowRun
from app.store.store import Store
from app.store.values import Attempt


async def rerun(attempt: Attempt, runs: Iterable[WorkflowRun], store: Store, github: GitHub) -> str:
    """A sentence for people on what was done. A refusal by GitHub is reported in it, not raised."""
    repository = github.repository(attempt.installation_id, attempt.repository, RERUNNING)
    sentences = []
    for run in runs:
        if run.attempt > 1:
            sentences.append(f"{run.name} was already rerun (attempt {run.attempt}); Selfheal does not rerun it again.")
        elif not await store.claim_rerun(attempt.id, attempt.repository.id, run.id):
            sentences.append(f"Selfheal has already asked GitHub to rerun the failed jobs of {run.name}.")
        else:
            try:
                await repository.rerun_failed_jobs(run.id)
            except GitHubError as error:
                sentences.append(f"The failed jobs of {run.name} could not be rerun: {error}.")
            else:
                sentences.append(f"Selfheal reran the failed jobs of {run.name} once.")
    return " ".join(sentences)
