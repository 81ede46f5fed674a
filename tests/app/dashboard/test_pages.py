from __future__ import annotations

import html
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import update

from agent.contract.budget import Usage
from agent.contract.events import Diagnosed
from agent.contract.outcome import Outcome
from agent.contract.question import Question, Waiting
from app.dashboard import feed
from app.dashboard.rendering import Renderer
from app.dashboard.status import quota_text
from app.settings import Settings
from app.store.leases.changes import Fork
from app.store.leases.quotas import Limit, Quota, Quotas
from app.store.models import EventRow
from app.store.store import Store
from app.store.values import PullRequestRecord
from tests.app.dashboard.conftest import Site, serving
from tests.app.dashboard.events import RED, begun, culprit_found, failed, green, proposed, refused
from tests.app.requests import COMMAND, REPOSITORY, cancel, run_of, taken
from tests.standins.postgres import Postgres


async def test_an_empty_list_says_what_to_do_next(site: Site) -> None:
    page = await site.text("/")
    assert "No attempts yet" in page
    assert "<code>/heal</code>" in page


async def test_the_list_shows_what_a_maintainer_wants_to_know(site: Site) -> None:
    attempt_id = await site.attempt()
    pull = PullRequestRecord(12, "selfheal/main-aaaa", "javascript:alert(1)")
    await site.tell(attempt_id, *begun(), then=lambda lease: lease.record_pull_request(pull, 0.9))
    await site.tell(attempt_id, then=lambda lease: lease.end(Outcome.HEALED, "Verified: `<` becomes `<=`"))
    page = await site.text("/")
    assert f'href="/attempts/{attempt_id}">octo/calculator</a>' in page
    assert "<code>aaaaaaaa</code> on main" in page
    assert '<span class="badge good">Healed</span>' in page
    assert "Verified: <code>&lt;</code> becomes" in page
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
    assert "is not one of" in wrong
    assert "<script>" not in wrong


@pytest.mark.parametrize(
    ("query", "named"), [("outcome=nonsense&cursor=zz", "cursor"), ("repository=x&outcome=error", "outcome")]
)
async def test_a_parameter_that_filters_nothing_is_refused_by_name(site: Site, query: str, named: str) -> None:
    await site.attempt()
    page = html.unescape(await site.text(f"/?{query}", status=422))
    assert f"'{named}'" in page
    assert "allowed are repository, state, trigger, before" in page
    assert "octo/calculator" in page


async def test_the_list_shows_what_is_used_of_the_quotas_and_leaves_out_what_has_no_limit(site: Site) -> None:
    terms = site.store._terms
    per_repository = Quota(attempts=Limit(50, "MORE"), cost=Limit(1200.0, "MORE"))
    store = Store(site.store.database, site.store.clock, replace(terms, quotas=Quotas(repository=per_repository)))
    await site.attempt(None, *begun())
    assert [quota_text(use) for use in await store.quotas_used()] == ["octo/calculator 1 of 50 attempts, $2.00 of $1,200.00"]
    page = await site.text("/")
    assert re.search(r"today \(UTC\), with the busiest repository and person: all repositories 1 of [\d,]+ attempts", page)
    assert "; octo/calculator 1 of " in page


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
    assert page.index("Selfheal found a verified repair.") > first
    for told in (
        "Proven: it holds",
        "Review the pull request. Selfheal never merges by itself.",
        "<code>&lt;</code> becomes <code>&lt;=</code> in price",
        "edits a test",
        "1 result still failing, 1 result newly failing",
        RED,
        '<span class="red">1 failed</span>, 21 passed',
        '<span class="green">22 passed</span>',
        "1 failed again",
        "Python 3.12.1, sandbox local, no network",
        "Python 3.12 instead of 3.13",
        "Challenge: no objection",
        "An off-by-one at the limit",
        "the bound was not it",
        "limits are inclusive",
        "$0, no model used",
        '<td class="n"></td><td class="n">11</td>',
        "1 failed, 21 passed, in both runs",
    ):
        assert told in page, told
    assert "sse-connect" not in page


