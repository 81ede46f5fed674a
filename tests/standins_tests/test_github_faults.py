"""Faults, permissions, git over HTTP, redelivery and the judges of the GitHub stand-in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from githubkit import AppAuthStrategy
from githubkit import GitHub as Client

from tests import data
from tests.standins.github import GitHub, Violations
from tests.standins.sockets import listening

PULLS = "/repos/acme/sample/pulls"


@pytest.fixture
async def github() -> AsyncIterator[GitHub]:
    async with GitHub() as github:
        await github.create_repository("acme/sample", {"a.py": "x = 1\n"})
        await github.push("acme/sample", "topic", {"a.py": "x = 2\n"})
        yield github


async def caller(github: GitHub, permissions: dict[str, str] | None = None) -> httpx.AsyncClient:
    """A bare client with an installation token, so that nothing is retried or cached behind the test's back."""
    app = Client(AppAuthStrategy(str(github.app_id), github.private_key), base_url=github.url)
    installation = github.installation("acme").id
    wanted = {"permissions": permissions} if permissions else {}
    made = await app.rest.apps.async_create_installation_access_token(installation, **wanted)  # type: ignore[arg-type]
    return httpx.AsyncClient(base_url=github.url, headers={"authorization": f"Bearer {made.json()['token']}"}, trust_env=False)


