"""`make screenshots`: takes the pictures in `docs/images/` of real attempts in a real browser.

Uses the demo's local GitHub and service, three repositories, and Chromium. Exit code 1 if an attempt does not end as its
picture requires.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.async_api import Page, expect

from deploy.demo import BUGS, broken, sample_files
from tests.app.dashboard.browsing import browsing, tab
from tests.standins.github import GitHub
from tests.story.service import Service, running

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
SIZE = {"width": 1120, "height": 900}
LARGEST = 200_000  # bytes of one picture
PATIENCE = 300_000.0  # milliseconds for one attempt


async def take(folder: Path) -> None:
    """Run three attempts and write the pictures."""
    async with (
        GitHub(judged=False) as github,
        running(github, folder, {"SELFHEAL_MODEL": "none"}) as service,
        browsing() as browser,
        tab(browser, viewport=SIZE, color_scheme="light", reduced_motion="reduce") as opened,
    ):
        page = opened.page
        page.set_default_timeout(PATIENCE)
        expect.set_options(timeout=PATIENCE)
        await _start_attempt(github, service, page, "acme/parcel", "easy")
        await expect(page.locator("#verdict .badge")).to_have_text("Healed")
        await page.reload()
        await _picture(page, "healed.png")
        await _start_attempt(github, service, page, "acme/courier", "hard")
        await expect(page.locator("#verdict .badge")).to_have_text("Gave up")
        await _start_attempt(github, service, page, "acme/letters", "easy")
        await page.locator(".candidate").first.wait_for()
        await _picture(page, "running.png")
        await page.goto(service.pages)
        await page.locator("tbody tr:nth-child(3)").wait_for()
        await _picture(page, "attempts.png", height=420)


async def _start_attempt(github: GitHub, service: Service, page: Page, repository: str, bug: str) -> None:
    """Break a repository and open its attempt's page."""
    await github.create_repository(repository, sample_files())
    await github.push(repository, "main", broken(BUGS[bug]), BUGS[bug].message)
    await page.goto(service.pages)
    await page.get_by_role("link", name=repository).click()


async def _picture(page: Page, name: str, height: int = SIZE["height"]) -> None:
    path = IMAGES / name
    await page.screenshot(path=path, clip={"x": 0, "y": 0, "width": SIZE["width"], "height": height})
    size = path.stat().st_size
    print(f"{path.relative_to(IMAGES.parents[1])}: {size:,} bytes")
    if size > LARGEST:
        raise ValueError(f"{name} is larger than {LARGEST:,} bytes")


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="selfheal-screenshots-"))
    IMAGES.mkdir(exist_ok=True)
    try:
        asyncio.run(take(folder))
    except (AssertionError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
