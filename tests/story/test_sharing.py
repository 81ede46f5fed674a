"""Two services that were given the same database share its work: nothing is lost, and nothing is there twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.story.service import running
from tests.story.story import FAST, told
from tests.story.test_healing import BROKEN, CALCULATOR


@pytest.mark.long
async def test_two_services_on_one_sqlite_file_heal_each_commit_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    repositories = [f"acme/shared-{number}" for number in range(2)]
    async with (
        told(tmp_path / "first", FAST, database_url=url) as story,
        running(story.github, tmp_path / "second", {**FAST, "SELFHEAL_DATABASE_URL": url}) as second,
    ):
        for service, repository in zip((story.service, second), repositories, strict=True):
            story.github.deliver_to(f"{service.url}/webhooks/github")
            await story.repository(repository, CALCULATOR)
            await story.push(repository, BROKEN)
        for repository in repositories:
            pull = await story.healed(repository)
            assert [name for name in await story.github.branches(repository) if name != "main"] == [pull.head_branch]
            assert [run.status for run in story.github.check_runs(repository)] == ["completed"] * 2
        await second.stop()
        repository = "acme/after"
        story.github.deliver_to(f"{story.service.url}/webhooks/github")
        await story.repository(repository, CALCULATOR)
        await story.push(repository, BROKEN)
        await story.healed(repository)
