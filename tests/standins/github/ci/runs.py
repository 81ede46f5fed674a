"""Workflow runs, jobs and workflows as JSON, for REST and deliveries."""

from __future__ import annotations

from tests.standins.github.pulls import Pulls
from tests.standins.github.serialise import Serialiser, node_id, stamp
from tests.standins.github.state import Job, Json, Repository, Workflow, WorkflowRun


class Runs:
    def __init__(self, show: Serialiser, pulls: Pulls) -> None:
        self.show = show
        self.pulls = pulls

    def workflow(self, repository: Repository, workflow: Workflow) -> Json:
        return {
            "id": workflow.id,
            "node_id": node_id("Workflow", workflow.id),
            "name": workflow.name,
            "path": workflow.path,
            "state": "active",
            "created_at": stamp(workflow.created),
            "updated_at": stamp(workflow.created),
            "url": self.show.at(repository, f"/actions/workflows/{workflow.id}"),
            "html_url": self.show.html(repository, f"/blob/{repository.default_branch}/{workflow.path}"),
            "badge_url": self.show.html(repository, f"/workflows/{workflow.id}/badge.svg"),
        }

    async def run(self, repository: Repository, run: WorkflowRun) -> Json:
        url = self.show.at(repository, f"/actions/runs/{run.id}")
        commit = await repository.git.commit(run.head_sha)
        title = run.pull.title if run.pull is not None else commit.message.partition("\n")[0]
        return {
            "id": run.id,
            "name": run.workflow.name,
            "node_id": node_id("WorkflowRun", run.id),
            "head_branch": run.head_branch,
            "head_sha": run.head_sha,
            "path": run.workflow.path,
            "display_title": title,
            "run_number": run.number,
            "event": run.event,
            "status": run.status,
            "conclusion": run.conclusion,
            "workflow_id": run.workflow.id,
            "check_suite_id": run.suite.id,
            "check_suite_node_id": node_id("CheckSuite", run.suite.id),
            "url": url,
            "html_url": self.show.html(repository, f"/actions/runs/{run.id}"),
            "pull_requests": self.pulls.about(repository, run.head_sha),
            "created_at": stamp(run.created),
            "updated_at": stamp(run.updated),
            "actor": self.show.user(run.actor),
            # https://docs.github.com/rest/actions/workflow-runs#get-a-workflow-run: a rerun keeps `actor`
            "triggering_actor": self.show.user(run.rerun_by or run.actor),
            "run_attempt": run.attempt,
            "referenced_workflows": [],
            "run_started_at": stamp(run.started),
            "jobs_url": f"{url}/jobs",
            "logs_url": f"{url}/logs",
            "check_suite_url": self.show.at(repository, f"/check-suites/{run.suite.id}"),
            "artifacts_url": f"{url}/artifacts",
            "cancel_url": f"{url}/cancel",
            "rerun_url": f"{url}/rerun",
            "previous_attempt_url": f"{url}/attempts/{run.attempt - 1}" if run.attempt > 1 else None,
            "workflow_url": self.show.at(repository, f"/actions/workflows/{run.workflow.id}"),
            "head_commit": self.show.simple_commit(commit),
            "repository": self.show.minimal_repository(repository),
            "head_repository": self.show.minimal_repository(run.head_repository),
        }

    def job(self, repository: Repository, job: Job) -> Json:
        run = self.show.at(repository, f"/actions/runs/{job.run.id}")
        return {
            "id": job.id,
            "run_id": job.run.id,
            "workflow_name": job.run.workflow.name,
            "head_branch": job.run.head_branch,
            "run_url": run,
            "run_attempt": job.attempt,
            "node_id": node_id("Job", job.id),
            "head_sha": job.run.head_sha,
            "url": self.show.at(repository, f"/actions/jobs/{job.id}"),
            "html_url": self.show.html(repository, f"/actions/runs/{job.run.id}/job/{job.id}"),
            "status": job.status,
            "conclusion": job.conclusion,
            "created_at": stamp(job.created),
            "started_at": stamp(job.started),
            "completed_at": stamp(job.completed),
            "name": job.name,
            "steps": [
                {
                    "name": step.name,
                    "number": step.number,
                    "status": step.status,
                    "conclusion": step.conclusion,
                    "started_at": stamp(step.started),
                    "completed_at": stamp(step.completed),
                }
                for step in job.steps
            ],
            "check_run_url": self.show.at(repository, f"/check-runs/{job.check_run.id}"),
            "labels": job.labels,
            "runner_id": 1,
            "runner_name": "stand-in",
            "runner_group_id": 1,
            "runner_group_name": "GitHub Actions",
        }