async def open_pull(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post(PULLS, json={"title": "t", "head": "topic", "base": "main"})


async def test_a_second_pull_request_or_ref_is_refused(github: GitHub) -> None:
    async with await caller(github) as client:
        assert (await open_pull(client)).status_code == 201
        again = await open_pull(client)
        assert again.status_code == 422
        assert "A pull request already exists for acme:topic" in again.text
        sha = (await github.branches("acme/sample"))["topic"]
        ref = await client.post("/repos/acme/sample/git/refs", json={"ref": "refs/heads/topic", "sha": sha})
        assert (ref.status_code, ref.json()["message"]) == (422, "Reference already exists")
        assert (await client.get("/repos/acme/nothing")).status_code == 404


async def test_a_narrow_token_may_not_do_more(github: GitHub) -> None:
    async with await caller(github, {"contents": "read"}) as client:
        assert (await client.get("/repos/acme/sample/branches/topic")).status_code == 200
        refused = await open_pull(client)
    assert (refused.status_code, refused.json()["message"]) == (403, "Resource not accessible by integration")


async def test_expired_tokens_are_refused_and_values_never_reused(github: GitHub) -> None:
    async with await caller(github) as client:
        github.expire_tokens()
        assert (await client.get("/installation/repositories")).status_code == 401
    async with await caller(github) as fresh:
        assert (await fresh.get("/installation/repositories")).json()["total_count"] == 1
    assert len(github.tokens.known) == 2


async def test_a_lost_answer_leaves_the_write_done(github: GitHub) -> None:
    github.faults.status("POST", "/repos/*/pulls", 502, applied=True)
    github.faults.reset("GET", "/repos/*/pulls")
    github.faults.secondary_limit("GET", "/repos/*/branches", retry_after=3)
    async with await caller(github) as client:
        assert (await open_pull(client)).status_code == 502
        assert len(github.pull_requests("acme/sample")) == 1
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await client.get(PULLS)
        assert len((await client.get(PULLS)).json()) == 1
        limited = await client.get("/repos/acme/sample/branches")
        assert (limited.status_code, limited.headers["retry-after"]) == (403, "3")
        assert (await client.get("/repos/acme/sample/branches")).status_code == 200
    assert f"GET {PULLS} > reset" in github.requests


async def test_a_lagging_read_hides_what_was_just_written_once(github: GitHub) -> None:
    github.faults.lag("POST /repos/*/pulls", "/repos/*/pulls")
    async with await caller(github) as client:
        await open_pull(client)
        assert (await client.get(PULLS)).json() == []
        assert len((await client.get(PULLS)).json()) == 1


async def test_a_hook_runs_between_the_write_and_its_answer(github: GitHub) -> None:
    seen: list[int] = []
    github.faults.on("POST", "/repos/*/pulls", lambda method, path: seen.append(len(github.pull_requests("acme/sample"))))
    async with await caller(github) as client:
        await open_pull(client)
    assert seen == [1]


async def test_clone_and_push_over_http_are_the_same_repository(github: GitHub, tmp_path: Path) -> None:
    github.add_collaborator("acme/sample", "alice", "write")
    host = github.url.removeprefix("http://")

    async def git(*args: str) -> int:
        process = await asyncio.create_subprocess_exec("git", *args, cwd=tmp_path, stderr=asyncio.subprocess.DEVNULL)
        return await process.wait()

    async with await caller(github, {"contents": "read"}) as client:
        reader = client.headers["authorization"].split()[1]
    token = github.user_token("alice")
    assert await git("clone", "-q", f"http://x-access-token:{token}@{host}/acme/sample.git", "c") == 0
    (tmp_path / "c" / "b.py").write_text("y = 1\n" * 50_000)
    who = ["-c", "user.name=alice", "-c", "user.email=alice@example.com", "-C", "c"]
    assert await git(*who, "add", ".") == 0
    assert await git(*who, "commit", "-qm", "more") == 0
    assert await git(*who, "push", "-q", f"http://x-access-token:{reader}@{host}/acme/sample.git", "HEAD:main") != 0
    assert await git(*who, "push", "-q", "origin", "HEAD:main") == 0
    async with await caller(github) as client:
        file = await client.get("/repos/acme/sample/contents/b.py", headers={"accept": "application/vnd.github.raw+json"})
    assert file.text == "y = 1\n" * 50_000


async def test_a_redelivery_keeps_its_guid_and_the_log_knows_the_receivers_status(github: GitHub) -> None:
    taken: list[str] = []

    async def receiver(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        headers = dict(scope["headers"])
        taken.append(headers[b"x-github-delivery"].decode())
        status = 503 if len(taken) == 1 else 202
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with listening(receiver) as port:
        github.deliver_to(f"http://127.0.0.1:{port}/webhooks/github")
        issue = await github.open_issue("acme/sample", "A bug")
        await github.comment("acme/sample", issue.number, "bob", "/heal")
        await github.settled()
        app = Client(AppAuthStrategy(str(github.app_id), github.private_key), base_url=github.url)
        items = (await app.rest.apps.async_list_webhook_deliveries()).parsed_data
        assert [(item.event, item.status_code) for item in items] == [("issue_comment", 503)]
        await app.rest.apps.async_redeliver_webhook_delivery(items[0].id)
        await github.settled()
    assert taken == [taken[0]] * 2
    assert [(d.redelivery, d.status_code) for d in github.deliveries] == [(False, 503), (True, 202)]


async def test_installation_events_fit_the_schema(github: GitHub) -> None:
    github.tell_installation("acme")
    github.tell_repositories("acme", ["acme/sample"])
    github.tell_installation("acme", "suspend")
    github.tell_installation("acme", "unsuspend")
    github.tell_installation("acme", "deleted")
    assert [d.action for d in github.deliveries][-5:] == ["created", "added", "suspend", "unsuspend", "deleted"]


async def test_a_request_without_a_route_is_a_violation() -> None:
    github = GitHub()
    await github.start()
    async with httpx.AsyncClient(base_url=github.url, trust_env=False) as client:
        assert (await client.get("/repos/acme/sample/secret-scanning/alerts")).status_code == 404
    await github.stop()
    with pytest.raises(Violations, match="no route for GET /repos/acme/sample/secret-scanning/alerts"):
        github.raise_violations()


@pytest.mark.optional(reason="needs GitHub's public descriptions")
async def test_the_judges_notice_wrong_requests_answers_and_deliveries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (data.OPENAPI, data.WEBHOOK_SCHEMA):
        try:
            data.find(name)
        except data.DataMissing as missing:
            pytest.skip(str(missing))
    github = GitHub()
    await github.start()
    await github.create_repository("acme/sample", {"a.py": "x = 1\n"})
    async with await caller(github) as client:
        await client.get("/repos/acme/sample/branches?colour=red")
        await client.post("/repos/acme/sample/labels", json={"name": "l", "shade": "dark"})
        assert [v.partition(": ")[2] for v in github.violations] == [
            "query colour is not described",
            "request: unknown field shade",
        ]
        monkeypatch.setattr("tests.standins.github.serialise.Serialiser.full_repository", lambda *_: {"id": "one"})
        await client.get("/repos/acme/sample")
        assert any(v.startswith("GET /repos/acme/sample > 200: answer ") for v in github.violations)
    github.world.emit("issue_comment", {"action": "created"}, github.repository("acme/sample"))
    assert any(v.startswith("delivery issue_comment") for v in github.violations)
    await github.stop()
    with pytest.raises(Violations):
        github.raise_violations()
