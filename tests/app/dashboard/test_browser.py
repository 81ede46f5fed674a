"""The pages in a real browser: they fill by themselves, and nothing that they show does anything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from playwright.async_api import Browser, expect

from agent.contract.events import StepStarted
from agent.contract.outcome import Outcome
from app.store.values import PullRequestRecord
from tests.app.dashboard.browsing import PATIENCE, browsing, tab
from tests.app.dashboard.conftest import Site
from tests.app.dashboard.events import DIFF, begun, culprit_found, failed, green, proposed
from tests.app.requests import REPOSITORY, run_of

expect.set_options(timeout=PATIENCE)


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with browsing() as browser:
        yield browser


@pytest.mark.long
async def test_an_attempts_page_fills_while_it_is_looked_at(site: Site, browser: Browser) -> None:
    attempt_id = await site.attempt()
    async with tab(browser) as opened:
        page = opened.page
        await page.goto(f"{site.url}/attempts/{attempt_id}")
        await expect(page.locator("#verdict h1")).to_have_text("Waiting for a worker.")
        await expect(page.locator("#connection")).to_have_text("Live")
        await page.evaluate("window.sameDocument = true")
        await expect(page).to_have_title("Queued: octo/calculator · Selfheal")
        await site.tell(attempt_id, *begun(), proposed("wrong"))
        await expect(page.locator("#timeline li")).to_have_count(4)
        await expect(page.locator("#candidate-1 .title")).to_have_text("wrong")
        await expect(page.locator("#tests")).to_contain_text("1 failed")
        await expect(page.locator("#untried")).to_be_hidden()
        await page.locator("#candidate-1 summary").click()  # closed by a person, and stays so
        await site.tell(attempt_id, *failed("wrong"), proposed())
        await expect(page.locator("#fate-1")).to_contain_text("failed")
        await expect(page.locator("#candidate-2")).to_have_attribute("open", "")
        await expect(page.locator("#candidate-1")).not_to_have_attribute("open", "")
        await site.tell(
            attempt_id,
            *green(),
            then=lambda lease: lease.record_pull_request(PullRequestRecord(1, "selfheal/x", "http://elsewhere.example"), 0.9),
        )
        await site.tell(attempt_id, then=lambda lease: lease.end(Outcome.HEALED, "Verified"))
        await expect(page.locator("#verdict h1")).to_have_text("Selfheal found a verified repair.")
        await expect(page.locator("#verdict .button")).to_have_attribute("href", "https://github.com/octo/calculator/pull/1")
        await expect(page.locator("#tests .evidence tbody tr")).to_have_count(1)
        await expect(page.locator("#connection")).to_have_text("")
        await expect(page).to_have_title("Healed: octo/calculator · Selfheal")
        lines = await page.locator("#timeline li").all_inner_texts()
        live = await page.locator("#main").inner_text()
        assert await page.evaluate("window.sameDocument")
        assert (opened.complaints, await opened.violations()) == ([], [])
        # What came piece by piece is what comes as a whole.
        await page.reload()
        assert await page.locator("#timeline li").all_inner_texts() == lines
        whole = await page.locator("#main").inner_text()
        assert live.split() == whole.split()


@pytest.mark.long
async def test_a_stream_that_is_opened_anew_says_what_the_page_has(site: Site, browser: Browser) -> None:
    attempt_id = await site.attempt()
    async with tab(browser) as opened:
        await opened.page.goto(f"{site.url}/attempts/{attempt_id}")
        asked = await opened.page.evaluate(
            """(address) => ["5", "7.2"].map((lastEventId) => {
                document.dispatchEvent(new CustomEvent("htmx:sseMessage", { detail: { lastEventId } }));
                const source = htmx.createEventSource(address);
                source.close();
                return source.url;
            })""",
            f"/attempts/{attempt_id}/stream?after=0",
        )
    path = f"{site.url}/attempts/{attempt_id}/stream"
    assert asked == [f"{path}?after=5&since=5", f"{path}?after=7&since=2"]


@pytest.mark.long
async def test_the_list_follows_and_filters_without_a_reload(site: Site, browser: Browser) -> None:
    async with tab(browser) as opened:
        page = opened.page
        await page.goto(site.url)
        await expect(page.locator("#attempts")).to_contain_text("No attempts yet")
        await page.evaluate("window.sameDocument = true")
        await site.attempt()
        await site.attempt(replace(run_of("b" * 40), repository=replace(REPOSITORY, id=8, full_name="acme/parcel")))
        await expect(page.locator("#attempts tbody tr")).to_have_count(2)
        await page.locator("#repository").press_sequentially("parc")
        await expect(page.locator("#attempts tbody tr")).to_have_count(1)
        assert page.url.endswith("/?repository=parc&state=&trigger=")
        await page.locator("#state").select_option("healed")
        await expect(page.locator("#attempts")).to_contain_text("No attempt matches")
        assert await page.evaluate("window.sameDocument")
        assert (opened.complaints, await opened.violations()) == ([], [])


async def test_the_filters_work_without_scripts(site: Site, browser: Browser) -> None:
    await site.attempt()
    async with tab(browser, java_script_enabled=False) as opened:
        await opened.page.goto(site.url)
        await opened.page.locator("#repository").fill("nobody")
        await opened.page.get_by_role("button", name="Filter").click()
        await expect(opened.page.locator("#attempts")).to_contain_text("No attempt matches")


HOSTILE = (
    "<script>document.title='pwned'</script><img src=x onerror=alert(1)>\x1b]0;pwned\x07\u202e `<b>`{{7*7}} javascript:alert(1)"
)


@pytest.mark.long
async def test_hostile_text_in_every_field_is_text(site: Site, browser: Browser) -> None:
    request = replace(
        run_of("c" * 40, title=HOSTILE), head_branch=HOSTILE, repository=replace(REPOSITORY, id=9, full_name=HOSTILE)
    )
    diff = DIFF.replace("cents", HOSTILE.replace("\n", " ")).replace("src/rates.py", HOSTILE)
    first = [
        StepStarted(text=HOSTILE, step=HOSTILE),
        *begun(),
        proposed(HOSTILE, diff),
        *failed(HOSTILE),
        culprit_found(HOSTILE, diff),
    ]
    attempt_id = await site.attempt(request, *first)
    async with tab(browser) as opened:
        page = opened.page
        for path in ("/", f"/attempts/{attempt_id}"):
            await page.goto(site.url + path)
            await expect(page.locator("#main")).to_contain_text("<script>document.title")
            await expect(page.locator("#main")).to_contain_text("⟦U+001B⟧]0;pwned⟦U+0007⟧⟦U+202E⟧")
        # The same by the stream, into a page that is open.
        long = "y" * 10_000_000
        more = [StepStarted(text=HOSTILE, step="x"), StepStarted(text=long, step="x"), proposed(HOSTILE + "2", diff)]
        await site.tell(attempt_id, *more, *green(HOSTILE + "2"))
        await expect(page.locator("#candidate-2")).to_contain_text("<script>document.title")
        await expect(page.locator("#timeline")).to_contain_text("rest not shown")
        await site.tell(attempt_id, then=lambda lease: lease.end(Outcome.GAVE_UP, HOSTILE, HOSTILE))
        await expect(page.locator("#verdict .why")).to_contain_text("<img src=x onerror=alert(1)>")
        for path in ("/", f"/attempts/{attempt_id}"):
            await page.goto(site.url + path)
            assert await page.locator("#main script, #main img, #main [onerror]").count() == 0
            assert "pwned" not in await page.title() or "<script>" in await page.title()
            for href in await page.eval_on_selector_all("a", "links => links.map(link => link.href)"):
                assert href.startswith((site.url, "https://github.com/octo/")), href
        assert (opened.complaints, await opened.violations()) == ([], [])


@pytest.mark.long
async def test_pages_can_be_read_on_a_telephone_and_by_keyboard(site: Site, browser: Browser) -> None:
    attempt_id = await site.attempt(None, *begun(), proposed("x" * 300), *failed("x" * 300))
    async with tab(browser, viewport={"width": 360, "height": 640}, color_scheme="dark") as opened:
        page = opened.page
        for path in ("/", f"/attempts/{attempt_id}"):
            await page.goto(site.url + path)
            assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            await page.keyboard.press("Tab")
            assert await page.evaluate("document.activeElement.textContent") == "Skip to content"
            for landmark in ("banner", "main", "navigation"):
                await expect(page.get_by_role(landmark).first).to_be_visible()  # type: ignore[arg-type]
        await expect(page.get_by_role("log")).to_have_attribute("aria-live", "polite")
