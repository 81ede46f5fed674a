"""A whole attempt on GitHub Enterprise Server: from a webhook to a pull request, with everything on one origin."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from tests.story.story import told
from tests.story.test_healing import BROKEN, CALCULATOR

# What people see there is not on github.com, and the API is nothing for people.
_ELSEWHERE = re.compile(r"https?://(?:[\w.]*github\.com|[\w.:]+/api/v3)\S*")


@pytest.mark.long
async def test_a_failing_run_of_an_enterprise_server_becomes_a_pull_request(tmp_path: Path) -> None:
    async with told(tmp_path, enterprise=True) as story:
        await story.repository("acme/shelf", CALCULATOR)
        await story.push("acme/shelf", BROKEN)

        pull = await story.healed("acme/shelf")

        assert story.github.downloads.leaks == [], "no token reaches what is beside the API"
        assert {path.split("/")[1] for path in story.github.downloads.served} == {"_codeload", "_services"}
        texts = (pull.body, *(run.output["summary"] for run in story.github.check_runs("acme/shelf")))
        assert [_ELSEWHERE.findall(text.replace("\u200b", "")) for text in texts] == [[], [], []]
        site = story.github.world.site
        assert f"{site}/acme/shelf/actions/runs/" in pull.body
        async with httpx.AsyncClient() as client:
            page = await client.get(f"{story.service.pages}/attempts/{(await story.ended('acme/shelf')).id}")
        assert f'href="{site}/acme/shelf/pull/{pull.number}"' in page.text