async def test_what_broke_the_tests_is_shown_on_the_page_and_by_the_stream(site: Site) -> None:
    attempt_id = await site.attempt(None, *begun())
    path = f"/attempts/{attempt_id}"
    assert re.search(r'<section id="culprit"[^>]* hidden>', await site.text(path))
    await site.tell(attempt_id, culprit_found())
    async with site.client.stream("GET", f"{path}/stream") as answer:
        streamed = await anext(message async for message in blocks(answer) if 'id="culprit"' in message)
    for shown in (await site.text(path), streamed):
        panel = shown[shown.index('<section id="culprit"') :].partition("</section>")[0]
        assert "hidden" not in panel
        assert "2 of the 140 lines changed since the parent commit (3f2a91c0de): <code>src/rates.py:11</code>" in panel
        assert '<tr class="d-old"><td class="n">11</td>' in panel
        assert "1 other test fails" in panel
        assert "tests/test_new.py::test_strict" in panel
    events = (await site.client.get(f"/api/v1{path}/events")).json()["events"]
    assert (events[-1]["kind"], events[-1]["places"], events[-1]["of"]) == ("culprit_found", ["src/rates.py:11"], 140)


async def test_a_waiting_attempt_says_how_to_answer(site: Site) -> None:
    attempt_id = await site.attempt(None, *begun())
    await site.change(attempt_id, status="waiting", question='{"about":"publish","text":"Publish this?","diff":""}')
    page = await site.text(f"/attempts/{attempt_id}")
    assert "Waiting for approval." in page
    assert "Publish this?" in page
    assert f"<code>selfheal attempts approve {attempt_id[:12]}</code>" in page


async def test_a_proven_repair_that_waits_for_a_person_is_not_told_as_work_without_a_repair(site: Site) -> None:
    proven = [event for event in green() if not isinstance(event, Diagnosed)]
    attempt_id = await site.attempt(None, proposed(), *proven)
    asks = Waiting(Question("publish", "May it be published?"), Usage(), "first")
    await site.tell(attempt_id, then=lambda lease: lease.wait(asks))
    path = f"/attempts/{attempt_id}"
    page = html.unescape(await site.text(path))
    for told in ("verified, not yet published", "Shown when the repair is published.", "paused for approval"):
        assert told in page, told
    for untrue in ("no repair", '<p class="quiet">None yet.', "still running"):
        assert untrue not in page, untrue
    assert await site.store.reply(attempt_id, approved=True, why="Looks right.") is None
    page = await site.text(path)
    assert re.search(r'class="k-answered">.*Approved by a person: Looks right\.', page)
    assert "paused until a worker is free" in page
    await cancel(site.store, attempt_id, Outcome.SUPERSEDED, "A newer commit came.")
    page = await site.text(path)
    assert '<span class="badge">verified</span>' in page
    assert "verified, not published" in page
    assert "no repair" not in page


async def test_a_repair_that_a_person_rejected_is_told_as_that(site: Site) -> None:
    attempt_id = await site.attempt(None, proposed(), *green())
    asks = Waiting(Question("publish", "May it be published?"), Usage(), "first")
    await site.tell(attempt_id, then=lambda lease: lease.wait(asks))
    assert await site.store.reply(attempt_id, approved=False, why="Too wide.") is None
    page = await site.text(f"/attempts/{attempt_id}")
    assert '<span class="badge">rejected</span> <span class="quiet">Too wide.</span>' in page
    assert "no repair yet" in page


async def test_nobody_judges_a_change_while_its_attempt_is_in_the_queue_again(site: Site) -> None:
    attempt_id = await site.attempt(None, *begun(), proposed())
    page = await site.text(f"/attempts/{attempt_id}")
    assert "Waiting for a worker to continue." in page
    assert "not checked yet" in page
    assert "paused until a worker is free" in page
    assert "being checked" not in page
    async with site.store.lease(attempt_id, "w2"):
        page = await site.text(f"/attempts/{attempt_id}")
    assert "being checked" in page
    assert "still running" in page


