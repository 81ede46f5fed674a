"""The Actions runner: executes the `run` steps of a commit's workflows for real, in a fresh clone, without isolation.

Only for code that a test wrote itself. `uses:` steps other than a checkout and the set-up of Python are skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import os
import re
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from tests.standins.github.ci.checks import Checks
from tests.standins.github.ci.runs import Runs
from tests.standins.github.git.plumbing import ENVIRONMENT, git
from tests.standins.github.state import Account, Job, Json, PullRequest, Repository, Step, Workflow, WorkflowRun, now
from tests.standins.github.world import Push, World

#: A job that runs longer is killed; workflows may ask for less with `timeout-minutes`.
JOB_SECONDS = 300.0


class Runner:
    def __init__(self, world: World, checks: Checks, shapes: Runs) -> None:
        self.world = world
        self.checks = checks
        self.shapes = shapes
        self.enabled = True
        self._slots = asyncio.Semaphore(2)

    async def pushed(self, push: Push) -> None:
        if push.after is not None and self.enabled:
            await self._trigger(push.repository, "push", push.after, push.branch, push.actor, before=push.before)

    async def tagged(self, repository: Repository, tag: str, sha: str, actor: Account) -> None:
        """GitHub gives the tag's name as the `head_branch` of the runs."""
        if self.enabled:
            await self._trigger(repository, "push", sha, tag, actor, is_tag=True)

    async def pull_changed(self, repository: Repository, pull: PullRequest, action: str, actor: Account, before: str) -> None:
        if action in ("opened", "synchronize", "reopened") and self.enabled:
            await self._trigger(repository, "pull_request", pull.head_sha, pull.head_branch, actor, pull=pull)

    async def _trigger(
        self,
        repository: Repository,
        event: str,
        sha: str,
        branch: str,
        actor: Account,
        *,
        before: str | None = None,
        pull: PullRequest | None = None,
        is_tag: bool = False,
    ) -> None:
        # https://docs.github.com/actions/reference/workflows-and-actions/events-that-trigger-workflows#pull_request: the runs
        # test the merge of the pull request into its base; there are none while the two conflict.
        merge = None
        if pull is not None:
            base = await repository.git.ref(f"refs/heads/{pull.base_branch}") or pull.base_sha
            merge = await repository.git.merge(base, sha)
            if merge is None:
                return
            await repository.git.set_ref(f"refs/pull/{pull.number}/merge", merge)
        folder = await repository.git.entry(merge or sha, ".github/workflows")
        for entry in await repository.git.entries(folder.sha) if folder is not None and folder.kind == "tree" else []:
            if not entry.path.endswith((".yml", ".yaml")):
                continue
            path = f".github/workflows/{entry.path}"
            definition = yaml.safe_load(await repository.git.blob(entry.sha))
            if not isinstance(definition, dict) or not _listens(
                definition, event, pull.base_branch if pull else branch, "tags" if is_tag else "branches"
            ):
                continue
            workflow = repository.workflows.setdefault(
                path, Workflow(self.world.next_id(), str(definition.get("name", path)), path)
            )
            suite = self.checks.open_suite(repository, self.world.actions_app, sha, branch, before)
            number = 1 + sum(r.workflow is workflow for r in repository.runs.values())
            head = pull.head_repository if pull else repository
            run = WorkflowRun(self.world.next_id(), number, workflow, suite, event, head, branch, sha, actor, pull, merge)
            repository.runs[run.id] = run
            self._open_jobs(repository, run, definition)
            self.world.spawn(self._execute(repository, run, definition))

    def rerun_failed(self, repository: Repository, run: WorkflowRun, actor: Account | None = None) -> None:
        """Execute the failed jobs of a run once more, as its next attempt; `actor`: who asked, by default as before."""
        run.rerun_by = actor or run.rerun_by

        async def again() -> None:
            definition = yaml.safe_load(await repository.git.blob(f"{run.head_sha}:{run.workflow.path}"))
            await self._execute(repository, run, definition)

        failed = {job.key for job in run.jobs if job.attempt == run.attempt and job.conclusion != "success"}
        run.attempt += 1
        run.status, run.conclusion, run.started, run.updated = "queued", None, now(), now()
        for old in [job for job in run.jobs if job.attempt == run.attempt - 1 and job.key in failed]:
            check = self.checks.open_run(repository, run.suite, old.name)
            run.jobs.append(Job(self.world.next_id(), run, old.key, old.name, run.attempt, check, old.labels))
        self.world.spawn(again())

    def _open_jobs(self, repository: Repository, run: WorkflowRun, definition: Json) -> None:
        for key, wanted in definition.get("jobs", {}).items():
            name = str(wanted.get("name", key))
            label = wanted.get("runs-on", "ubuntu-latest")
            check = self.checks.open_run(repository, run.suite, name)
            labels = label if isinstance(label, list) else [str(label)]
            run.jobs.append(Job(self.world.next_id(), run, key, name, run.attempt, check, labels))

    async def _execute(self, repository: Repository, run: WorkflowRun, definition: Json) -> None:
        await self._tell(repository, run, "requested")
        run.status = run.suite.status = "in_progress"
        await self._tell(repository, run, "in_progress")
        async with self._slots:
            for job in [job for job in run.jobs if job.attempt == run.attempt]:
                await self._job(repository, job, definition)
        latest = {job.key: job.conclusion for job in run.jobs}
        worst = [c for c in ("failure", "cancelled") if c in latest.values()]
        run.status, run.conclusion, run.updated = "completed", worst[0] if worst else "success", now()
        await self.checks.complete_suite(repository, run.suite, run.conclusion, run.actor)
        await self._tell(repository, run, "completed")

    async def _tell(self, repository: Repository, run: WorkflowRun, action: str) -> None:
        payload = {
            "action": action,
            "workflow_run": await self.shapes.run(repository, run),
            "workflow": self.shapes.workflow(repository, run.workflow),
            "sender": self.checks.show.user(run.actor),
        }
        self.world.emit("workflow_run", payload, repository)

    async def _job(self, repository: Repository, job: Job, definition: Json) -> None:
        wanted = definition["jobs"][job.key]
        needs = wanted.get("needs", [])
        finished = {other.key: other.conclusion for other in job.run.jobs if other.key != job.key}
        job.started, job.status, job.check_run.status = now(), "in_progress", "in_progress"
        if any(finished.get(need) != "success" for need in ([needs] if isinstance(needs, str) else needs)):
            job.conclusion = "skipped"
        else:
            with tempfile.TemporaryDirectory(prefix="actions-") as folder:
                workspace = Path(folder, "work", repository.name, repository.name)
                Path(folder, "home").mkdir()
                log = _Log()
                minutes = float(wanted.get("timeout-minutes", JOB_SECONDS / 60))
                try:
                    async with asyncio.timeout(min(JOB_SECONDS, minutes * 60)):
                        job.conclusion = await self._steps(repository, job, definition, workspace, log)
                except TimeoutError:
                    log.line("##[error]The operation was canceled.")
                    job.conclusion = "cancelled"
                job.log = bytes(log.text)
        job.status, job.completed = "completed", now()
        self.checks.complete_run(repository, job.check_run, job.conclusion, job.run.actor)

    async def _steps(self, repository: Repository, job: Job, definition: Json, workspace: Path, log: _Log) -> str:
        wanted = definition["jobs"][job.key]
        defaults = _defaults(definition) | _defaults(wanted)
        base_env = _environment(repository, job, workspace) | _env(definition) | _env(wanted)
        failed = False
        workspace.mkdir(parents=True)
        for number, step in enumerate(wanted.get("steps", []), 1):
            shown = Step(number, str(step.get("name") or _title(step)), "in_progress", None, now())
            job.steps.append(shown)
            if not _wanted(step, failed):
                shown.conclusion = "skipped"
            elif "run" in step:
                settings = defaults | {k: step[k] for k in ("working-directory", "shell") if k in step}
                code = await _shell(str(step["run"]), workspace, base_env | _env(step), settings, log)
                shown.conclusion = "success" if code == 0 else "failure"
            elif str(step.get("uses", "")).startswith("actions/checkout@"):
                await _checkout(repository, job.run, workspace, log)
                shown.conclusion = "success"
            else:
                log.line(f"Skipping {step.get('uses')}: the stand-in has the interpreter of its own process")
                shown.conclusion = "success"
            failed = failed or (shown.conclusion == "failure" and not step.get("continue-on-error"))
            shown.status, shown.completed = "completed", now()
        return "failure" if failed else "success"


