"""Check suites, check runs and commit statuses."""

from __future__ import annotations

from datetime import datetime

from tests.standins.github.pulls import Pulls
from tests.standins.github.repositories import commit_at
from tests.standins.github.routing import Answer, Call, Refusal, Routes, not_found
from tests.standins.github.serialise import Serialiser, node_id, stamp
from tests.standins.github.state import Account, App, CheckRun, CheckSuite, CommitStatus, Json, PullRequest, Repository, now
from tests.standins.github.world import Push, World

LONGEST_SUMMARY = 65_535


class Checks:
    """Shapes and changes of checks, used by the routes below and by the Actions runner."""

    def __init__(self, world: World, show: Serialiser, pulls: Pulls) -> None:
        self.world = world
        self.show = show
        self.pulls = pulls

    async def suite(self, repository: Repository, suite: CheckSuite) -> Json:
        url = self.show.at(repository, f"/check-suites/{suite.id}")
        return self._suite(repository, suite) | {
            "latest_check_runs_count": sum(run.suite is suite for run in repository.check_runs.values()),
            "check_runs_url": f"{url}/check-runs",
            "head_commit": self.show.simple_commit(await repository.git.commit(suite.head_sha)),
        }

    def _suite(self, repository: Repository, suite: CheckSuite) -> Json:
        return {
            "id": suite.id,
            "node_id": node_id("CheckSuite", suite.id),
            "head_branch": suite.head_branch,
            "head_sha": suite.head_sha,
            "status": suite.status,
            "conclusion": suite.conclusion,
            "url": self.show.at(repository, f"/check-suites/{suite.id}"),
            "before": suite.before,
            "after": suite.head_sha,
            "pull_requests": self.pulls.about(repository, suite.head_sha),
            "app": self.show.app(suite.app),
            "created_at": stamp(suite.created),
            "updated_at": stamp(suite.updated),
        }

    def run(self, repository: Repository, run: CheckRun, *, delivered: bool = False) -> Json:
        """A check run; the webhook's form carries its whole suite."""
        url = self.show.at(repository, f"/check-runs/{run.id}")
        output = {key: run.output.get(key) for key in ("title", "summary", "text")}
        annotations = len(run.output.get("annotations") or [])
        return {
            "id": run.id,
            "node_id": node_id("CheckRun", run.id),
            "head_sha": run.head_sha,
            "external_id": run.external_id,
            "url": url,
            "html_url": self.show.html(repository, f"/runs/{run.id}"),
            "details_url": run.details_url or self.show.html(repository, f"/runs/{run.id}"),
            "status": run.status,
            "conclusion": run.conclusion,
            "started_at": stamp(run.started),
            "completed_at": stamp(run.completed),
            "output": output | {"annotations_count": annotations, "annotations_url": f"{url}/annotations"},
            "name": run.name,
            "check_suite": self._suite(repository, run.suite) if delivered else {"id": run.suite.id},
            "app": self.show.app(run.suite.app),
            "pull_requests": self.pulls.about(repository, run.head_sha),
        }

    def open_suite(
        self, repository: Repository, app: App, sha: str, branch: str | None, before: str | None = None
    ) -> CheckSuite:
        suite = CheckSuite(self.world.next_id(), app, sha, branch, before)
        repository.suites[suite.id] = suite
        return suite

    async def pushed(self, push: Push) -> None:
        """Every push gets a check suite of each App that may write checks, unless the App has turned that off. It stays queued
        until the App makes a check run.

        https://docs.github.com/apps/creating-github-apps/registering-a-github-app/using-checks#about-check-suites
        """
        repository, app = push.repository, self.world.app
        installation = self.world.installation_of(repository)
        is_on = repository.automatic_suites.get(app.id, True)
        if push.after is None or not is_on or installation is None or installation.permissions.get("checks") != "write":
            return
        if not any(suite.app is app and suite.head_sha == push.after for suite in repository.suites.values()):
            self.open_suite(repository, app, push.after, push.branch, push.before)

    async def pull_changed(
        self, repository: Repository, pull: PullRequest, action: str, actor: Account, before: str
    ) -> None: ...

    def open_run(self, repository: Repository, suite: CheckSuite, name: str) -> CheckRun:
        run = CheckRun(self.world.next_id(), suite, name, suite.head_sha)
        repository.check_runs[run.id] = run
        return run

    def complete_run(self, repository: Repository, run: CheckRun, conclusion: str, actor: Account) -> None:
        run.status, run.conclusion, run.completed = "completed", conclusion, now()
        self.tell_run(repository, run, "completed", actor)

    async def complete_suite(self, repository: Repository, suite: CheckSuite, conclusion: str, actor: Account) -> None:
        suite.status, suite.conclusion, suite.updated = "completed", conclusion, now()
        await self.tell_suite(repository, suite, "completed", actor)

    async def tell_suite(self, repository: Repository, suite: CheckSuite, action: str, actor: Account) -> None:
        payload = {"action": action, "check_suite": await self.suite(repository, suite), "sender": self.show.user(actor)}
        self.world.emit("check_suite", payload, repository)

    async def report_status(
        self,
        repository: Repository,
        sha: str,
        context: str,
        state: str,
        description: str | None,
        target_url: str | None,
        creator: Account,
    ) -> CommitStatus:
        """A further status of a commit; https://docs.github.com/webhooks/webhook-events-and-payloads#status."""
        made = CommitStatus(self.world.next_id(), sha, state, context, description, target_url, creator)
        repository.statuses.append(made)
        commit = self.show.commit(repository, await repository.git.commit(sha))
        del commit["commit"]["verification"]["verified_at"]  # not described for webhooks
        heads = await repository.git.branches_with(sha)
        payload = {
            "id": made.id,
            "sha": sha,
            "name": repository.full_name,
            "target_url": target_url,
            "avatar_url": None,
            "context": context,
            "description": description,
            "state": state,
            "commit": commit,
            "branches": [
                {"name": name, "commit": {"sha": head, "url": self.show.at(repository, f"/commits/{head}")}, "protected": False}
                for name, head in list(heads.items())[:10]
            ],
            "created_at": stamp(made.created),
            "updated_at": stamp(made.created),
            "sender": self.show.user(creator),
        }
        self.world.emit("status", payload, repository)
        return made

    def tell_run(self, repository: Repository, run: CheckRun, action: str, actor: Account) -> None:
        payload = {
            "action": action,
            "check_run": self.run(repository, run, delivered=True),
            "sender": self.show.user(actor),
        }
        self.world.emit("check_run", payload, repository)


