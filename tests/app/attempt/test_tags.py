"""The newest version tag is looked for where a workflow fetches tags, and only there."""

from __future__ import annotations

import pytest

from app.attempt.tags import newest_tag
from app.github.client import GitHub
from app.github.retries import RetryPolicy
from app.github.types import READING
from tests.standins import github as standin
from webhooks.intake import RepositoryRef

NAME = "acme/kettle"
WHOLE = b"steps:\n- uses: actions/checkout@v4\n  with:\n    fetch-depth: 0\n"


@pytest.mark.parametrize(
    ("workflow", "names", "newest"),
    [
        (WHOLE, ("v1.9", "v1.10", "v1.2"), "v1.10"),
        (WHOLE, ("kettle-2.0.1", "1.0", "nightly", "v3.0.0rc1.broken", "deploy-2026-01-02-x"), "kettle-2.0.1"),
        (WHOLE, ("latest",), ""),
        (b"steps:\n- uses: actions/checkout@v4\n", ("v1.9",), ""),
        (b"jobs:\n  tests:\n    uses: ./.github/workflows/tests.yml\n", ("v1.9",), "v1.9"),
    ],
)
async def test_the_highest_version_among_the_tags(workflow: bytes, names: tuple[str, ...], newest: str) -> None:
    async with standin.GitHub() as github, GitHub(github.app_id, github.private_key, api_url=github.url) as client:
        made = await github.create_repository(NAME, {"a.py": "x\n"})
        for name in names:
            await github.tag(NAME, name)
        repository = client.repository(github.installation("acme").id, RepositoryRef(made.id, NAME, "main"), READING)
        assert await newest_tag([None, workflow], repository) == newest
        assert any("/tags" in line for line in github.requests) == (workflow is WHOLE or b"./" in workflow)


async def test_the_highest_version_is_found_beyond_the_first_page() -> None:
    """Tags come by name, descending, 100 on a page: https://docs.github.com/rest/repos/repos#list-repository-tags"""
    async with standin.GitHub() as github, GitHub(github.app_id, github.private_key, api_url=github.url) as client:
        made = await github.create_repository(NAME, {"a.py": "x\n"})
        git = github.repository(NAME).git
        head = (await github.branches(NAME))["main"]
        names = ["v10.0", *(f"v9.{number}" for number in range(101))]
        await git.run("update-ref", "--stdin", stdin="".join(f"create refs/tags/{name} {head}\n" for name in names).encode())
        repository = client.repository(github.installation("acme").id, RepositoryRef(made.id, NAME, "main"), READING)
        assert await newest_tag([WHOLE], repository) == "v10.0"


async def test_an_error_leaves_the_tag_unknown() -> None:
    policy = RetryPolicy(tries=1)
    async with (
        standin.GitHub() as github,
        GitHub(github.app_id, github.private_key, api_url=github.url, retry_policy=policy) as client,
    ):
        made = await github.create_repository(NAME, {"a.py": "x\n"})
        repository = client.repository(github.installation("acme").id, RepositoryRef(made.id, NAME, "main"), READING)
        github.faults.status("GET", f"/repos/{NAME}/tags", 500, times=1)
        assert await newest_tag([WHOLE], repository) == ""