class _Log:
    """A job's log: every line with GitHub's timestamp in front."""

    def __init__(self) -> None:
        self.text = bytearray()

    def line(self, text: str) -> None:
        self.raw(text.encode())

    def raw(self, line: bytes) -> None:
        self.text += datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f0Z ").encode() + line.rstrip(b"\r\n") + b"\n"


def _listens(definition: dict[Any, Any], event: str, name: str, kind: str) -> bool:
    """Whether a push or pull request of this branch or tag starts the workflow; `kind`: "branches" or "tags".

    https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax#onpushbranchestagsbranches-ignoretags-ignore
    """
    # YAML 1.1 reads the key `on` as true.
    triggers = definition.get("on", definition.get(True, []))
    if isinstance(triggers, str):
        return triggers == event
    if event not in triggers:
        return False
    rules = (triggers.get(event) if isinstance(triggers, dict) else None) or {}
    wanted, ignored = rules.get(kind), rules.get(f"{kind}-ignore")
    if wanted is None and ignored is None:  # with rules for branches alone, a tag starts nothing, and the other way round
        return not any(key.startswith(("branches", "tags")) for key in rules)
    if wanted is not None:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted)
    return not any(fnmatch.fnmatchcase(name, pattern) for pattern in ignored)


def _defaults(level: Json) -> dict[str, str]:
    return dict((level.get("defaults") or {}).get("run") or {})


