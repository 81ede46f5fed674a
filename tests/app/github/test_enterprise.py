"""GitHub Enterprise Server without subdomains: one origin, where a token must reach the API and nothing beside it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import AsyncIterator

import pytest

from app.github.client import GitHub
from app.github.errors import Unavailable
from app.github.repository import Repository
from app.github.types import PUBLISHING, READING, CheckOutput, CheckReport
from tests.app.github.test_github import NAME, QUICK, WORKFLOW, committed, ref
from tests.app.requests import failing
from tests.standins.github import GitHub as StandIn
from tests.standins.github.faults import Fault
from tests.standins.github.routing import Answer


@pytest.fixture
async def standin() -> AsyncIterator[StandIn]:
    async with StandIn(enterprise=True) as standin:
        await standin.create_repository(NAME, {"a.py": "x = 1\n", "pkg/b.py": "y = 1\n"})
        yield standin


@pytest.fixture
async def github(standin: StandIn) -> AsyncIterator[GitHub]:
    async with GitHub(standin.app_id, standin.private_key, api_url=standin.url, retry_policy=QUICK) as github:
        yield github


@pytest.fixture
def reader(standin: StandIn, github: GitHub) -> Repository:
    return github.repository(standin.installation("acme").id, ref(standin), READING)


async def test_a_log_and_an_archive_come_from_beside_the_api_without_our_token(standin: StandIn, reader: Repository) -> None:
    sha = await standin.push(NAME, "main", {".github/workflows/ci.yml": WORKFLOW}, "Add CI")
    await standin.settled()
    [run] = failing(await reader.runs(sha))
    assert run.url == f"{standin.world.site}/{NAME}/actions/runs/{run.id}"
    [job] = await reader.failed_jobs(run)
    assert "told-you-so" in await reader.job_log(job.id, 1_000_000)
    data = b"".join([chunk async for chunk in reader.archive(sha)])
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert {name.partition("/")[2] for name in tar.getnames()} >= {"a.py", "pkg/b.py"}
    log, archive = standin.downloads.served
    assert log.startswith("GET /_services/pipelines/")
    assert archive == f"GET /_codeload/{NAME}/legacy.tar.gz/{sha}"
    assert standin.downloads.leaks == []


async def test_large_files_are_asked_for_beside_the_api(standin: StandIn, reader: Repository) -> None:
    standin.large(NAME, b"weights")
    (oid,) = standin.repository(NAME).large
    links = await reader.large_files({oid: 7, "0" * 64: 1})
    assert list(links) == [oid], "GitHub does not have the other one"
    assert b"".join([chunk async for chunk in reader.large_file(oid, 7, links[oid])]) == b"weights"
    assert standin.downloads.served == [f"GET /alambic/media/{oid}"]
    assert standin.downloads.leaks == []


@pytest.mark.parametrize("location", ["{site}/_codeload/a", "/_services/a", "{site}/api/v3x/a", "{site}/"])
async def test_a_read_that_is_redirected_beside_the_api_is_not_followed(
    standin: StandIn, reader: Repository, location: str
) -> None:
    target = location.format(site=standin.world.site)
    standin.faults.waiting.append(Fault("GET", "*/git/ref/*", 1, "answer", answer=Answer.redirect(target)))
    with pytest.raises(Unavailable):
        await reader.branch_head("main")
    assert (standin.downloads.served, standin.downloads.leaks) == ([], [])


async def test_a_renamed_repository_is_followed_below_the_prefix(standin: StandIn, reader: Repository) -> None:
    target = f"{standin.url}/repos/{NAME}/git/ref/heads/main"
    standin.faults.waiting.append(Fault("GET", "*/git/ref/*", 1, "answer", answer=Answer.redirect(target)))
    assert await reader.branch_head("main") == (await standin.branches(NAME))["main"]


async def test_pages_of_a_listing_are_below_the_prefix(standin: StandIn, github: GitHub, reader: Repository) -> None:
    for number in range(3):
        await standin.push(NAME, f"topic-{number}", {"a.py": f"x = {number}\n"})
        await standin.open_pull(NAME, f"topic-{number}")
    await standin.settled()
    deliveries = standin.deliveries
    assert {delivery.headers["X-GitHub-Enterprise-Host"] for delivery in deliveries} == {standin.world.site.partition("//")[2]}
    found = [each async for each in github.deliveries(min(delivery.at for delivery in deliveries).replace(microsecond=0))]
    assert len(found) == len(deliveries)


async def test_a_repair_is_published_there(standin: StandIn, github: GitHub) -> None:
    writer = github.repository(standin.installation("acme").id, ref(standin), PUBLISHING)
    sha = await committed(writer)
    await writer.create_branch("selfheal/x", sha)
    pull = await writer.find_or_create_pull("selfheal/x", "main", "t", "b")
    assert pull.url == f"{standin.world.site}/{NAME}/pull/{pull.number}"
    await writer.find_or_create_comment(pull.number, "<!-- m -->", "hi <!-- m -->")
    await writer.report_check(CheckReport("Selfheal", sha, "a1", "completed", CheckOutput("t", "s"), "neutral"))
    assert [pull.head_sha for pull in standin.pull_requests(NAME)] == [sha]