def routes(checks: Checks) -> Routes:
    table = Routes()
    base = "/repos/{owner}/{repo}"

    def run_of(call: Call) -> CheckRun:
        found = call.repository.check_runs.get(call.number("check_run_id"))
        if found is None:
            raise not_found()
        return found

    def check_size(wanted: Json) -> None:
        """Raises `Refusal` (422). Characters are counted first, then bytes: https://github.com/github/docs/issues/35252"""
        summary = (wanted.get("output") or {}).get("summary") or ""
        if len(summary) > LONGEST_SUMMARY:
            allowed = f"Only {LONGEST_SUMMARY} characters are allowed; {len(summary)} were supplied."
            raise Refusal(422, f"Invalid request.\n\n{allowed}")
        if len(summary.encode()) > LONGEST_SUMMARY:
            message = f"summary exceeds a maximum bytesize of {LONGEST_SUMMARY}"
            detail = {"resource": "CheckRun", "code": "custom", "field": "summary", "message": message}
            raise Refusal(422, "Validation Failed", [detail])

    async def change(call: Call, run: CheckRun, wanted: Json, *, created: bool) -> None:
        run.name = wanted.get("name", run.name)
        run.external_id = wanted.get("external_id", run.external_id)
        run.details_url = wanted.get("details_url", run.details_url)
        run.output = run.output | wanted.get("output", {})
        if wanted.get("started_at"):
            run.started = datetime.fromisoformat(wanted["started_at"])
        status = "completed" if wanted.get("conclusion") else wanted.get("status", run.status)
        if status == "completed" and not wanted.get("conclusion"):
            raise Refusal(422, "Invalid request.\n\nFor 'status' completed, 'conclusion' is required.")
        done = status == "completed" and run.status != "completed"
        run.status, run.suite.status = status, "completed" if status == "completed" else "in_progress"
        if created:
            checks.tell_run(call.repository, run, "created", call.account)
        if status == "completed":
            run.conclusion = wanted["conclusion"]
            run.completed = datetime.fromisoformat(wanted["completed_at"]) if wanted.get("completed_at") else now()
        if done:
            checks.tell_run(call.repository, run, "completed", call.account)
            siblings = [r for r in call.repository.check_runs.values() if r.suite is run.suite]
            if all(r.status == "completed" for r in siblings):
                await checks.complete_suite(call.repository, run.suite, str(run.conclusion), call.account)

    @table.post(f"{base}/check-runs", "checks:write")
    async def create(call: Call) -> Answer:
        if call.actor.installation is None:
            raise Refusal(403, "You must authenticate via a GitHub App.")
        wanted, repository = call.json(), call.repository
        check_size(wanted)
        sha = await repository.git.resolve(str(wanted.get("head_sha", "")))
        if sha is None:
            raise Refusal(422, f"No commit found for SHA: {wanted.get('head_sha')}")
        app = call.world.app
        suites = [s for s in repository.suites.values() if s.app is app and s.head_sha == sha]
        if not suites and not repository.automatic_suites.get(app.id, True):
            # The stricter reading of https://docs.github.com/rest/checks/suites#create-a-check-suite.
            raise not_found()
        suite = suites[0] if suites else checks.open_suite(repository, app, sha, None)
        run = checks.open_run(repository, suite, str(wanted.get("name", "")))
        await change(call, run, wanted, created=True)
        return Answer.of(checks.run(repository, run), 201)

    @table.patch(f"{base}/check-runs/{{check_run_id}}", "checks:write")
    async def update(call: Call) -> Answer:
        run = run_of(call)
        if run.suite.app is not call.world.app:
            raise Refusal(403, "Invalid app_id: this check run belongs to another GitHub App.")
        check_size(call.json())
        await change(call, run, call.json(), created=False)
        return Answer.of(checks.run(call.repository, run))

    @table.get(f"{base}/check-runs/{{check_run_id}}", "checks:read")
    async def get(call: Call) -> Answer:
        return Answer.of(checks.run(call.repository, run_of(call)))

    def matching(call: Call, runs: list[CheckRun]) -> Answer:
        name, status, app = call.query.get("check_name"), call.query.get("status"), call.query.get("app_id")
        found = [
            run
            for run in runs
            if name in (None, run.name) and status in (None, run.status) and app in (None, str(run.suite.app.id))
        ]
        if call.query.get("filter", "latest") == "latest":
            found = list({(run.suite.id, run.name): run for run in found}.values())
        return call.page([checks.run(call.repository, run) for run in found], "check_runs")

    @table.get(f"{base}/commits/{{ref*}}/check-runs", "checks:read")
    async def runs_of_commit(call: Call) -> Answer:
        sha = await commit_at(call.repository, call.params["ref"])
        return matching(call, [run for run in call.repository.check_runs.values() if run.head_sha == sha])

    @table.get(f"{base}/check-suites/{{check_suite_id}}/check-runs", "checks:read")
    async def runs_of_suite(call: Call) -> Answer:
        number = call.number("check_suite_id")
        return matching(call, [run for run in call.repository.check_runs.values() if run.suite.id == number])

    @table.get(f"{base}/commits/{{ref*}}/check-suites", "checks:read")
    async def suites_of_commit(call: Call) -> Answer:
        sha = await commit_at(call.repository, call.params["ref"])
        found = [suite for suite in call.repository.suites.values() if suite.head_sha == sha]
        return call.page(
            [_rest(await checks.suite(call.repository, s), checks, call.repository) for s in found], "check_suites"
        )

    @table.post(f"{base}/check-suites", "checks:write")
    async def create_suite(call: Call) -> Answer:
        repository, app = call.repository, call.world.app
        sha = await repository.git.resolve(str(call.json().get("head_sha", "")))
        if sha is None:
            raise Refusal(422, f"No commit found for SHA: {call.json().get('head_sha')}")
        known = next((s for s in repository.suites.values() if s.app is app and s.head_sha == sha), None)
        made = known or checks.open_suite(repository, app, sha, None)
        return Answer.of(_rest(await checks.suite(repository, made), checks, repository), 200 if known else 201)

    @table.patch(f"{base}/check-suites/preferences", "checks:write")
    async def preferences(call: Call) -> Answer:
        wanted = {each["app_id"]: each["setting"] for each in call.json().get("auto_trigger_checks", [])}
        call.repository.automatic_suites.update(wanted)
        shown = [{"app_id": number, "setting": setting} for number, setting in call.repository.automatic_suites.items()]
        preferences = {"auto_trigger_checks": shown}
        return Answer.of({"preferences": preferences, "repository": checks.show.minimal_repository(call.repository)})

    @table.get(f"{base}/check-suites/{{check_suite_id}}", "checks:read")
    async def suite(call: Call) -> Answer:
        found = call.repository.suites.get(call.number("check_suite_id"))
        if found is None:
            raise not_found()
        return Answer.of(_rest(await checks.suite(call.repository, found), checks, call.repository))

    @table.post(f"{base}/statuses/{{sha}}", "statuses:write")
    async def create_status(call: Call) -> Answer:
        wanted, sha = call.json(), await call.repository.git.resolve(call.params["sha"])
        if sha is None:
            raise Refusal(422, f"No commit found for SHA: {call.params['sha']}")
        context, state = wanted.get("context") or "default", str(wanted.get("state", ""))
        description, target = wanted.get("description"), wanted.get("target_url")
        made = await checks.report_status(call.repository, sha, context, state, description, target, call.account)
        return Answer.of(_status(checks.show, call.repository, made), 201)

    @table.get(f"{base}/commits/{{ref*}}/statuses", "statuses:read")
    async def statuses(call: Call) -> Answer:
        sha = await commit_at(call.repository, call.params["ref"])
        found = [s for s in reversed(call.repository.statuses) if s.sha == sha]
        return call.page([_status(checks.show, call.repository, status) for status in found])

    @table.get(f"{base}/commits/{{ref*}}/status", "statuses:read")
    async def combined(call: Call) -> Answer:
        repository, show = call.repository, checks.show
        sha = await commit_at(repository, call.params["ref"])
        latest = {s.context: s for s in repository.statuses if s.sha == sha}
        states = {s.state for s in latest.values()}
        state = "failure" if states & {"failure", "error"} else "pending" if states != {"success"} else "success"
        answer = call.page([_status(show, repository, s) for s in latest.values()], "statuses")
        shown = answer.json() | {
            "state": state,
            "sha": sha,
            "repository": show.minimal_repository(repository),
            "commit_url": show.at(repository, f"/commits/{sha}"),
            "url": show.at(repository, f"/commits/{sha}/status"),
        }
        return Answer.of(shown, link=answer.headers["link"]) if "link" in answer.headers else Answer.of(shown)

    return table


def _rest(suite: Json, checks: Checks, repository: Repository) -> Json:
    return suite | {"repository": checks.show.minimal_repository(repository)}


def _status(show: Serialiser, repository: Repository, status: CommitStatus) -> Json:
    return {
        "id": status.id,
        "node_id": node_id("StatusContext", status.id),
        "url": show.at(repository, f"/statuses/{status.sha}"),
        "avatar_url": None,
        "state": status.state,
        "context": status.context,
        "description": status.description,
        "target_url": status.target_url,
        "creator": show.user(status.creator),
        "created_at": stamp(status.created),
        "updated_at": stamp(status.created),
    }
