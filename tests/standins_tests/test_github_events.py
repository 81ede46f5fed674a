"""Runs, forks, imports and every remaining route, under the judges."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from githubkit import AppAuthStrategy
from githubkit import GitHub as Client

from tests.standins.github import GitHub

WORKFLOW = """\
name: CI
on: {push: {branches: [main]}, pull_request: {}}
env: {GREETING: hello}
defaults: {run: {working-directory: src}}
jobs:
  tests:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - name: Say it
        run: |
          echo "$GREETING $NAME"
          cat value
        env: {NAME: world}
      - run: test "$(cat value)" = good
      - run: echo never
      - if: failure()
        run: echo mourning
  after:
    needs: tests
    runs-on: ubuntu-latest
    steps: [{run: echo after, working-directory: .}]
"""
FILES = {".github/workflows/ci.yml": WORKFLOW, "src/value": "good\n"}
AT = "/repos/acme/sample"


@pytest.fixture
async def github() -> AsyncIterator[GitHub]:
    async with GitHub() as github:
        await github.create_repository("acme/sample", FILES)
        yield github


async def caller(github: GitHub) -> httpx.AsyncClient:
    app = Client(AppAuthStrategy(str(github.app_id), github.private_key), base_url=github.url)
    made = await app.rest.apps.async_create_installation_access_token(github.installation("acme").id)
    headers = {"authorization": f"Bearer {made.json()['token']}"}
    return httpx.AsyncClient(base_url=github.url, headers=headers, trust_env=False)


async def test_steps_run_with_their_environment_and_stop_at_the_first_failure(github: GitHub) -> None:
    await github.push("acme/sample", "main", {"src/value": "bad\n"})
    await github.settled()
    run = github.runs("acme/sample")[0]
    assert (run.conclusion, [(j.key, j.conclusion) for j in run.jobs]) == (
        "failure",
        [("tests", "failure"), ("after", "skipped")],
    )
    assert [s.conclusion for s in run.jobs[0].steps] == ["success", "success", "failure", "skipped", "success"]
    log = run.jobs[0].log.decode()
    assert "Z hello world\n" in log
    assert "Z mourning\n" in log
    assert "Z never\n" not in log
    events = [(d.event, d.action) for d in github.deliveries]
    assert events[-1] == ("workflow_run", "completed")
    assert ("check_run", "completed") in events
    assert ("check_suite", "completed") in events


async def test_a_rerun_is_the_next_attempt_of_the_same_run(github: GitHub) -> None:
    await github.push("acme/sample", "main", {"src/value": "bad\n"})
    await github.settled()
    run = github.runs("acme/sample")[0]
    async with await caller(github) as client:
        assert (await client.post(f"{AT}/actions/runs/{run.id}/rerun-failed-jobs")).status_code == 201
        await github.settled()
        jobs = (await client.get(f"{AT}/actions/runs/{run.id}/jobs")).json()["jobs"]
    assert (run.attempt, run.conclusion, len(github.runs("acme/sample"))) == (2, "failure", 1)
    assert {job["run_attempt"] for job in jobs} == {2}


async def test_a_pull_request_from_a_fork_runs_with_the_forks_head(github: GitHub) -> None:
    await github.fork("acme/sample", "mallory")
    await github.push("mallory/sample", "topic", {"src/value": "bad\n"}, author="mallory")
    pull = await github.open_pull("acme/sample", "mallory:topic", login="mallory")
    await github.settled()
    completed = [d.payload for d in github.deliveries if (d.event, d.action) == ("workflow_run", "completed")]
    run = completed[0]["workflow_run"]
    assert (run["event"], run["conclusion"]) == ("pull_request", "failure")
    assert (run["head_repository"]["full_name"], run["repository"]["full_name"]) == ("mallory/sample", "acme/sample")
    assert run["pull_requests"] == []
    await github.push("mallory/sample", "topic", {"src/value": "good\n"}, author="mallory")
    await github.settled()
    assert [d.action for d in github.deliveries if d.event == "pull_request"] == ["opened", "synchronize"]
    assert [r.conclusion for r in github.runs("acme/sample")] == ["failure", "success"]
    await github.close_pull("acme/sample", pull.number)
    assert github.pull_requests("acme/sample") == []


async def test_a_local_checkout_can_be_imported(github: GitHub, tmp_path: Path) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    (tmp_path / "a.py").write_text("x = 1\n")
    for args in (["init", "-qb", "trunk"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *args], cwd=tmp_path, check=True)
    made = await github.import_repository("acme/imported", tmp_path)
    assert made.default_branch == "trunk"
    assert await github.file("acme/imported", "a.py", "trunk") == b"x = 1\n"


@pytest.mark.long
async def test_every_other_route_answers_as_described(github: GitHub) -> None:
    github.add_collaborator("acme/sample", "alice")
    sha = await github.push("acme/sample", "main", {"src/value": "bad\n"}, author="alice")
    await github.push("acme/sample", "feature/x", {"src/value": "worse\n"}, author="alice")
    pull = await github.open_pull("acme/sample", "feature/x")
    comment = await github.comment("acme/sample", pull.number, "alice", "/heal")
    await github.settled()
    run = github.runs("acme/sample")[0]
    app = Client(AppAuthStrategy(str(github.app_id), github.private_key), base_url=github.url)
    installation = github.installation("acme").id
    await app.rest.apps.async_get_authenticated()
    await app.rest.apps.async_list_installations()
    await app.rest.apps.async_get_installation(installation)
    await app.rest.apps.async_get_repo_installation("acme", "sample")
    await app.rest.apps.async_get_webhook_delivery(github.deliveries[0].id)
    async with await caller(github) as client:
        writes = [
            ("POST", f"/statuses/{sha}", {"state": "failure", "context": "other-ci", "description": "d"}),
            ("POST", "/labels", {"name": "selfheal", "color": "00ff00"}),
            ("POST", f"/issues/{pull.number}/labels", {"labels": ["selfheal"]}),
            ("POST", f"/issues/{pull.number}/reactions", {"content": "rocket"}),
            ("POST", f"/issues/comments/{comment.id}/reactions", {"content": "eyes"}),
            ("POST", f"/issues/comments/{comment.id}/reactions", {"content": "eyes"}),
            ("PATCH", f"/issues/comments/{comment.id}", {"body": "/heal again"}),
            ("PATCH", f"/pulls/{pull.number}", {"title": "New title"}),
            ("POST", "/git/refs", {"ref": "refs/heads/other", "sha": sha}),
            ("PATCH", "/git/refs/heads/other", {"sha": (await github.branches("acme/sample"))["feature/x"], "force": True}),
            ("DELETE", "/git/refs/heads/other", None),
        ]
        for method, path, body in writes:
            answer = await client.request(method, AT + path, json=body) if body else await client.request(method, AT + path)
            assert answer.status_code < 300, (method, path, answer.text)
        tree = (await client.get(f"{AT}/git/commits/{sha}")).json()["tree"]["sha"]
        listed = (await client.get(f"{AT}/git/trees/{tree}?recursive=1")).json()["tree"]
        blob = next(entry["sha"] for entry in listed if entry["type"] == "blob")
        check = github.check_runs("acme/sample", by_app=False)[0]
        reads = [
            "",
            "/contents/",
            "/contents/src",
            "/contents/src/value?ref=feature/x",
            "/branches",
            "/branches/feature/x",
            "/commits",
            f"/commits/{sha}",
            "/commits/feature/x",
            "/compare/main...feature/x",
            "/collaborators/alice/permission",
            "/git/ref/heads/feature/x",
            "/git/matching-refs/heads/feat",
            f"/git/blobs/{blob}",
            "/actions/runs?branch=main&status=failure",
            f"/actions/runs/{run.id}",
            f"/actions/jobs/{run.jobs[0].id}",
            f"/actions/workflows/{run.workflow.id}",
            f"/check-runs/{check.id}",
            f"/check-suites/{check.suite.id}",
            f"/check-suites/{check.suite.id}/check-runs",
            f"/commits/{sha}/check-runs?check_name=tests",
            f"/commits/{sha}/check-suites",
            f"/commits/{sha}/status",
            f"/commits/{sha}/statuses",
            "/pulls?head=acme:feature/x&base=main&state=all&per_page=1",
            f"/pulls/{pull.number}",
            f"/pulls/{pull.number}/files",
            f"/issues/{pull.number}",
            f"/issues/{pull.number}/comments",
            f"/issues/comments/{comment.id}",
            f"/issues/{pull.number}/reactions",
            f"/issues/comments/{comment.id}/reactions",
            f"/issues/{pull.number}/labels",
            "/labels",
        ]
        for path in reads:
            answer = await client.get(AT + path)
            assert answer.status_code == 200, (path, answer.text)
        assert (await client.get("/users/selfheal%5Bbot%5D")).json()["type"] == "Bot"
        assert (await client.get("/installation/repositories")).json()["total_count"] == 1
        etag = (await client.get(AT)).headers["etag"]
        assert (await client.get(AT, headers={"if-none-match": etag})).status_code == 304
        async with await caller(github) as another:
            answer = await another.get(AT, headers={"if-none-match": etag})
            assert answer.status_code == 200, "an ETag is for one token, also of the same installation"
            assert "Authorization" in answer.headers["vary"]
        first = await client.get(f"{AT}/branches?per_page=1")
        assert first.links["next"]["url"].endswith("per_page=1&page=2")
    await github.close_pull("acme/sample", pull.number, merged=True)
    await github.settled()
    assert await github.file("acme/sample", "src/value", "main") == b"worse\n"
