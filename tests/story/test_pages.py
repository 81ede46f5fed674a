"""The pages while a real attempt runs in another process, and while their own process dies."""

from __future__ import annotations

import json

import httpx
import pytest
from playwright.async_api import expect

from app.store.values import Attempt
from tests.app.dashboard.browsing import PATIENCE, browsing, tab
from tests.databases import on_sqlite
from tests.story.story import Story
from tests.story.test_healing import BROKEN, CALCULATOR

pytestmark = [pytest.mark.asyncio(loop_scope="module"), on_sqlite]  # tests/app/dashboard asks both databases
expect.set_options(timeout=PATIENCE)


async def _shown(story: Story, attempt: Attempt) -> list[str]:
    """Ids of the lines that a timeline has in the end."""
    return [f"event-{stored.sequence}" for stored in await story.store.timeline(attempt.id) if stored.event.text]


@pytest.mark.long
async def test_an_attempt_is_watched_from_its_row_to_its_pull_request(story: Story) -> None:
    await story.repository("acme/watched", CALCULATOR)
    async with browsing() as browser, tab(browser) as opened:
        page = opened.page
        await page.goto(story.service.pages)
        await story.push("acme/watched", BROKEN)
        await page.get_by_role("link", name="acme/watched").click()
        await page.evaluate("window.sameDocument = true")
        await expect(page.locator("#verdict h1")).to_have_text("Selfheal found a verified repair.", timeout=120_000)
        pull = await story.healed("acme/watched")
        await expect(page.locator("#verdict .button")).to_have_attribute(
            "href", f"{story.github.url}/acme/watched/pull/{pull.number}"
        )
        await expect(page.locator(".candidate .s-proven")).to_have_count(1)
        await expect(page.locator("#tests .evidence .green")).not_to_have_count(0)
        (attempt,) = await story.store.attempts(repository="acme/watched")
        lines = await page.locator("#timeline li").evaluate_all("lines => lines.map(line => line.id)")
        assert lines == await _shown(story, attempt)
        assert await page.evaluate("window.sameDocument")
        assert (opened.complaints, await opened.violations()) == ([], [])
        await page.goto(story.service.pages)
        await expect(page.locator(f"tr:has(#to-{attempt.id})")).to_contain_text("Healed")


@pytest.mark.long
async def test_a_page_goes_on_where_it_was_when_the_web_process_was_killed(story: Story) -> None:
    await story.repository("acme/resumed", CALCULATOR)
    async with browsing() as browser, tab(browser) as opened:
        page = opened.page
        story.service.workers[-1].kill()  # nobody works before the page is open
        await story.service.workers[-1].wait()
        await story.push("acme/resumed", BROKEN)
        (attempt,) = await story.store.attempts(repository="acme/resumed")
        await page.goto(f"{story.service.pages}/attempts/{attempt.id}")
        await expect(page.locator("#connection")).to_have_text("Live")
        await page.evaluate("window.sameDocument = true")
        await story.service.kill_web()
        await expect(page.locator("#connection")).to_have_text("Connection lost, reconnecting")
        await story.service.start_worker()
        await story.reaches("acme/resumed", "prove")  # it runs, and nobody tells the page
        await story.service.start_web()
        await expect(page.locator("#verdict h1")).to_have_text("Selfheal found a verified repair.", timeout=120_000)
        lines = await page.locator("#timeline li").evaluate_all("lines => lines.map(line => line.id)")
        assert lines == await _shown(story, await story.ended("acme/resumed"))
        assert await page.evaluate("window.sameDocument")
        assert await opened.violations() == []


@pytest.mark.long
async def test_the_api_tells_of_a_worker_in_another_process(story: Story) -> None:
    await story.repository("acme/told", CALCULATOR)
    await story.push("acme/told", BROKEN)
    (attempt,) = await story.store.attempts(repository="acme/told")
    async with httpx.AsyncClient(base_url=f"{story.service.pages}/api/v1", timeout=120) as client:
        headers = {"accept": "text/event-stream"}
        async with client.stream("GET", f"/attempts/{attempt.id}/events", headers=headers) as answer:
            told = [json.loads(line[6:]) async for line in answer.aiter_lines() if line.startswith("data: {")]
        assert [event["sequence"] for event in told] == list(range(1, len(told) + 1))
        assert (told[-1]["kind"], told[-1]["outcome"]) == ("ended", "healed")
        assert (await client.get(f"/attempts/{attempt.id}")).json()["outcome"] == "healed"
