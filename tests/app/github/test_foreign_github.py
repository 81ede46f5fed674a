"""What is published, on a GitHub that others imitate: `emulate`, which knows nothing of our own stand-in.

Known differences, each held here so that a newer version tells when it is gone:
- a comment does not say which App wrote it (`performed_via_github_app`), so ours is not found again;
- any key is taken for the App's, and an unknown installation gets a token that sees nothing;
- no reactions, logs, archives, runs that run, commit signatures: what needs them is tried on our stand-in alone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from agent.contract.proposal import FileChange
from app.github.client import GitHub
from app.github.errors import NotFound
from app.github.repository import Repository
from app.github.retries import RetryPolicy
from app.github.types import PUBLISHING, READING
from app.publish import publish
from app.publish.messages import Publication
from app.publish.publish import LABEL, Published
from tests.app.publish.test_publish import no_repair, repair
from tests.judges.node import judge_or_skip
from tests.standins.github.auth import private_pem
from tests.story.service import free_port
from webhooks.intake import RepositoryRef

pytestmark = pytest.mark.long
APP, INSTALLATION, NAME = 12345, 100, "acme/sample"
QUICK = RetryPolicy(tries=3, first_delay=0.02, longest_delay=0.05, longest_rate_limit=1, timeout=10, write_interval=0)
PERSON = {"Authorization": "Bearer a-persons-token"}


@pytest.fixture(scope="module")
def key() -> str:
    return private_pem()


@pytest.fixture
async def url(tmp_path: Path, key: str) -> AsyncIterator[str]:
    """The imitation, with one repository and our App on it."""
    judge = judge_or_skip("emulate")
    permissions = {name: str(access) for name, access in {**READING, **PUBLISHING}.items()}
    installed = {"installation_id": INSTALLATION, "account": "acme", "repository_selection": "all", "repositories": [NAME]}
    ours = {
        "app_id": APP, "slug": "selfheal", "name": "Selfheal", "private_key": key, "permissions": permissions,
        "events": ["workflow_run"], "webhook_url": "http://127.0.0.1:1/", "webhook_secret": "hush",
        "installations": [installed],
    }  # fmt: skip
    seed = {
        "tokens": {"a-persons-token": {"login": "person", "scopes": ["repo"]}},
        "github": {
            "users": [{"login": "person"}],
            "orgs": [{"login": "acme"}],
            "repos": [{"owner": "acme", "name": "sample", "auto_init": True, "default_branch": "main"}],
            "apps": [ours],
        },
    }
    (tmp_path / "seed.json").write_text(json.dumps(seed))
    port = free_port()
    program = judge.folder / "node_modules/emulate/dist/index.js"
    server = await asyncio.create_subprocess_exec(
        "node", str(program), "start", "-s", "github", "-p", str(port), "--seed", "seed.json",
        cwd=tmp_path, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    base = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient() as client, asyncio.timeout(60):
            while True:
                try:
                    await client.get(f"{base}/repos/{NAME}", headers=PERSON)
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.1)
        yield base
    finally:
        server.kill()
        await server.wait()


@pytest.fixture
async def github(url: str, key: str) -> AsyncIterator[GitHub]:
    async with GitHub(APP, key, api_url=url, retry_policy=QUICK) as github:
        yield github


@pytest.fixture
def repository(github: GitHub) -> Repository:
    return github.repository(INSTALLATION, RepositoryRef(1, NAME), PUBLISHING)


@pytest.fixture
async def publication(repository: Repository, url: str) -> Publication:
    """A person asked for a repair of what `main` holds, in an issue's comment."""
    async with httpx.AsyncClient(base_url=url, headers=PERSON) as person:
        issue = (await person.post(f"/repos/{NAME}/issues", json={"title": "CI is red"})).json()
    head = await repository.branch_head("main")
    assert head is not None
    return Publication(
        attempt_id="att-1", number=1, head_sha=head, head_branch="main", run_title="CI / tests",
        pull_number=issue["number"], by_command=True,
    )  # fmt: skip


async def seen(url: str, path: str) -> list[dict[str, object]]:
    """As a person sees it."""
    async with httpx.AsyncClient(base_url=url, headers=PERSON) as person:
        answer = (await person.get(f"/repos/{NAME}{path}")).json()
    return answer if isinstance(answer, list) else answer.get("check_runs", [answer])


CHANGE = repair(FileChange("README.md", "# sample\n", "# a sample\n"), FileChange("src/added.py", None, "x = 1\n"))


async def test_a_repair_is_published_there_too_and_only_once(
    url: str, repository: Repository, publication: Publication
) -> None:
    await publish.progress(publication, repository, "verify")
    published = await publish.pull_request(publication, CHANGE, repository)
    assert isinstance(published, Published)
    assert await publish.pull_request(publication, CHANGE, repository) == published

    assert await repository.file("README.md", published.branch) == b"# a sample\n"
    assert await repository.file("src/added.py", published.branch) == b"x = 1\n"
    commit = await repository.commit(await repository.branch_head(published.branch) or "")
    assert [parent.sha for parent in commit.parents] == [publication.head_sha]
    [pull] = await seen(url, "/pulls?state=all")
    assert (pull["number"], pull["draft"]) == (published.number, True)
    assert [label["name"] for label in await seen(url, f"/issues/{published.number}/labels")] == [LABEL]
    [check] = await seen(url, f"/commits/{publication.head_sha}/check-runs")
    assert (check["name"], check["conclusion"]) == ("Selfheal", "neutral")
    comments = await seen(url, f"/issues/{publication.pull_number}/comments")
    assert all(f"#{published.number}" in str(comment["body"]) for comment in comments)
    assert not any(comment.get("performed_via_github_app") for comment in comments), "the difference is gone"
    assert len(comments) == 2


async def test_an_end_without_a_repair_is_told_there_too(url: str, repository: Repository, publication: Publication) -> None:
    await publish.explanation(publication, no_repair(), repository)
    [check] = await seen(url, f"/commits/{publication.head_sha}/check-runs")
    assert check["status"] == "completed"
    assert await seen(url, "/pulls?state=all") == []


async def test_what_is_missing_there_is_understood(github: GitHub) -> None:
    with pytest.raises(NotFound):
        await github.repository(INSTALLATION, RepositoryRef(1, NAME)).commit("0" * 40)


async def test_an_installation_that_is_not_there_sees_nothing(github: GitHub) -> None:
    assert await github.repository(999, RepositoryRef(1, NAME)).branch_head("main") is None


async def test_its_tokens_are_given_to_any_key(url: str) -> None:
    async with GitHub(APP, private_pem(), api_url=url, retry_policy=QUICK) as stranger:
        assert await stranger.repository(INSTALLATION, RepositoryRef(1, NAME)).branch_head("main")