def _env(level: Json) -> dict[str, str]:
    shown = {True: "true", False: "false"}
    return {k: shown[v] if isinstance(v, bool) else str(v) for k, v in (level.get("env") or {}).items()}


def _title(step: Json) -> str:
    return f"Run {step.get('uses') or str(step.get('run', '')).strip().partition(chr(10))[0]}"


def _wanted(step: Json, failed: bool) -> bool:
    condition = re.sub(r"^\$\{\{\s*|\s*\}\}$", "", str(step.get("if", "success()"))).strip().lower()
    if condition in ("always()", "true", "!cancelled()"):
        return True
    return failed if condition == "failure()" else not failed and condition != "false"


def _environment(repository: Repository, job: Job, workspace: Path) -> dict[str, str]:
    run = job.run
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '/usr/bin:/bin')}",
        "HOME": str(workspace.parents[2] / "home"),
        "LANG": "C.UTF-8",
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": run.event,
        "GITHUB_REF": f"refs/pull/{run.pull.number}/merge" if run.pull else f"refs/heads/{run.head_branch}",
        "GITHUB_REF_NAME": f"{run.pull.number}/merge" if run.pull else run.head_branch,
        "GITHUB_REPOSITORY": repository.full_name,
        "GITHUB_RUN_ID": str(run.id),
        "GITHUB_SHA": run.merge_sha or run.head_sha,
        "GITHUB_WORKFLOW": run.workflow.name,
        "GITHUB_WORKSPACE": str(workspace),
        "RUNNER_OS": "Linux",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }


async def _checkout(repository: Repository, run: WorkflowRun, workspace: Path, log: _Log) -> None:
    sha = run.merge_sha or run.head_sha
    log.line("##[group]Run actions/checkout@v4")
    log.line("##[endgroup]")
    await git("clone", "--quiet", "--no-checkout", str(repository.git.path), str(workspace), cwd=repository.git.path)
    await git("checkout", "--quiet", "--detach", sha, cwd=workspace)
    subject = (await git("log", "-1", "--format=%s", cwd=workspace)).decode().strip()
    log.line("##[group]Checking out the ref")
    log.line(f"HEAD is now at {sha[:7]} {subject}")
    log.line("##[endgroup]")
    log.line("[command]/usr/bin/git log -1 --format=%H")
    log.line(sha)


async def _shell(script: str, workspace: Path, env: dict[str, str], settings: dict[str, str], log: _Log) -> int:
    """Run a step's script as GitHub does (`bash -e`), its output into the log; the whole process group dies with us."""
    first = script.strip().partition("\n")[0]
    log.line(f"##[group]Run {first}")
    for line in script.rstrip("\n").split("\n"):
        log.line(line)
    given = settings.get("shell")
    log.line(f"shell: /usr/bin/bash {'--noprofile --norc -eo pipefail' if given == 'bash' else '-e'} {{0}}")
    log.line("##[endgroup]")
    options = ["--noprofile", "--norc", "-eo", "pipefail"] if given == "bash" else ["-e"]
    folder = workspace / settings.get("working-directory", ".")
    if not folder.is_dir():
        log.line(f"##[error]An error occurred trying to start process '/usr/bin/bash' with working directory '{folder}'.")
        return 1
    process = await asyncio.create_subprocess_exec(
        "bash",
        *options,
        "-c",
        script,
        cwd=folder,
        env={**{k: v for k, v in ENVIRONMENT.items() if k.startswith("GIT_")}, **env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        limit=1 << 24,
    )
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            log.raw(line)
        code = await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if code != 0:
        log.line(f"##[error]Process completed with exit code {code}.")
    return code