@pytest.mark.parametrize("attempt_id", ["0" * 32, "nope", "a" * 5000, "%27;--", "%00", "%E2%80%AE", "..%2f..%2fetc"])
async def test_an_unknown_attempt_is_a_page_that_leads_back(site: Site, attempt_id: str) -> None:
    page = await site.text(f"/attempts/{attempt_id}", status=404)
    assert 'href="/"' in page
    assert (await site.client.get(f"/attempts/{attempt_id}/stream")).status_code == 404


async def test_the_beginning_of_an_id_leads_to_the_attempt_where_it_is_the_only_one(site: Site) -> None:
    attempt_id = await site.attempt(None, *begun())
    api = "/api/v1/attempts"
    for known in (attempt_id[:8], attempt_id[:12], attempt_id.upper()):
        answer = await site.client.get(f"/attempts/{known}")
        assert (answer.status_code, answer.headers["location"]) == (307, f"/attempts/{attempt_id}")
        assert (await site.client.get(f"{api}/{known}")).json()["id"] == attempt_id
        assert (await site.client.get(f"{api}/{known}/events")).json()["events"][0]["sequence"] == 1
    for unknown in (attempt_id[:7], f"{attempt_id[:8]}%", ("0" if attempt_id[0] != "0" else "1") + attempt_id[1:12]):
        assert "There is no attempt" in await site.text(f"/attempts/{quote(unknown)}", status=404)
    await site.store.fork(Fork(attempt_id[:12] + "0" * 20, attempt_id, 1))
    for path in (f"/attempts/{attempt_id[:12]}", f"{api}/{attempt_id[:12]}"):
        assert "Several attempts" in html.unescape(await site.text(path, status=404))
    assert (await site.client.get(f"{api}/{attempt_id[:8]}")).status_code == 404


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


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("web", 200),
        ("WEB:8001", 200),
        ("web.ns.svc", 200),
        ("localhost:8001", 200),
        ("10.1.2.3", 200),
        ("wpad", 421),
        ("x.web", 421),
    ],
)
async def test_beyond_this_machine_only_names_that_were_set_are_answered(
    settings: Settings, store: Store, host: str, status: int
) -> None:
    beyond = settings.model_copy(update={"pages_host": "0.0.0.0", "pages_names": ("web", "web.ns.svc")})
    async with serving(beyond, store) as site:
        assert (await site.client.get("/", headers={"host": host})).status_code == status


async def test_nothing_can_be_written(site: Site) -> None:
    attempt_id = await site.attempt()
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        for path in ("/", f"/attempts/{attempt_id}", f"/api/v1/attempts/{attempt_id}"):
            assert (await site.client.request(method, path)).status_code == 405


@pytest.mark.long
async def test_the_diffs_of_one_page_have_a_bound_and_the_others_are_a_link_away(site: Site) -> None:
    long = "--- a/x.py\n+++ b/x.py\n@@ -0,0 +1,500 @@\n" + "+value = compute(1, 'two')  # three\n" * 500
    many = [proposed(f"change {number}", long, number) for number in range(1, 41)]
    attempt_id = await site.attempt(None, *many, *green("change 1"))
    page = await site.text(f"/attempts/{attempt_id}")
    assert len(page) < 1_500_000
    assert page.count('class="candidate"') == 40
    shown = [int(number) for number in re.findall(r'id="candidate-(\d+)"(?:(?!</details>).)*class="diff"', page, re.DOTALL)]
    assert shown == [1, 38, 39, 40]  # what was proven, and the newest
    link = re.search(r'href="(/api/v1/attempts/\w+/events\?after=\d+&amp;limit=1)"', page)
    assert link is not None
    (event,) = (await site.client.get(link[1].replace("&amp;", "&"))).json()["events"]
    assert (event["kind"], event["title"], event["diff"].startswith("--- a/x.py")) == ("proposed", "change 2", True)
    async with site.client.stream("GET", f"/attempts/{attempt_id}/stream") as answer:
        first = await anext(message async for message in blocks(answer) if "data" in message)
    assert len("".join(first)) < 2_000_000


