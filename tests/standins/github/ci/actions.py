"""Workflow runs, their jobs and logs over REST; what executes them is in `runner.py`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from tests.standins.github.ci.runner import Runner
from tests.standins.github.ci.runs import Runs
from tests.standins.github.downloads import Downloads
from tests.standins.github.routing import Answer, Call, Refusal, Routes, not_found
from tests.standins.github.state import Job, Workflow, WorkflowRun


def routes(shapes: Runs, runner: Runner, downloads: Downloads) -> Routes:
    table = Routes()
    base = "/repos/{owner}/{repo}/actions"

    def run_of(call: Call) -> WorkflowRun:
        found = call.repository.runs.get(call.number("run_id"))
        if found is None:
            raise not_found()
        return found

    def job_of(call: Call) -> Job:
        number = call.number("job_id")
        for run in call.repository.runs.values():
            for job in run.jobs:
                if job.id == number:
                    return job
        raise not_found()

    def workflow_of(call: Call) -> Workflow:
        """By its id, or by the name of its file."""
        wanted = call.params["workflow_id"]
        for found in call.repository.workflows.values():
            if wanted in (str(found.id), found.path.rsplit("/", 1)[-1]):
                return found
        raise not_found()

    async def listed(call: Call, runs: Iterable[WorkflowRun]) -> Answer:
        """Those that the query asks for, newest first."""
        wanted = call.query
        found = [
            run
            for run in runs
            if wanted.get("branch") in (None, run.head_branch)
            and wanted.get("event") in (None, run.event)
            and wanted.get("head_sha") in (None, run.head_sha)
            and wanted.get("status") in (None, run.status, run.conclusion)
            and wanted.get("check_suite_id") in (None, str(run.suite.id))
            and wanted.get("actor") in (None, run.actor.login)
            and _is_within(run.created, wanted.get("created"))
        ]
        shown = [await shapes.run(call.repository, run) for run in found]
        if wanted.get("exclude_pull_requests") == "true":
            shown = [run | {"pull_requests": []} for run in shown]
        return call.page(shown, "workflow_runs")

    @table.get(f"{base}/runs", "actions:read")
    async def runs(call: Call) -> Answer:
        return await listed(call, reversed(call.repository.runs.values()))

    @table.get(f"{base}/workflows/{{workflow_id}}/runs", "actions:read")
    async def workflow_runs(call: Call) -> Answer:
        workflow = workflow_of(call)
        return await listed(call, (run for run in reversed(call.repository.runs.values()) if run.workflow is workflow))

    @table.get(f"{base}/runs/{{run_id}}", "actions:read")
    async def run(call: Call) -> Answer:
        return Answer.of(await shapes.run(call.repository, run_of(call)))

    @table.get(f"{base}/runs/{{run_id}}/jobs", "actions:read")
    async def jobs(call: Call) -> Answer:
        found = run_of(call).jobs
        if call.query.get("filter", "latest") == "latest":
            found = list({job.key: job for job in found}.values())
        return call.page([shapes.job(call.repository, job) for job in found], "jobs")

    @table.get(f"{base}/jobs/{{job_id}}", "actions:read")
    async def job(call: Call) -> Answer:
        return Answer.of(shapes.job(call.repository, job_of(call)))

    @table.get(f"{base}/jobs/{{job_id}}/logs", "actions:read")
    async def logs(call: Call) -> Answer:
        found = job_of(call)
        if found.status != "completed":
            raise not_found()
        return Answer.redirect(downloads.log(f"job-{found.id}", found.log))

    @table.post(f"{base}/runs/{{run_id}}/rerun-failed-jobs", "actions:write")
    async def rerun(call: Call) -> Answer:
        found = run_of(call)
        if found.status != "completed":
            raise Refusal(403, "This workflow is already running")
        runner.rerun_failed(call.repository, found, call.account)
        return Answer.of({}, 201)

    @table.get(f"{base}/workflows/{{workflow_id}}", "actions:read")
    async def workflow(call: Call) -> Answer:
        return Answer.of(shapes.workflow(call.repository, workflow_of(call)))

    return table


def _is_within(created: datetime, asked: str | None) -> bool:
    """`created` is in the syntax of GitHub's search; only ">=2026-01-31T12:00:00Z" is known here. A rerun keeps a run's time.

    https://docs.github.com/rest/actions/workflow-runs#list-workflow-runs-for-a-repository
    https://docs.github.com/search-github/getting-started-with-searching-on-github/understanding-the-search-syntax#query-for-dates
    """
    if asked is None:
        return True
    if not asked.startswith(">="):
        raise NotImplementedError(f"created={asked}")
    return created >= datetime.fromisoformat(asked.removeprefix(">="))
