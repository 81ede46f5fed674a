"""Has GitHub run the failed jobs of a run again: once, whoever asks and however often a worker dies on the way.

The database notes it before GitHub is asked, and GitHub's own count of a run's attempts counts too.
"""

from __future__ import annotations

from collections.abc import Iterable

from app.github import GitHub, GitHubError
from app.github.types import RERUNNING, WorkflowRun
from app.store.store import Store
from app.store.values import Attempt


async def rerun(attempt: Attempt, runs: Iterable[WorkflowRun], store: Store, github: GitHub) -> str:
    """A sentence for people on what was done. What GitHub refuses is told, and fails nothing."""
    repository = github.repository(attempt.installation_id, attempt.repository, RERUNNING)
    said = []
    for run in runs:
        if run.attempt > 1:
            said.append(f"{run.name} has been run again before (attempt {run.attempt}), so Selfheal does not ask for more.")
        elif not await store.claim_rerun(attempt.id, attempt.repository.id, run.id):
            said.append(f"GitHub was asked before to run the failed jobs of {run.name} again; Selfheal asks once.")
        else:
            try:
                await repository.rerun_failed_jobs(run.id)
            except GitHubError as error:
                said.append(f"The failed jobs of {run.name} could not be started again: {error}.")
            else:
                said.append(f"Selfheal has started the failed jobs of {run.name} again, this once.")
    return " ".join(said)
