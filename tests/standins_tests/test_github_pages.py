"""What a browser sees at the stand-in, through a real socket."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.standins.github import GitHub
from tests.standins.github.state import CheckRun, CheckSuite

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
BODY = f"""<!-- hidden -->

{HOSTILE}

inline <b onclick="x">bold</b> [a link](javascript:alert(1)) ![a picture](http://127.0.0.1/spy)

| a | b |
|---|---|
| <code>one</code> | two |

<details>
<summary>Log</summary>

```diff
+{HOSTILE}
```

</details>
</article></section><script>alert(2)</script>
"""
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
async def github() -> AsyncIterator[GitHub]:
    async with GitHub(judged=False) as github:
        await github.create_repository("acme/sample", {"calc.py": "x = 1\n"})
        await github.create_repository("acme/secret", {"calc.py": "x = 1\n"}, private=True)
        await github.push("acme/sample", "topic", {"calc.py": f"x = 2  # {HOSTILE}\n"}, f"{HOSTILE}\n\n{HOSTILE}", HOSTILE)
        await github.open_pull("acme/sample", "topic", title=HOSTILE, body=BODY)
        yield github


@pytest.fixture
async def browser(github: GitHub) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=github.url, headers=BROWSER) as client:
        yield client


async def seen(browser: httpx.AsyncClient, path: str) -> str:
    answer = await browser.get(path)
    assert answer.status_code == 200, path
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    tags = set(re.findall(r"<(\w+)", answer.text))
    assert tags.isdisjoint({"script", "img", "b", "iframe", "form"}), path
    assert not re.search(r"<[^>]*\son\w+=", answer.text), path
    assert 'href="javascript' not in answer.text
    assert answer.text.count("<article") == answer.text.count("</article>")
    return answer.text


async def test_a_pull_request_is_shown_with_its_text_comments_checks_and_change(
    github: GitHub, browser: httpx.AsyncClient
) -> None:
    pull = github.pull_requests("acme/sample")[0]
    comment = await github.comment("acme/sample", pull.number, "mallory", f"Look: {HOSTILE}")
    check = _check(github, pull.head_sha)
    page = await seen(browser, f"/acme/sample/pull/{pull.number}")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<details>\n<summary>Log</summary>" in page
    assert "<td><code>one</code></td>" in page
    assert "hidden" not in page
    assert f'id="issuecomment-{comment.id}"' in page
    assert '<span class="cut">-x = 1</span>' in page
    assert '<span class="add">+x = 2  # &lt;script&gt;' in page
    assert f"/acme/sample/runs/{check.id}" in page
    assert f"/acme/sample/commit/{pull.head_sha}" in page
    assert '<span class="state">open</span>' in page
    await github.close_pull("acme/sample", pull.number, merged=True)
    page = await seen(browser, f"/acme/sample/issues/{pull.number}")
    assert '<span class="state">merged</span>' in page
    assert '<span class="cut">-x = 1</span>' in page


async def test_a_repository_a_commit_and_a_check_run_have_pages(github: GitHub, browser: httpx.AsyncClient) -> None:
    pull = github.pull_requests("acme/sample")[0]
    check = _check(github, pull.head_sha)
    home = await seen(browser, "/acme/sample")
    assert f"/acme/sample/commit/{(await github.branches('acme/sample'))['topic']}" in home
    commit = await seen(browser, f"/acme/sample/commit/{pull.head_sha}")
    assert '<span class="add">+x = 2  # &lt;script&gt;' in commit
    assert "<p><strong>one</strong></p>" in await seen(browser, f"/acme/sample/runs/{check.id}")
    moved = await browser.get("/acme/sample.git")
    assert (moved.status_code, moved.headers["location"]) == (302, "/acme/sample")


async def test_a_workflow_run_shows_the_logs_of_its_jobs(github: GitHub, browser: httpx.AsyncClient) -> None:
    workflow = "on: push\njobs:\n  tests:\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo '<i>said</i>'; exit 1\n"
    await github.push("acme/sample", "main", {".github/workflows/ci.yml": workflow})
    await github.settled()
    page = await seen(browser, f"/acme/sample/actions/runs/{github.runs('acme/sample')[0].id}")
    assert "&lt;i&gt;said&lt;/i&gt;" in page
    assert "failure" in page


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/acme/nothing",
        "/acme/secret",
        "/acme/sample/pull/99",
        "/acme/sample/pull/abc",
        "/acme/sample/commit/" + "0" * 40,
        "/acme/sample/commit/--help",
        "/repos/acme/sample",
        "/favicon.ico",
        "//evil.example/x.git",
    ],
)
async def test_what_is_not_there_or_not_public_is_not_found(github: GitHub, browser: httpx.AsyncClient, path: str) -> None:
    answer = await browser.get(github.url + path)
    assert answer.status_code == 404
    assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_looking_around_is_neither_judged_nor_logged(github: GitHub, browser: httpx.AsyncClient) -> None:
    before = list(github.requests)
    for path in ("/acme/sample", "/acme/sample/pull/1", "/acme/sample/wiki", "/favicon.ico"):
        await browser.get(path)
    assert github.requests == before
    assert github.violations == []


async def test_a_client_of_the_api_gets_no_page() -> None:
    async with GitHub(judged=False) as github, httpx.AsyncClient(base_url=github.url) as client:
        await github.create_repository("acme/sample", {"calc.py": "x = 1\n"})
        answer = await client.get("/acme/sample", headers={"accept": "application/vnd.github+json"})
        assert answer.status_code == 404
        assert github.violations == ["no route for GET /acme/sample"]


def _check(github: GitHub, sha: str) -> CheckRun:
    repository = github.repository("acme/sample")
    run = CheckRun(github.world.next_id(), CheckSuite(github.world.next_id(), github.world.app, sha, "topic"), HOSTILE, sha)
    run.output = {"title": HOSTILE, "summary": "**one**", "text": BODY}
    repository.check_runs[run.id] = run
    return run
