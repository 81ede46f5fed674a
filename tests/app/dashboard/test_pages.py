from __future__ import annotations

import re
from dataclasses import replace

import pytest

from agent.outcome import Outcome
from app.store.values import PullRequest
from tests.app.dashboard.conftest import Site
from tests.app.dashboard.events import RED, begun, failed, green, proposed, refused
from tests.app.requests import COMMAND, REPOSITORY, run_of, taken


async def test_an_empty_list_says_what_to_do_next(site: Site) -> None:
    page = await site.text("/")
    assert "No attempts yet" in page
    assert "<code>/heal</code>" in page


async def test_the_list_shows_what_a_maintainer_wants_to_know(site: Site) -> None:
    attempt_id = await site.attempt()
    pull = PullRequest(12, "selfheal/main-aaaa", "javascript:alert(1)")
    await site.tell(attempt_id, *begun(), then=lambda lease: lease.record_pull_request(pull, 0.9))
    await site.tell(attempt_id, then=lambda lease: lease.end(Outcome.HEALED, "Proven red, green, red: `<` becomes `<=`"))
    page = await site.text("/")
    assert f'href="/attempts/{attempt_id}">octo/calculator</a>' in page
    assert "<code>aaaaaaaa</code> on main" in page
    assert '<span class="badge good">Healed</span>' in page
    assert "Proven red, green, red: <code>&lt;</code> becomes" in page
    assert '<a href="https://github.com/octo/calculator/pull/12" rel="noreferrer">#12</a>' in page
    assert "Failing run" in page


async def test_filters_find_attempts_and_name_what_cannot_be(site: Site) -> None:
    await site.attempt()
    await site.attempt(COMMAND)
    await site.attempt(replace(run_of("b" * 40), repository=replace(REPOSITORY, id=8, full_name="acme/parcel")))

    async def found(query: str) -> int:
        return (await site.text(f"/?{query}")).count('<tr>\n  <td class="c-outcome">')

    assert await found("") == 3
    assert await found("repository=PARCEL") == 1
    assert await found("repository=%25") == 0
    assert await found("trigger=command") == 1
    assert await found("state=queued") == 3
    assert await found("state=healed") == 0
    assert "No attempt matches" in await site.text("/?state=healed")
    wrong = await site.text("/?state=%3Cscript%3E", status=422)
    assert "is none of" in wrong
    assert "<script>" not in wrong


async def test_older_attempts_are_one_link_away_and_none_is_shown_twice(site: Site) -> None:
    ids = [await taken(site.store, run_of(f"{number:040x}")) for number in range(70)]
    seen: list[str] = []
    path: str | None = "/"
    while path:
        page = await site.text(path)
        seen += re.findall(r'id="to-(\w+)"', page)
        older = re.search(r'href="([^"]+)" rel="next"', page)
        path = older[1].replace("&amp;", "&") if older else None
    assert seen == ids[::-1]


async def test_htmx_gets_rows_alone_and_nothing_where_nothing_changed(site: Site) -> None:
    await site.attempt()
    asks = {"hx-request": "true", "hx-target": "attempts"}
    rows = await site.client.get("/", headers=asks)
    assert rows.text.startswith('<section id="attempts"')
    version = re.search(r'"seen":"(\w+)"', rows.text)
    assert version
    again = await site.client.get("/", params={"seen": version[1]}, headers=asks)
    assert (again.status_code, again.text) == (204, "")
    await site.attempt(COMMAND)
    assert (await site.client.get("/", params={"seen": version[1]}, headers=asks)).status_code == 200


async def test_a_page_without_scripts_tells_the_whole_story(site: Site) -> None:
    attempt_id = await site.attempt(None, *begun(), proposed("wrong"), *failed("wrong"), proposed("bad"), refused("bad"))
    await site.tell(attempt_id, proposed(), *green(), then=lambda lease: lease.end(Outcome.HEALED, "Proven: it holds"))
    page = await site.text(f"/attempts/{attempt_id}")
    first = page.index("<h1")
    assert page.index("A verified repair was found.") > first
    for told in (
        "Proven: it holds",
        "Review the pull request; nothing is merged without you.",
        "<code>&lt;</code> becomes <code>&lt;=</code> in price",
        "edits a test",
        "1 result still red, 1 result newly red",
        RED,
        '<span class="red">1 red</span>, 21 green',
        '<span class="green">22 green</span>',
        "1 red again",
        "Python 3.12.1, sandbox local, no network",
        "Python 3.12 in the place of 3.13",
        "Challenge: no objection",
        "An off-by-one at the limit",
        "the bound was not it",
        "limits are inclusive",
        "no model was asked, $0",
        '<td class="n"></td><td class="n">11</td>',
        "One test red, 21 green, the same in 2 runs",
    ):
        assert told in page, told
    assert "sse-connect" not in page


async def test_a_waiting_attempt_says_how_to_answer(site: Site) -> None:
    attempt_id = await site.attempt(None, *begun())
    await site.change(attempt_id, status="waiting", question='{"about":"publish","text":"Publish this?","diff":""}')
    page = await site.text(f"/attempts/{attempt_id}")
    assert "A person is asked before it goes on." in page
    assert "Publish this?" in page
    assert f"<code>selfheal attempts approve {attempt_id[:12]}</code>" in page


@pytest.mark.parametrize("attempt_id", ["0" * 32, "nope", "a" * 5000, "%27;--", "%00", "%E2%80%AE", "..%2f..%2fetc"])
async def test_an_unknown_attempt_is_a_page_that_leads_back(site: Site, attempt_id: str) -> None:
    page = await site.text(f"/attempts/{attempt_id}", status=404)
    assert 'href="/"' in page
    assert (await site.client.get(f"/attempts/{attempt_id}/stream")).status_code == 404


async def test_every_answer_says_what_a_browser_may_not_do(site: Site) -> None:
    for path in ("/", "/attempts/nope", "/static/live.js", "/api/v1/attempts", "/nowhere"):
        headers = (await site.client.get(path)).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("127.0.0.1:1", 200), ("[::1]:8001", 200), ("evil.example", 421), ("10.0.0.1", 421), ("", 421)],
)
async def test_only_names_of_this_machine_are_answered(site: Site, host: str, status: int) -> None:
    assert (await site.client.get("/", headers={"host": host})).status_code == status


async def test_nothing_can_be_written(site: Site) -> None:
    attempt_id = await site.attempt()
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        for path in ("/", f"/attempts/{attempt_id}", f"/api/v1/attempts/{attempt_id}"):
            assert (await site.client.request(method, path)).status_code == 405
