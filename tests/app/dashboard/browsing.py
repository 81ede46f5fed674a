"""A real headless Chromium, and what it complains of."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.async_api import Browser, Page, async_playwright

PATIENCE = 60_000.0  # milliseconds: the machines that run tests are small and busy
_WATCH = """
window.violations = [];
const note = (event) => violations.push(event.violatedDirective + " " + event.blockedURI);
document.addEventListener("securitypolicyviolation", note);
"""


@dataclass(slots=True)
class Tab:
    """One page of the browser; `complaints` are errors and warnings of its console, and scripts that failed."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    async def violations(self) -> list[str]:
        """What the Content-Security-Policy had to stop."""
        found: list[str] = await self.page.evaluate("window.violations")
        return found


def chromium() -> str:
    """Path of the installed one; skips the test where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no chromium is installed; `deploy/setup.sh tests` installs Debian's")


@contextlib.asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    path = chromium()
    async with async_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=path, args=flags)
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def tab(browser: Browser, **options: Any) -> AsyncIterator[Tab]:
    context = await browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    await context.add_init_script(_WATCH)
    opened = Tab(await context.new_page())
    opened.page.on("console", lambda said: opened.complaints.append(said.text) if said.type in ("error", "warning") else None)
    opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    opened.page.on("dialog", lambda dialog: opened.complaints.append(f"a dialog: {dialog.message}"))
    try:
        yield opened
    finally:
        await context.close()
