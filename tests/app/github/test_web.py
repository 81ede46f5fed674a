"""A public pull request is read without credentials, and never more of it than is sensible."""

from __future__ import annotations

from app.github.web import PullAddress, pull_text
from tests.standins.github import GitHub as StandIn

NAME = "acme/sample"


async def test_the_text_of_a_public_pull_request() -> None:
    async with StandIn() as standin:
        await standin.create_repository(NAME, {"a.py": "x = 1\n"})
        await standin.push(NAME, "topic", {"a.py": "x = 2\n"})
        short = await standin.open_pull(NAME, "topic", body="The receipt.")
        address = PullAddress.of(f"{standin.world.site}/{NAME}/pull/{short.number}")
        assert address is not None
        assert await pull_text(address, standin.url) == "The receipt."
        short.issue.body = "x" * (5 << 20)
        assert await pull_text(address, standin.url) is None
        standin.repository(NAME).private = True
        assert await pull_text(address, standin.url) is None