async def blocks(answer: httpx.Response) -> AsyncIterator[str]:
    """The messages of a stream as they stand."""
    lines: list[str] = []
    async for line in answer.aiter_lines():
        if line:
            lines.append(line)
        else:
            yield "\n".join(lines)
            lines = []


async def test_a_large_page_is_rendered_beside_the_loop(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt_id = await site.attempt(None, *begun())
    rendering, threads = Renderer.page, set[int]()

    def watched(self: Renderer, name: str, **values: object) -> str:
        threads.add(threading.get_ident())
        return rendering(self, name, **values)

    monkeypatch.setattr(Renderer, "page", watched)
    await site.text("/")
    await site.text(f"/attempts/{attempt_id}")
    async with site.client.stream("GET", f"/attempts/{attempt_id}/stream") as answer:
        await anext(message async for message in blocks(answer) if "data" in message)
    assert threads
    assert threading.get_ident() not in threads


async def test_a_stream_that_broke_between_lines_and_candidates_brings_the_candidates(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "PAGE", 3)
    attempt_id = await site.attempt(None, *begun(), proposed("the first"), *failed("the first"))
    path = f"/attempts/{attempt_id}/stream"
    async with site.client.stream("GET", path) as answer:
        told = [message async for message in only(blocks(answer), 3)]
    assert ["the first</span>\n" in message and "hx-swap-oob" in message for message in told[1:]] == [False, False]
    (last,) = re.findall(r"^id: (\S+)", told[-1], re.MULTILINE)
    after, since = last.split(".")
    for address, headers in ((path, {"last-event-id": last}), (f"{path}?after={after}&since={since}", {})):
        async with site.client.stream("GET", address, headers=headers) as answer:
            (_, resumed) = [message async for message in only(blocks(answer), 2)]
        assert 'hx-swap-oob="beforeend:#candidates"' in resumed
        assert 'id="candidate-1"' in resumed
        assert 'id="event-1"' not in resumed


async def only(messages: AsyncIterator[str], count: int) -> AsyncIterator[str]:
    async for message in messages:
        yield message
        count -= 1
        if not count:
            return


async def test_an_event_of_a_newer_worker_is_a_line_of_the_page(site: Site) -> None:
    attempt_id = await site.attempt(None, *begun())
    async with site.store.database.write() as session:
        newer = update(EventRow).where(EventRow.sequence == 2).values(body='{"kind":"dreamt","text":"A dream","depth":3}')
        await session.execute(newer)
    page = await site.text(f"/attempts/{attempt_id}")
    assert 'class="k-dreamt"' in page
    assert "A dream" in page
    events = (await site.client.get(f"/api/v1/attempts/{attempt_id}/events")).json()["events"]
    assert (events[1]["kind"], events[1]["text"]) == ("dreamt", "A dream")


async def test_a_database_that_is_away_is_told_as_that(
    site: Site, settings: Settings, database_url: str | None, request: pytest.FixtureRequest
) -> None:
    attempt_id = await site.attempt()
    with _away(settings, None if database_url is None else request.getfixturevalue("postgres")):
        await site.store.database.engine.dispose()  # whose connections would outlive their file
        for path in ("/", f"/attempts/{attempt_id}", "/api/v1/attempts", f"/api/v1/attempts/{attempt_id}/events"):
            answer = await site.client.get(path)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5"), answer.text
            assert "The database is not responding" in answer.text
        assert answer.json()["status"] == 503
    assert attempt_id in await site.text("/")


@contextmanager
def _away(settings: Settings, server: Postgres | None) -> Iterator[None]:
    if server is not None:
        server.stop()
    else:
        settings.data_dir.rename(settings.data_dir.with_suffix(".away"))
    try:
        yield
    finally:
        if server is not None:
            server.start()
        else:
            settings.data_dir.with_suffix(".away").rename(settings.data_dir)


async def test_a_monitor_may_ask_for_the_head_alone(site: Site) -> None:
    for path in ("/", f"/attempts/{await site.attempt()}"):
        answer = await site.client.head(path)
        assert (answer.status_code, answer.text) == (200, "")
