"""The stand-in, spoken to by unmodified githubkit."""

from __future__ import annotations

import base64
import io
import tarfile
from collections.abc import AsyncIterator
from typing import Any

import pytest
from githubkit import AppAuthStrategy
from githubkit import GitHub as Client
from githubkit.webhooks import verify

from tests.standins.github import GitHub

WORKFLOW = """\
name: CI
on: [push]
jobs:
  tests:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
      - run: python -m pytest -q
"""
FILES = {
    ".github/workflows/ci.yml": WORKFLOW,
    "calc.py": "def add(a, b):\n    return a + b\n",
    "test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
}


@pytest.fixture
async def github() -> AsyncIterator[GitHub]:
    async with GitHub() as github:
        await github.create_repository("acme/sample", FILES)
        yield github


def app_client(github: GitHub) -> Any:
    return Client(AppAuthStrategy(str(github.app_id), github.private_key), base_url=github.url)


def installed_client(github: GitHub, owner: str = "acme") -> Any:
    app = app_client(github)
    return app.with_auth(app.auth.as_installation(github.installation(owner).id))


@pytest.mark.long
async def test_a_change_becomes_a_pull_request_over_rest(github: GitHub) -> None:
    client = installed_client(github)
    rest, at = client.rest, {"owner": "acme", "repo": "sample"}
    base = (await rest.git.async_get_ref(**at, ref="heads/main")).json()["object"]["sha"]
    commit = (await rest.git.async_get_commit(**at, commit_sha=base)).json()
    content = base64.b64encode(b"def add(a, b):\n    return b + a\n").decode()
    blob = (await rest.git.async_create_blob(**at, content=content, encoding="base64")).json()
    entry = {"path": "calc.py", "mode": "100644", "type": "blob", "sha": blob["sha"]}
    tree = (await rest.git.async_create_tree(**at, tree=[entry], base_tree=commit["tree"]["sha"])).json()
    made = (await rest.git.async_create_commit(**at, message="Swap", tree=tree["sha"], parents=[base])).json()
    await rest.git.async_create_ref(**at, ref="refs/heads/selfheal/swap", sha=made["sha"])
    pull = await rest.pulls.async_create(**at, title="Swap", head="selfheal/swap", base="main", body="why", draft=True)
    assert pull.parsed_data.draft
    number = pull.json()["number"]
    await rest.issues.async_create_comment(**at, issue_number=number, body="done")
    check = (await rest.checks.async_create(**at, name="selfheal", head_sha=base, status="in_progress")).json()
    output = {"title": "healed", "summary": "one file"}
    await rest.checks.async_update(**at, check_run_id=check["id"], status="completed", conclusion="success", output=output)
    await rest.reactions.async_create_for_issue_comment(
        **at, comment_id=github.comments("acme/sample", number)[0].id, content="eyes"
    )
    await github.settled()

    assert await github.file("acme/sample", "calc.py", "selfheal/swap") == b"def add(a, b):\n    return b + a\n"
    assert [(p.title, p.draft, p.head_branch) for p in github.pull_requests("acme/sample")] == [("Swap", True, "selfheal/swap")]
    assert [run.conclusion for run in github.check_runs("acme/sample")] == ["success"]
    assert "POST /repos/acme/sample/pulls > 201" in github.requests


async def test_a_failing_push_gives_a_failed_run_real_logs_and_a_signed_delivery(github: GitHub) -> None:
    sha = await github.push("acme/sample", "main", {"calc.py": "def add(a, b):\n    return a - b\n"})
    await github.settled()
    client = installed_client(github)
    rest, at = client.rest, {"owner": "acme", "repo": "sample"}
    runs = (await rest.actions.async_list_workflow_runs_for_repo(**at, head_sha=sha)).parsed_data
    assert [run.conclusion for run in runs.workflow_runs] == ["failure"]
    jobs = (await rest.actions.async_list_jobs_for_workflow_run(**at, run_id=runs.workflow_runs[0].id)).parsed_data.jobs
    log = await rest.actions.async_download_job_logs_for_workflow_run(**at, job_id=jobs[0].id)
    assert "FAILED test_calc.py::test_add" in log.text
    assert "##[error]Process completed with exit code 1." in log.text
    completed = [d for d in github.deliveries if (d.event, d.action) == ("workflow_run", "completed")]
    assert [d.payload["workflow_run"]["conclusion"] for d in completed] == ["failure"]
    assert verify(github.webhook_secret, completed[0].body, completed[0].headers["X-Hub-Signature-256"])
    assert github.downloads.leaks == []


async def test_an_archive_comes_from_the_other_origin_without_the_token(github: GitHub) -> None:
    client = installed_client(github)
    answer = await client.rest.repos.async_download_tarball_archive(owner="acme", repo="sample", ref="main")
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        names = archive.getnames()
    assert {name.split("/")[0] for name in names} == {names[0]}
    assert any(name.endswith("/calc.py") for name in names)
    assert github.downloads.leaks == []
